"""What is compiled with shortcuts computes and raises the same, but for the words of a message."""

import numba
import numpy as np
import pytest
from numba.core.untyped_passes import InlineInlinables

from mjhmc_numba.kernel.shortcuts import shortcuts


def assign():
    """A function that assigns an array to a slice, not compiled yet."""

    @numba.njit
    def assigned(x, y):
        x[:] = y
        return x.sum()

    return assigned


def caller():
    """A function of one that is marked to be inlined, and a list of how often that was."""
    copies = []

    @numba.njit(inline=lambda call, mine, its: copies.append(call) or True)
    def inlined(x):
        return 2.0 * x + 1.0

    @numba.njit
    def calls(x):
        return inlined(x) * inlined(-x)

    return calls, copies


def test_a_slice_of_another_size_raises_without_the_text_of_the_shapes():
    short, usual = assign(), assign()
    with shortcuts():
        assert short(np.zeros(3), np.ones(3)) == 3.0
    assert usual(np.zeros(3), np.ones(3)) == 3.0
    with pytest.raises(ValueError, match=r"^cannot assign slice from input of different size$"):
        short(np.zeros(3), np.ones(2))
    with pytest.raises(ValueError, match=r"slice of shape \(\d,\) from input of shape"):
        usual(np.zeros(3), np.ones(2))


@pytest.mark.parametrize("inlining", [False, True])
def test_numba_inlines_nothing_unless_asked(inlining):
    short, copies = caller()
    with shortcuts(inlining=inlining):
        assert short(0.5) == 0.0
    assert bool(copies) == inlining
    usual, copies = caller()
    assert usual(0.5) == 0.0
    assert len(copies) == 2


def test_numba_is_left_as_it_was_found():
    before = InlineInlinables.run_pass
    with pytest.raises(KeyError), shortcuts():
        raise KeyError
    assert InlineInlinables.run_pass is before
