"""The clocks: both ways to simulate agree in law, and rings and refreshes come as often as said."""

import itertools
import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from mjhmc_numba.process import Process, random_words
from mjhmc_numba.target import as_target
from tests.kernel.processes import (
    COLUMN,
    own_bounded_g,
    own_unbounded_g,
    run,
    settings,
    skewed_target,
    started,
    tuned,
)

P_VALUE = 2 * stats.norm.sf(5)
REPLICATES = 1500
NDIM = 2

BOUNDED = {
    "metropolis": {"rates": "metropolis"},
    "barker": {"rates": "barker"},
    "own": {"rates": own_bounded_g, "rates_bound": 1.0},
}


@njit
def flat(x, grad):
    for j in range(x.size):
        grad[j] = 0.0
    return 0.0


@pytest.fixture(scope="module")
def target():
    return skewed_target(NDIM)


@pytest.fixture(scope="module")
def flat_target():
    return as_target(flat, 1)


def replicate(target, chosen, values, seed, x0):
    """The first tick of many processes from one point: draws, statistics, first holding time."""
    draws, columns, holding = [], [], []
    for child in seed.spawn(REPLICATES):
        process = Process(target, chosen, values, random_words(child), record=200)
        process.start(x0)
        draw, row = run(process, 1)
        draws.append(draw[0])
        columns.append(row[0])
        # A state that is not left in the tick has been held for the tick at the least.
        first = process.record_holding[0, 0] if process["recorded"] else math.inf
        holding.append(min(first, values.draw_interval))
    return np.array(draws), np.array(columns), np.array(holding)


@pytest.mark.parametrize("name", BOUNDED)
def test_thinning_and_competing_exponentials_agree_in_law(seeds, target, name):
    values = tuned(NDIM, step_size=0.9, refresh_rate=0.2, draw_interval=6.0)
    x0 = np.array([-1.0, 2.0])
    ways = [
        settings(**BOUNDED[name], method="thinning", clock="poisson"),
        settings(**BOUNDED[name], method="competing"),
    ]
    one, other = (
        replicate(target, way, values, seeds(20, k), x0) for k, way in enumerate(ways)
    )
    for k in range(NDIM):
        assert stats.ks_2samp(one[0][:, k], other[0][:, k]).pvalue > P_VALUE
    energy = COLUMN["energy"]
    assert stats.ks_2samp(one[1][:, energy], other[1][:, energy]).pvalue > P_VALUE
    assert stats.ks_2samp(one[2], other[2]).pvalue > P_VALUE
    for event in ("n_L", "n_F", "n_R"):
        a, b = one[1][:, COLUMN[event]], other[1][:, COLUMN[event]]
        error = math.sqrt((a.var() + b.var()) / REPLICATES)
        assert abs(a.mean() - b.mean()) < 5 * error


def test_the_comparison_of_laws_tells_other_rates(seeds, target):
    """The same test, between processes that differ: it must be able to fail."""
    values = tuned(NDIM, step_size=0.9, refresh_rate=0.2, draw_interval=6.0)
    x0 = np.array([-1.0, 2.0])
    ways = [settings(rates="metropolis", clock="poisson"), settings(rates="sqrt")]
    one, other = (
        replicate(target, way, values, seeds(21, k), x0) for k, way in enumerate(ways)
    )
    assert stats.ks_2samp(one[2], other[2]).pvalue < P_VALUE


