"""Densities that are not finite or raise, runs that are stopped, draws that cost too much."""

import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from mjhmc_numba.coordinates import Draws
from mjhmc_numba.density import as_target
from mjhmc_numba.errors import SlowDensityWarning
from mjhmc_numba.kernel.layout import DENSITY_RAISED, FINISHED, INTERRUPTED, STAT_NAMES
from mjhmc_numba.process import Process
from mjhmc_numba.tuned import INTEGRATORS
from tests.kernel.processes import (
    COLUMN,
    label,
    own_bounded_g,
    run,
    settings,
    skewed_target,
    standard_normal,
    started,
    tuned,
    words,
)
from tests.statistical.estimates import batch_z

EDGE = 0.4
SIMULATIONS = [
    {},
    {"clock": "poisson"},
    {"rates": "sqrt"},
    {"rates": "barker", "method": "competing"},
    {"rates": own_bounded_g, "rates_bound": 1.0},
    {"refine_levels": 3, "refine_threshold": 0.2},
]
every_simulation = pytest.mark.parametrize("simulation", SIMULATIONS, ids=label)


@njit
def cut_normal(x, grad, outside):
    """A normal density up to an edge; beyond, logp = `outside`, or a gradient of NaN if it is 0."""
    logp = 0.0
    for j in range(x.size):
        grad[j] = -x[j]
        logp -= 0.5 * x[j] * x[j]
    if x[0] > EDGE:
        if outside == 0.0:
            grad[0] = np.nan
        else:
            logp = outside
    return logp


@njit
def raises_far_out(x, grad):
    if x[0] > 2.0:
        raise ValueError("too far")
    grad[0] = -x[0]
    return -0.5 * x[0] * x[0]


def empty(draws, ndim):
    return np.empty((draws, ndim)), np.empty((draws, len(STAT_NAMES)))


@every_simulation
@pytest.mark.parametrize("outside", [math.nan, -math.inf, math.inf, 0.0])
def test_a_density_that_is_not_finite_beyond_an_edge_is_a_cut_density(seeds, simulation, outside):
    target = as_target(cut_normal, 2, (outside,))
    values = tuned(2, step_size=0.35, refresh_rate=0.4)
    process = started(target, settings(**simulation), values, seeds(40), x0=-np.ones(2))
    run(process, 100)
    draws, columns = run(process, 40_000)
    assert draws[:, 0].max() <= EDGE
    assert columns[:, COLUMN["n_diverging"]].sum() > 1000
    assert process["all_divergences"] >= columns[:, COLUMN["n_diverging"]].sum()
    cut = stats.truncnorm(-math.inf, EDGE)
    assert abs(batch_z(draws[:, 0], cut.mean())) < 5
    assert abs(batch_z((draws[:, 0] - cut.mean()) ** 2, cut.var())) < 5
    assert abs(batch_z(draws[:, 0] < -1.5, cut.cdf(-1.5))) < 5
    assert abs(batch_z(draws[:, 1], 0.0)) < 5
    assert abs(batch_z(draws[:, 1] ** 2, 1.0)) < 5


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("outside", [0.0, -math.inf, math.nan])
def test_no_integrator_goes_where_the_density_or_its_gradient_is_not_finite(integrator, outside):
    target = as_target(cut_normal, 2, (outside,))
    process = started(target, settings(), tuned(2, integrator=integrator, step_size=0.5), 5)
    draws, _ = run(process, 500)
    assert draws[:, 0].max() <= EDGE
    assert draws[:, 0].min() < -1


def test_a_trial_step_out_of_the_support_gains_nothing_and_errs_without_end():
    process = started(as_target(cut_normal, 2, (-math.inf,)), settings(), tuned(2), 6)
    draw = process.evaluate(np.array([EDGE - 0.1, 0.0]))
    draws = Draws(*(np.repeat(np.asarray(part)[None], 40, axis=0) for part in draw[:3]))
    errors, gains = process.probe(draws, "leapfrog", 0.5)
    left = np.isinf(gains)
    assert 10 < left.sum() < 40
    assert np.all(gains[left] == -math.inf)
    assert np.all(errors[left] == math.inf)
    assert np.all(np.isfinite(errors[~left]))


def test_steep_but_finite_steps_count_as_divergences():
    target = as_target(standard_normal, 1)
    process = started(target, settings(), tuned(1, step_size=5.0, num_steps=6), 1)
    _, columns = run(process, 100)
    assert columns[:, COLUMN["n_diverging"]].sum() > 0
    assert columns[:, COLUMN["n_L"]].sum() == 0


