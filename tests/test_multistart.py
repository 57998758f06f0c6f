"""Several starts: short runs from dispersed points."""

import math

import numpy as np
import pytest
from numba import njit

from mjhmc_numba import targets
from mjhmc_numba.coordinates import Draws
from mjhmc_numba.density import as_target
from mjhmc_numba.initial import (
    ENOUGH_RUNS,
    Multistart,
    Region,
    end_level,
    has_burnt_in,
    log_mass,
)
from mjhmc_numba.saving import load, save
from mjhmc_numba.settings import Settings
from tests.warmup.test_tuner import warm_up


def ended_at(end, ndim=2, n=24):
    return Draws(np.zeros((n, ndim)), np.zeros((n, ndim)), np.full(n, float(end)))


def multistart(*ends):
    """Two-dimensional: ends 20 apart are far apart, those 5 apart are alike."""
    tried = Multistart(Region.anywhere(2))
    for end in ends:
        tried.add(ended_at(end))
    return tried


def rising(end, ndim=2, n=24):
    """A run that has not burnt in."""
    return Draws(np.zeros((n, ndim)), np.zeros((n, ndim)), end + 100.0 * np.arange(-n + 1.0, 1.0))


def test_it_takes_some_that_have_burnt_in():
    tried = multistart()
    for k in range(ENOUGH_RUNS):
        assert k == 0 or not tried.enough
        tried.add(ended_at(0))
        if k == 0:
            tried.add(rising(0))  # does not count
    assert tried.enough


def test_there_are_no_more_than_there_is_room_for():
    tried = multistart(0)
    while not tried.enough:
        tried.add(rising(0))
    assert len(tried.tried) == tried.most
    short = Multistart(Region.anywhere(2), most_draws=70)
    for k in range(2):
        assert k == 0 or not short.enough
        short.add(rising(0))
    short.add(rising(0))
    assert short.enough  # another would make 96


def test_a_run_that_rises_has_not_burnt_in_and_is_judged_only_if_it_is_far_higher():
    assert has_burnt_in(ended_at(0))
    assert not has_burnt_in(rising(0))
    tried = multistart(0)
    tried.add(rising(5))
    assert tried.best is tried.tried[0]
    tried.add(rising(1000))
    assert tried.best is tried.tried[2]


def spread_out(end, scale, centre=0.0, n=24):
    """Draws of a normal with this scale, around a centre."""
    x = centre + scale * np.random.default_rng(3).normal(size=(n, 2))
    return Draws(x, -(x - centre) / scale**2, np.full(n, float(end)))


def test_volume_counts_as_density_does():
    """A narrow mode that is higher, and a wide one that holds more mass."""
    tried = Multistart(Region.anywhere(2))
    tried.add(spread_out(10, 1e-12))
    tried.add(spread_out(0, 1.0))
    assert tried.best is tried.tried[1]
    assert log_mass(tried.tried[1]) - log_mass(tried.tried[0]) == pytest.approx(
        2 * math.log(1e12) - 10, abs=2
    )


def test_what_lies_behind_a_gap_is_told_with_its_mass():
    tried = Multistart(Region.anywhere(2))
    for end, centre in ((0, 0.0), (-3, 50.0), (-1, 0.0)):
        tried.add(spread_out(end, 1.0, centre))
    ((mass, end),) = tried.elsewhere(lambda x: Draws(x, x, -1e3 if 20 < x[0] < 30 else 0.0))
    assert mass == pytest.approx(-3, abs=1e-6)
    assert 45 < end[0] < 55
    assert tried.elsewhere(lambda x: Draws(x, x, 0.0)) == []


@pytest.mark.parametrize(
    ("ends", "best"), [((0, -5), 0), ((-5, 0), 0), ((-30, 0), 1), ((-30, -3, 0), 1)]
)
def test_the_first_of_the_highest_is_taken(ends, best):
    tried = multistart(*ends)
    assert tried.best is tried.tried[best]


def test_other_starts_are_in_the_region_and_finite(seeds):
    tried = Multistart(Region(np.array([5.0, -5.0]), 0.5))
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
    assert again.region.spread == tried.region.spread
    np.testing.assert_array_equal(again.region.centre, tried.region.centre)
    assert [end_level(run) for run in again.tried] == [-30, 0]
    assert not again.enough


def test_the_warm_up_stays_as_long_as_asked(seeds, monkeypatch):
    target, runs = as_target(targets.gaussian([0.01, 0.02])), []
    add = Multistart.add
    monkeypatch.setattr(Multistart, "add", lambda self, run: (runs.append(run), add(self, run)))
    process, tuner = warm_up(target, Settings(), 300, seeds(181), x0=np.array([3.0, 3.0]))
    assert tuner.is_done
    assert process.tuned.starts.tried == len(runs) > 1
    # The windows are those after the last start, and all starts count.
    planned = sum(window.draws for window in tuner.plan)
    assert planned + sum(len(run.x) for run in runs[:-1]) == 300
    # Draws of the starts that were not taken are forgotten.
    assert tuner.history.total - (planned - len(runs[-1].x)) in {len(run.x) for run in runs}


@njit
def two_modes(x, grad):
    """At (10, 0), and one at (-10, 0) that is lower by 40."""
    high = -0.5 * ((x[0] - 10) ** 2 + x[1] ** 2)
    low = -40 - 0.5 * ((x[0] + 10) ** 2 + x[1] ** 2)
    share = 1 / (1 + math.exp(low - high)) if low - high < 700 else 0.0
    grad[0] = -share * (x[0] - 10) - (1 - share) * (x[0] + 10)
    grad[1] = -x[1]
    return max(high, low) + math.log1p(math.exp(-abs(high - low)))


def test_fewer_chains_end_in_a_minor_mode(seeds):
    target = as_target(two_modes, 2)
    minor = {}
    for starts in (1, 5):
        minor[starts] = 0
        for chain in range(200):
            x0 = np.array([-2.0, 60.0])  # on the ridge between the two
            process, _ = warm_up(target, Settings(starts=starts), 300, seeds(182, chain), x0=x0)
            minor[starts] += process.x[0] < 0
            assert process.tuned.starts.tried <= starts
    assert minor[1] > 30
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
    # 44 / 60 of the region lie in its basin.
    expected = (44 / 60) ** (ENOUGH_RUNS - 1)
    assert abs(minor[30.0] - expected) < 4 * math.sqrt(expected * (1 - expected) / 40)