@pytest.mark.parametrize(
    ("chosen", "rate"),
    [
        ({"rates": "sqrt"}, 1.0),
        ({"rates": "metropolis", "clock": "poisson"}, 1.0),
        ({"rates": "metropolis", "method": "competing"}, 1.0),
        ({"rates": "barker", "clock": "poisson"}, 1.0),
        ({"rates": "barker", "method": "competing"}, 1.0),
        ({"rates": own_bounded_g, "rates_bound": 1.0, "clock": "poisson"}, 2 / 3),
        ({"rates": own_unbounded_g}, 1.0),
    ],
    ids=str,
)
def test_moves_and_refreshes_are_poisson_on_a_flat_density(seeds, flat_target, chosen, rate):
    process = started(
        flat_target, settings(**chosen), tuned(1, refresh_rate=0.25, draw_interval=4.0), seeds(22)
    )
    _, columns = run(process, 20_000)
    for event, mean in (("n_L", 4 * rate), ("n_R", 1.0), ("n_F", 0.0)):
        counts = columns[:, COLUMN[event]]
        assert abs(counts.mean() - mean) <= 5 * math.sqrt(mean / counts.size)
        # The variance of a Poisson count is its mean; its standard error is near mean sqrt(3/n).
        error = math.sqrt((mean + 2 * mean**2) / counts.size)
        assert abs(counts.var() - mean) <= 5 * error


@pytest.mark.parametrize(
    ("chosen", "rings"), [({"rates": "metropolis"}, 1.0), ({"rates": "barker"}, 2.0)], ids=str
)
def test_a_regular_clock_rings_at_equal_gaps(flat_target, chosen, rings):
    values = tuned(1, draw_interval=3.5, refresh_rate=1e-9)
    process = started(flat_target, settings(**chosen), values, 1)
    gaps = []
    last = process["next_ring"]
    assert 0 < last < 1 / rings
    for _ in range(50):
        run(process, 1)
        gaps.append(process["next_ring"] - last)
        last = process["next_ring"]
    multiples = np.array(gaps) * rings
    np.testing.assert_allclose(multiples, np.round(multiples), atol=1e-9)
    assert multiples.sum() == pytest.approx(50 * 3.5 * rings, abs=1)


def test_a_regular_clock_moves_at_every_ring_of_a_flat_density(flat_target):
    process = started(flat_target, settings(), tuned(1, draw_interval=4.0), 2)
    _, columns = run(process, 1000)
    assert np.all(columns[:, COLUMN["n_L"]] == 4)


def test_the_phase_of_a_regular_clock_is_uniform(seeds, flat_target):
    first = [
        started(flat_target, settings(), tuned(1), child)["next_ring"]
        for child in seeds(23).spawn(2000)
    ]
    assert stats.kstest(first, "uniform").pvalue > P_VALUE


def test_regular_refreshes_keep_their_gap_and_jitter(seeds, flat_target):
    chosen = settings(refresh_jitter=0.4)
    process = started(flat_target, chosen, tuned(1, refresh_rate=0.5), seeds(24), record=40_000)
    run(process, 10_000)
    n = process["recorded"]
    times = np.cumsum(process.record_holding[:n, 0])[process.record_event[:n] == 3]
    gaps = np.diff(times) * 0.5
    assert gaps.min() > 0.6
    assert gaps.max() < 1.4
    assert stats.kstest(gaps, "uniform", (0.6, 0.8)).pvalue > P_VALUE


def test_draws_do_not_depend_on_how_they_are_asked_for(target):
    for chosen in (settings(), settings(clock="poisson"), settings(rates="sqrt")):
        at_once, _ = run(started(target, chosen, tuned(NDIM), 3), 100)
        process = started(target, chosen, tuned(NDIM), 3)
        in_pieces = np.concatenate([run(process, k)[0] for k in (1, 9, 40, 50)])
        np.testing.assert_array_equal(at_once, in_pieces)


def test_the_acceptance_rate_is_that_of_a_move_averaged_over_time(seeds, target):
    values = tuned(NDIM, step_size=0.6, draw_interval=200.0)
    rates = []
    for k, chosen in enumerate(
        (settings(), settings(clock="poisson"), settings(method="competing"))
    ):
        process = started(target, chosen, values, seeds(25, k))
        _, columns = run(process, 400)
        per_tick = columns[:, COLUMN["acceptance_rate"]]
        rates.append((per_tick.mean(), per_tick.std() / math.sqrt(per_tick.size)))
        assert per_tick.min() >= 0
        assert per_tick.max() <= 1
    for (one, error), (other, other_error) in itertools.combinations(rates, 2):
        assert 0.7 < one < 0.97
        assert abs(one - other) < 5 * math.hypot(error, other_error)
