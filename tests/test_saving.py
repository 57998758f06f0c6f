"""Saved objects are plain data, share no memory, and go on as if they had never been saved."""

import copy
import doctest
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from mjhmc_numba import saving
from mjhmc_numba.saving import GIVEN, load, save


class Pair(NamedTuple):
    values: np.ndarray
    total: int = 0


@dataclass
class Inner:
    settings: Any = field(metadata=GIVEN)
    count: int = 0


@dataclass
class Outer:
    settings: Any = field(metadata=GIVEN)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    pair: Pair | None = None
    pairs: list[Pair] = field(default_factory=list)
    range: tuple[float, float] = (0.0, 1.0)
    sizes: tuple[int, ...] = ()
    by_name: dict[str, Pair] = field(default_factory=dict)
    inner: Inner | None = None
    later: float = field(default=0.0, init=False)


def example():
    outer = Outer("the user's", pair=Pair(np.arange(3.0), 2), inner=Inner("the user's", 7))
    outer.pairs = [Pair(np.zeros((2, 1), np.int64)), Pair(np.ones(1))]
    outer.sizes, outer.by_name = (1, 2, 3), {"a": Pair(np.full(2, np.nan))}
    outer.later = np.float64(2.5)
    return outer


def is_plain(value):
    if isinstance(value, dict):
        return all(type(k) is str and is_plain(v) for k, v in value.items())
    if type(value) is list:
        return all(is_plain(v) for v in value)
    return type(value) in (np.ndarray, bool, int, float, str, bytes, type(None))


def test_what_is_saved_is_plain():
    saved = save(example())
    assert is_plain(saved)
    assert "settings" not in saved
    assert "settings" not in saved["inner"]


def test_what_is_loaded_is_what_was_saved():
    one = example()
    other = load(Outer, save(one), settings="the same")
    assert other.settings == other.inner.settings == "the same"
    assert type(other.pair) is Pair
    assert [type(pair) for pair in other.pairs] == [Pair, Pair]
    assert other.pairs[0].values.dtype == np.int64
    assert (other.range, other.sizes, other.later) == ((0.0, 1.0), (1, 2, 3), 2.5)
    np.testing.assert_array_equal(other.by_name["a"].values, [np.nan, np.nan])
    assert one.rng.random() == other.rng.random()
    np.testing.assert_equal(save(other), save(one))


def test_nothing_is_shared():
    one = example()
    saved = save(one)
    before = copy.deepcopy(saved)
    other = load(Outer, saved, settings=None)
    one.pair.values[:] = 9.0
    other.pair.values[:] = 8.0
    one.rng.random()
    np.testing.assert_equal(saved, before)


def test_a_field_that_is_given_must_be_given():
    with pytest.raises(TypeError, match="settings"):
        load(Outer, save(example()))


def test_an_attribute_that_is_no_field_is_refused():
    one = example()
    one.forgotten = 1
    with pytest.raises(TypeError, match="forgotten"):
        save(one)


@pytest.mark.parametrize("saved", [{"count": 1, "more": 1}, {}])
def test_what_another_version_saved_is_refused(saved):
    with pytest.raises(ValueError, match="version"):
        load(Inner, saved, settings=None)


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([None]), lambda: None])
def test_what_cannot_be_saved_is_refused(value):
    with pytest.raises(TypeError, match="cannot be saved"):
        save(value)


def test_the_examples_run():
    assert doctest.testmod(saving, extraglobs={"np": np}).failed == 0
