"""What a chain tells of its draws as they come."""

import math

import numpy as np
import pytest

from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.pymc.watch import ALL_DIMENSIONS, FIRST_LOOK, Watch
from mjhmc_numba.settings import Settings
from mjhmc_numba.warmup.tuner import first_guess
from tests.synthetic import autoregression

NDIM = 20
LABELS = [f"x[{k}]" for k in range(NDIM)]
ROW = [0.0] * len(STAT_NAMES)
TUNED = first_guess(Settings(), NDIM)


def watched(watch, draws):
    """What is told of these draws: {number of the draw: message}."""
    told = {}
    for n, x in enumerate(draws, start=1):
        advice = watch.advice(ROW, x, math.nan, TUNED)
        if advice is not None:
            told[n] = advice[1]
    return told


def chain(rho, n, seed):
    """One chain whose dimensions are correlated by rho from draw to draw."""
    return autoregression(rho, n, np.random.default_rng(seed), chains=1)[0]


def slow_in(dimension, rho):
    return np.where(np.arange(NDIM) == dimension, rho, 0.2)


def test_a_slow_dimension_is_told_at_the_first_look_and_only_once(seeds):
    draws = chain(slow_in(13, 0.98), 4 * FIRST_LOOK, seeds(1))
    told = watched(Watch(LABELS), draws)
    assert list(told) == [FIRST_LOOK]
    assert "in x[13] or its square" in told[FIRST_LOOK]
    assert "reparameterize" in told[FIRST_LOOK]


def test_a_dimension_whose_spread_changes_slowly_is_told(seeds):
    """Its signs are independent, but its sizes are not."""
    rng = np.random.default_rng(seeds(2))
    n = 2 * FIRST_LOOK
    draws = rng.normal(size=(n, NDIM))
    draws[:, 4] = rng.choice([-1.0, 1.0], n) * np.exp(0.5 * chain(np.array([0.99]), n, rng)[:, 0])
    (message,) = watched(Watch(LABELS), draws).values()
    assert "in x[4] or its square" in message


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.6])
def test_nothing_is_told_of_draws_that_mix(seeds, rho):
    for k in range(20):
        draws = chain(np.full(NDIM, rho), 2 * FIRST_LOOK, seeds(3, k))
        assert watched(Watch(LABELS), draws) == {}


def test_it_looks_whenever_the_draws_have_doubled(seeds):
    """A chain that begins to creep late is told of at the next look."""
    rng = np.random.default_rng(seeds(4))
    begins = FIRST_LOOK + 1
    draws = rng.normal(size=(5 * FIRST_LOOK, NDIM))
    draws[begins:, :] = 2.0
    told = watched(Watch(LABELS), draws)
    assert list(told) == [2 * FIRST_LOOK]


def test_it_keeps_only_the_slow_dimensions(seeds):
    watch = Watch([f"x[{k}]" for k in range(100)])
    watched(watch, chain(np.full(100, 0.1), ALL_DIMENSIONS + 10, seeds(5)))
    assert len(watch.kept) == ALL_DIMENSIONS + 10
    assert sum(x.size for x in watch.kept) < 0.4 * 100 * len(watch.kept)


@pytest.mark.parametrize("at", [0, 10, ALL_DIMENSIONS + 5])
def test_what_was_saved_goes_on_as_before(seeds, at):
    draws = chain(slow_in(7, 0.98), FIRST_LOOK, seeds(6))
    watch, other = Watch(LABELS), Watch(LABELS)
    watched(watch, draws[:at])
    other.load(watch.save())
    told = watched(other, draws[at:])
    assert told == watched(watch, draws[at:])
    assert len(told) == 1
