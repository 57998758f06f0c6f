"""What is compiled with quick passes is the same, and Numba is left as it was found."""

import numba
import numpy as np
import pytest
from numba.core.compiler import Flags

from mjhmc_numba.kernel.quick_passes import REPLACED, quick_passes


def sums():
    """A function with loops, branches and tuples, not compiled yet."""

    @numba.njit
    def summed(x):
        total, largest = 0.0, (0, x[0])
        for k in range(x.size):
            if x[k] < 0.0:
                continue
            total += x[k]
            if x[k] > largest[1]:
                largest = (k, x[k])
        return total, largest

    return summed


def test_the_code_is_the_same():
    quick, usual = sums(), sums()
    x = np.array([1.0, -2.0, 5.0, 3.0])
    with quick_passes():
        assert quick(x) == (9.0, (2, 5.0))
    assert usual(x) == (9.0, (2, 5.0))
    # The code that Numba hands to LLVM, but for the numbers of functions in names.
    lengths = [len(f.inspect_llvm(f.signatures[0]).splitlines()) for f in (quick, usual)]
    assert lengths[0] == lengths[1]


def test_generators_and_object_mode_compile():
    @numba.njit
    def squares(n):
        for k in range(n):
            yield k * k

    @numba.njit
    def through_python(n):
        total = 0
        for k in squares(n):
            with numba.objmode(number="int64"):
                number = int(str(k))
            total += number
        return total

    with quick_passes():
        assert through_python(4) == 14


def test_equal_flags_are_equal_and_hash_as_before():
    usual, other = Flags(), Flags()
    same = Flags()
    same.nrt = Flags.options["nrt"].default  # set, and to what it is anyway
    other.nrt = not same.nrt
    numbers = [hash(flags) for flags in (usual, same, other)]
    with quick_passes():
        assert usual == same
        assert usual != other
        assert usual != "flags"
        assert [hash(flags) for flags in (usual, same, other)] == numbers


def test_numba_is_left_as_it_was_found():
    def methods():
        return [getattr(owner, name) for owner, name, _ in REPLACED]

    before = methods()
    with quick_passes():
        assert all(a is not b for a, b in zip(methods(), before, strict=True))
    with pytest.raises(KeyError), quick_passes():
        raise KeyError
    assert methods() == before
