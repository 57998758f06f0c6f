"""The weighted jump record and the clock draws agree; the record without weights does not."""

import numpy as np
import pytest

from mjhmc_numba import weights
from mjhmc_numba.density import as_target
from mjhmc_numba.settings import Settings
from tests.kernel.processes import run, started
from tests.statistical.cases import CASES
from tests.statistical.estimates import batch_z

CASE = CASES["log_gamma"]
DRAWS = 30_000
PLAIN = {"step_jitter": 0.0, "refine_levels": 0}
SIMULATIONS = {
    "sqrt": PLAIN | {"rates": "sqrt"},
    "metropolis": PLAIN | {"method": "competing"},
    "barker": PLAIN | {"rates": "barker", "method": "competing"},
}


@pytest.fixture(scope="module", params=SIMULATIONS)
def recorded(request, seeds):
    """Draws (n, d), visited states (m, d), holding times (m, 2)."""
    seed = seeds(60, list(SIMULATIONS).index(request.param))
    settings = Settings(**SIMULATIONS[request.param])
    target = as_target(CASE.distribution)
    mean = CASE.distribution.mean
    # Long steps: rates, and so holding times, differ from state to state.
    process = started(target, settings, CASE.tuned(step_size=1.3), seed, mean, record=10 * DRAWS)
    draws, _ = run(process, DRAWS)
    return draws, *process.visits()[:2]


def functions(x):
    """Deviations and squares about the exact mean, and the tail."""
    mean = CASE.distribution.mean
    return np.hstack([x - mean, (x - mean) ** 2, x > CASE.thresholds])


def exact():
    tail = [CASE.survival(j, t) for j, t in enumerate(CASE.thresholds)]
    return np.concatenate([np.zeros(3), CASE.distribution.variance, tail])


def weighted_z(values, holding, expected):
    return (weights.mean(values, holding) - expected) / weights.mcse(values, holding)


def test_time_weighted_states_have_the_moments_of_the_target(recorded):
    _, x, holding = recorded
    for column in (0, 1):
        assert np.abs(weighted_z(functions(x), holding[:, column], exact())).max() < 5


def test_clock_draws_have_the_same_moments_as_the_weighted_record(recorded):
    draws, x, holding = recorded
    at_ticks = functions(draws)
    for k, value in enumerate(exact()):
        assert abs(batch_z(at_ticks[:, k], value)) < 5
    # The two are parts of one path, so they differ by less than the sum of their errors.
    weight = holding[:, 1]
    error = weights.mcse(functions(x), weight) + weights.mcse(at_ticks, np.ones(len(draws)))
    difference = weights.mean(functions(x), weight) - at_ticks.mean(axis=0)
    assert np.all(np.abs(difference) < 5 * error)


def test_states_without_their_weights_are_another_law(recorded):
    _, x, _ = recorded
    unweighted = weighted_z(functions(x), np.ones(len(x)), exact())
    assert np.abs(unweighted).max() > 5


def test_expected_times_are_no_less_accurate_than_sampled_ones(recorded):
    _, x, holding = recorded
    sampled, expected = (weights.mcse(functions(x), holding[:, k]) for k in (0, 1))
    assert np.all(expected < 1.1 * sampled)
    assert np.mean(expected / sampled) < 1


def test_expected_times_sum_to_the_time_that_passed(recorded):
    _, _, holding = recorded
    # Sampled minus expected times are martingale differences.
    gap = holding[:, 0] - holding[:, 1]
    assert abs(gap.sum()) < 5 * np.sqrt(np.sum(gap**2))


def test_resampled_states_have_the_moments_of_the_target(recorded):
    _, x, holding = recorded
    weight = holding[:, 1]
    chosen = functions(x[weights.resample(weight, rng=1)])
    error = weights.mcse(functions(x), weight)
    assert np.all(np.abs(chosen.mean(axis=0) - exact()) < 6 * error)