@pytest.mark.parametrize(("x0", "least", "most"), [(1.0, 100, 1000), (3.0, 1000, 10_000)])
def test_a_divergence_is_a_step_that_gains_more_than_1000_and_is_kept_where_it_began(
    x0, least, most
):
    values = tuned(1, step_size=5.0, num_steps=1, refresh_rate=1e-6)
    process = started(as_target(standard_normal, 1), settings(), values, 1, x0=np.array([x0]))
    _, columns = run(process, 3)
    here, capacity = int(process["here"]), int(process["capacity"])
    known = [i for i in range(int(process["low"]), int(process["high"]) + 1) if i != here]
    gains = process.levels[0, np.array(known) % capacity] - process.levels[0, here % capacity]
    assert len(known) == 2
    assert np.all((least < gains) & (gains < most))
    assert columns[:, COLUMN["n_diverging"]].sum() == np.sum(gains > 1000)
    began = x0 if least == 1000 else np.nan
    np.testing.assert_array_equal(process.divergence_starts, [[began]])


def test_smooth_paths_count_no_divergence():
    process = started(as_target(standard_normal, 1), settings(), tuned(1), 1)
    _, columns = run(process, 1000)
    assert columns[:, COLUMN["n_diverging"]].sum() == 0


@every_simulation
def test_a_density_that_raises_stops_the_run_and_says_why(simulation):
    target = as_target(raises_far_out, 1)
    process = started(target, settings(**simulation), tuned(1), 2)
    draws, columns = empty(20_000, 1)
    filled, status = process.run(draws, columns)
    assert status == DENSITY_RAISED
    assert 0 < filled < 20_000
    assert np.all(np.isfinite(draws[:filled]))
    error = process.error()
    assert isinstance(error, ValueError)
    assert "too far" in str(error)


def test_a_density_that_raises_at_the_start_raises_there():
    target = as_target(raises_far_out, 1)
    process = Process(target, settings(), tuned(1), words(3))
    with pytest.raises(ValueError, match="too far"):
        process.start(np.array([2.5]))


# The last step is too long to be accepted: a look that comes again must not count twice.
@pytest.mark.parametrize(
    ("simulation", "step_size"), [*((one, 0.4) for one in SIMULATIONS), ({}, 5.0)], ids=label
)
def test_an_aborted_run_goes_on_as_if_it_had_not_been(simulation, step_size):
    """The density itself asks to stop at its 100th call, in the middle of a draw."""
    calls = 0

    def stopping(x):
        nonlocal calls
        calls += 1
        if calls == 100:
            process.abort()
        return -0.5 * x @ x, -x

    with pytest.warns(SlowDensityWarning):
        target = as_target(stopping, 2)
    # Two gradients per rung, so that the 100th is not its last and a look is cut in the middle.
    values = tuned(2, draw_interval=20.0, step_size=step_size, num_steps=2)
    process = started(target, settings(**simulation), values, 5)
    draws, columns = empty(40, 2)
    filled, status = process.run(draws, columns)
    assert status == INTERRUPTED
    assert filled < 40
    assert process.run(draws[filled:], columns[filled:]) == (0, INTERRUPTED)
    process.state["abort"] = 0
    assert process.run(draws[filled:], columns[filled:]) == (40 - filled, FINISHED)
    calls = 1000
    expected_draws, expected_columns = run(started(target, settings(**simulation), values, 5), 40)
    np.testing.assert_array_equal(draws, expected_draws)
    np.testing.assert_array_equal(columns, expected_columns)


@pytest.mark.parametrize("simulation", [{}, {"rates": "sqrt"}], ids=str)
def test_draws_that_cost_too_much_are_cut_short_and_counted(simulation):
    target, values = skewed_target(2), tuned(2, draw_interval=50.0)
    _, columns = run(started(target, settings(max_jumps=10, **simulation), values, 7), 100)
    jumps = columns[:, [COLUMN["n_L"], COLUMN["n_F"], COLUMN["n_R"]]].sum(axis=1)
    assert np.all(jumps <= 11)  # a ring may resolve a pending flip and move
    assert np.all(columns[:, COLUMN["n_capped"]] == 1)
    process = started(target, settings(max_gradients=10, **simulation), values, 7)
    _, columns = run(process, 100)
    assert np.all(columns[:, COLUMN["n_gradients"]] <= 12)
    assert np.all(columns[:, COLUMN["n_capped"]] == 1)
    assert process["now"] == pytest.approx(100 * 50.0)


def test_a_start_far_away_neither_hangs_nor_freezes():
    for simulation in SIMULATIONS[:5]:
        chosen = settings(max_gradients=10_000, **simulation)
        process = started(as_target(standard_normal, 1), chosen, tuned(1), 8, np.array([1e6]))
        draws, _ = run(process, 400)
        assert np.all(np.isfinite(draws))
        assert abs(draws[-1, 0]) < 10
