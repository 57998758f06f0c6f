"""Several starts: short runs from dispersed points."""

import functools
import math

import numpy as np
import pytest
from numba import njit

from mjhmc_numba import targets
from mjhmc_numba.coordinates import Draws
from mjhmc_numba.density import as_target
from mjhmc_numba.initial import Multistart, Region, end_level
from mjhmc_numba.saving import load, save
from mjhmc_numba.settings import Settings
from mjhmc_numba.warmup import tuner as tuner_module
from tests.warmup.test_tuner import warm_up


def ended_at(end, ndim=2, n=24):
    return Draws(np.zeros((n, ndim)), np.zeros((n, ndim)), np.full(n, float(end)))


def multistart(*ends, start=-1e4):
    """Two-dimensional: ends 20 apart are far apart, those 5 apart are alike."""
    tried = Multistart(Region.anywhere(2), start)
    for end in ends:
        tried.add(ended_at(end))
    return tried


@pytest.mark.parametrize(
    ("ends", "enough"),
    [
        ((0,), False),
        ((0, -5), False),
        ((0, -30, -1, -2), False),
        ((0, -30, -35, -1, -2), True),
        ((-30, -30, -30, -30, 0), True),
        ((0, -30, -60, -1, -2), False),  # the third has not burnt in
        ((0, -30, -60, -1, -2, -3), True),
        ((0, -60, -60, -60, -60, -60, -60), False),
        ((0, -60, -60, -60, -60, -60, -60, -60), True),
    ],
)
def test_five_that_burnt_in_are_enough_from_a_start_far_out(ends, enough):
    assert multistart(*ends).enough == enough


@pytest.mark.parametrize(
    ("ends", "enough"), [((0,), False), ((0, -5), False), ((0, -5, 0), True), ((0, -60, 0), False)]
)
def test_three_are_enough_from_a_start_that_is_not_far_out(ends, enough):
    assert multistart(*ends, start=-15).enough == enough
    assert not multistart(*ends, start=-25).enough


@pytest.mark.parametrize(
    ("ends", "best"), [((0, -5), 0), ((-5, 0), 0), ((-30, 0), 1), ((-30, -3, 0), 1)]
)
def test_the_first_of_the_highest_is_taken(ends, best):
    tried = multistart(*ends)
    assert tried.best is tried.tried[best]


def test_other_starts_are_in_the_region_and_finite(seeds):
    tried = Multistart(Region(np.array([5.0, -5.0]), 0.5), 0.0)
    rng = np.random.default_rng(seeds(180))
    seen = []

    def evaluate(x):
        seen.append(x)
        return Draws(x, np.zeros(2), 0.0 if len(seen) % 2 == 0 else -math.inf)

    for _ in range(20):
        x = tried.another_start(rng, evaluate, None)
        assert x is seen[-1]
    assert len(seen) == 40
    away = np.abs(np.array(seen) - [5.0, -5.0])
    assert 0.4 < away.max() <= 0.5
    otherwise = np.ones(2)
    assert (
        tried.another_start(rng, lambda x: Draws(x, np.zeros(2), math.nan), otherwise) is otherwise
    )


def test_runs_are_saved_whole():
    tried = multistart(-30, 0)
    again = load(Multistart, save(tried))
    assert again.logp == tried.logp
    assert again.region.spread == tried.region.spread
    np.testing.assert_array_equal(again.region.centre, tried.region.centre)
    assert [end_level(run) for run in again.tried] == [-30, 0]
    assert not again.enough


def test_the_warm_up_stays_as_long_as_asked(seeds):
    target = as_target(targets.gaussian([0.01, 0.02]))
    _, tuner = warm_up(target, Settings(), 300, seeds(181), x0=np.array([3.0, 3.0]))
    assert tuner.is_done
    # Draws of the starts that were not taken, 10 each, are forgotten.
    kept = tuner.history.total
    assert kept == 260
    assert sum(window.draws for window in tuner.plan) == kept


@njit
def two_modes(x, grad):
    """At (10, 0), and one at (-10, 0) that is lower by 40."""
    high = -0.5 * ((x[0] - 10) ** 2 + x[1] ** 2)
    low = -40 - 0.5 * ((x[0] + 10) ** 2 + x[1] ** 2)
    share = 1 / (1 + math.exp(low - high)) if low - high < 700 else 0.0
    grad[0] = -share * (x[0] - 10) - (1 - share) * (x[0] + 10)
    grad[1] = -x[1]
    return max(high, low) + math.log1p(math.exp(-abs(high - low)))


def test_fewer_chains_end_in_a_minor_mode(seeds, monkeypatch):
    target = as_target(two_modes, 2)
    minor = {}
    for most in (1, 5):
        monkeypatch.setattr(tuner_module, "Multistart", functools.partial(Multistart, most=most))
        minor[most] = 0
        for chain in range(400):
            x0 = np.array([-2.0, 60.0])  # on the ridge between the two
            process, _ = warm_up(target, Settings(), 200, seeds(182, chain), x0=x0)
            minor[most] += process.x[0] < 0
    assert minor[1] > 60
    assert minor[5] < 0.75 * minor[1]


def test_other_starts_begin_where_chains_start(seeds):
    """From a start in the basin of the minor mode: others near by lead there too."""
    target, minor = as_target(two_modes, 2), {}
    for spread in (0.0, 30.0):
        ends = [
            warm_up(
                target,
                Settings(),
                200,
                seeds(183, chain),
                x0=np.array([-14.0, 6.5]),
                spread=spread,
            )[0].x[0]
            for chain in range(40)
        ]
        minor[spread] = np.mean(np.array(ends) < 0)
    assert minor[0.0] > 0.9
    assert minor[30.0] < 0.5
