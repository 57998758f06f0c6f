"""The clocks: both ways to simulate agree in law, and rings and refreshes come as often as said."""

import itertools
import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from mjhmc_numba.density import as_target
from mjhmc_numba.process import Process, random_words
from tests.kernel.processes import (
    COLUMN,
    label,
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


class Replicates:
    """Many processes from one point: where they end, what they did, when they first moved."""

    def __init__(self, target, chosen, seed):
        values = tuned(NDIM, step_size=0.9, refresh_rate=0.2, draw_interval=0.75)
        self.ends, self.energies, self.events, self.first_move = [], [], [], []
        for child in seed.spawn(REPLICATES):
            process = Process(target, chosen, values, random_words(child))
            process.start(np.array([-1.0, 2.0]))
            draws, columns = run(process, 8)
            self.ends.append(draws[-1])
            self.energies.append(columns[-1, COLUMN["energy"]])
            self.events.append(columns[:, [COLUMN["n_L"], COLUMN["n_R"]]].sum(axis=0))
            self.first_move.append(np.argmax(np.append(columns[:, COLUMN["n_L"]], 1) > 0))
        self.ends, self.events = np.array(self.ends), np.array(self.events)

    def same_waiting_times(self, other):
        """P-value of equal laws of the time to the first move, counted in ticks."""
        table = [np.bincount(r.first_move, minlength=9) for r in (self, other)]
        return stats.chi2_contingency(table).pvalue


@pytest.mark.parametrize("name", BOUNDED)
def test_thinning_and_competing_exponentials_agree_in_law(seeds, target, name):
    ways = [
        settings(**BOUNDED[name], method="thinning", clock="poisson"),
        settings(**BOUNDED[name], method="competing"),
    ]
    one, other = (Replicates(target, way, seeds(20, k)) for k, way in enumerate(ways))
    for k in range(NDIM):
        assert stats.ks_2samp(one.ends[:, k], other.ends[:, k]).pvalue > P_VALUE
    assert stats.ks_2samp(one.energies, other.energies).pvalue > P_VALUE
    assert one.same_waiting_times(other) > P_VALUE
    difference = one.events.mean(axis=0) - other.events.mean(axis=0)
    error = np.sqrt((one.events.var(axis=0) + other.events.var(axis=0)) / REPLICATES)
    assert np.all(np.abs(difference) < 5 * error)


def test_the_comparison_of_laws_tells_other_rates(seeds, target):
    """The same test, between processes that differ: it must be able to fail."""
    ways = [settings(rates="metropolis", clock="poisson"), settings(rates="sqrt")]
    one, other = (Replicates(target, way, seeds(21, k)) for k, way in enumerate(ways))
    assert one.same_waiting_times(other) < P_VALUE


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
    ids=label,
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
    ("chosen", "rings"), [({"rates": "metropolis"}, 1.0), ({"rates": "barker"}, 2.0)], ids=label
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


def test_regular_refreshes_fall_on_draws_that_are_as_far_apart(flat_target):
    values = tuned(1, refresh_rate=0.2, draw_interval=5.0)
    process = started(flat_target, settings(), values, 3)
    _, columns = run(process, 200)
    assert np.all(columns[:, COLUMN["n_L"]] == 5)
    assert np.all(columns[:, COLUMN["n_R"]] == 1)
    # A refresh has just been: no move since.
    assert process["high"] == process["low"]


def test_a_new_ladder_after_other_clocks_begins_with_them(flat_target):
    process = started(flat_target, settings(), tuned(1, refresh_rate=0.01), 3)
    run(process, 7)
    process.configure(process.tuned.replace(refresh_rate=0.25, draw_interval=4.0))
    process.restart()
    assert process["next_ring"] - process["now"] == pytest.approx(0.5, abs=1e-9)
    assert process["next_refresh"] - process["now"] == pytest.approx(4.0, abs=1e-9)
    _, columns = run(process, 50)
    assert np.all(columns[:, COLUMN["n_R"]] == 1)


def test_the_energy_error_of_a_draw_at_a_refresh_is_that_of_the_path_it_ends():
    target = skewed_target(2)
    values = tuned(2, step_size=0.9, refresh_rate=0.25, draw_interval=4.0)
    process = started(target, settings(), values, 4)
    _, columns = run(process, 300)
    errors = columns[:, COLUMN["energy_error"]]
    moved = columns[:, COLUMN["n_L"]] > 0
    # It is 0 only where flips led back to where the path began.
    assert np.mean(errors[moved] != 0) > 0.5
    # Rungs are accepted by their errors, so those of a path stay small.
    assert np.abs(errors).max() < 5


@pytest.mark.parametrize("rate", [0.125, 0.3])
def test_regular_refreshes_are_whole_rings_apart_and_keep_their_rate(seeds, flat_target, rate):
    chosen = settings(refresh_jitter=0.4)
    values = tuned(1, refresh_rate=rate, draw_interval=1.0)
    process = started(flat_target, chosen, values, seeds(24))
    due = [process["next_refresh"]]
    for _ in range(10_000):
        run(process, 1)
        if process["next_refresh"] != due[-1]:
            due.append(process["next_refresh"])
    assert (process["next_refresh"] - process["next_ring"]) % 1 == pytest.approx(0.5, abs=1e-8)
    gaps = np.diff(due)
    np.testing.assert_allclose(gaps, np.round(gaps), atol=1e-8)
    assert gaps.min() > 0.6 / rate - 1
    assert gaps.max() < 1.4 / rate + 1
    assert len(set(np.round(gaps))) > 2
    error = gaps.std() / math.sqrt(gaps.size)
    assert abs(gaps.mean() - 1 / rate) < 5 * error


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
