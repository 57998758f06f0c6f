"""L is reversible, preserves volume, nearly conserves energy and goes as far as it says."""

import math

import numpy as np
import pytest

from mjhmc_numba.coordinates import Draws
from mjhmc_numba.density import as_target
from mjhmc_numba.kernel.integrators import drift_fraction, integrate, kick_fraction
from mjhmc_numba.kernel.jump import move
from mjhmc_numba.kernel.ladder import neighbour_energy
from mjhmc_numba.kernel.layout import EVENT_F, RESUMABLE
from mjhmc_numba.kernel.metric import draw_momentum
from mjhmc_numba.tuned import INTEGRATORS
from tests.kernel.processes import (
    dense_metric,
    low_rank_metric,
    point_at,
    run,
    settings,
    skewed_target,
    standard_normal,
    started,
    tuned,
)

STAGES = {name: stages for name, (stages, _) in INTEGRATORS.items()}
every_integrator = pytest.mark.parametrize("integrator", INTEGRATORS)
# The rotation follows no gradient: its error is that of its Gaussian, whatever the step.
every_kicking_integrator = pytest.mark.parametrize(
    "integrator", [name for name in INTEGRATORS if name != "rotation"]
)


def process_with(integrator, ndim=3, target=None, **changes):
    target = skewed_target(ndim) if target is None else target
    return started(target, settings(), tuned(ndim, integrator=integrator, **changes), 3)


def total_energy(process, logp, v):
    return 0.5 * v @ process.tuned.metric.covariance() @ v - logp


def walk(process, step_size, num_steps, x, v):
    """Position, momentum and energy after `num_steps` steps."""
    point = point_at(process, x, v)
    raised, logp = integrate(process.state[0], step_size, num_steps, point)
    assert not raised
    return point[0], point[1], total_energy(process, logp, point[1])


def random_state(ndim, seed=4):
    rng = np.random.default_rng(seed)
    return rng.normal(0.5, 0.5, ndim), rng.normal(0, 1, ndim)


@every_integrator
@pytest.mark.parametrize("steps", [1, 10, 100, 1000])
def test_FLFL_is_the_identity(integrator, steps):
    process = process_with(integrator, metric=dense_metric(3))
    x0, v0 = random_state(3)
    x, v, _ = walk(process, 0.2, steps, x0, v0)
    assert np.abs(x - x0).max() > 0.01
    x, v, _ = walk(process, 0.2, steps, x, -v)
    np.testing.assert_allclose(x, x0, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(-v, v0, rtol=1e-10, atol=1e-10)


@every_integrator
def test_a_negative_step_size_gives_FLF(integrator):
    process = process_with(integrator)
    x0, v0 = random_state(3)
    x, v, energy = walk(process, -0.4, 7, x0, v0)
    flipped_x, flipped_v, flipped_energy = walk(process, 0.4, 7, x0, -v0)
    np.testing.assert_array_equal(x, flipped_x)
    np.testing.assert_array_equal(v, -flipped_v)
    assert energy == flipped_energy


@every_integrator
@pytest.mark.parametrize(("ndim", "metric"), [(1, None), (4, low_rank_metric), (10, dense_metric)])
def test_L_preserves_volume(integrator, ndim, metric):
    changes = {} if metric is None else {"metric": metric(ndim)}
    process = process_with(integrator, ndim, **changes)
    z0 = np.concatenate(random_state(ndim))

    def L(z):
        return np.concatenate(walk(process, 0.5, 3, z[:ndim], z[ndim:])[:2])

    h = 1e-5
    columns = [(L(z0 + h * e) - L(z0 - h * e)) / (2 * h) for e in np.eye(2 * ndim)]
    assert abs(np.linalg.det(np.array(columns)) - 1) < 1e-6


@every_kicking_integrator
def test_energy_error_is_of_second_order(integrator):
    process = process_with(integrator)
    errors = []
    for step_size in (0.08, 0.04, 0.02):
        steps = round(2.4 / (step_size * STAGES[integrator]))
        ends = []
        for seed in range(20):
            x, v = random_state(3, seed)
            start = total_energy(process, process.target.logp_and_grad(x)[0], v)
            ends.append(walk(process, step_size, steps, x, v)[2] - start)
        errors.append(math.sqrt(np.mean(np.square(ends))))
    assert errors[0] > 1e-8  # more than rounding
    assert 3.5 < errors[0] / errors[1] < 4.5
    assert 3.8 < errors[1] / errors[2] < 4.2


@every_kicking_integrator
def test_step_size_is_the_length_of_a_path_per_gradient(integrator):
    process = process_with(integrator, 1, as_target(standard_normal, 1))
    before = process["n_gradients"]
    x, v, _ = walk(process, 0.001, 600, np.array([1.0]), np.array([0.5]))
    gradients = process["n_gradients"] - before
    time = 0.001 * gradients
    assert gradients == 600 * STAGES[integrator]
    assert x[0] == pytest.approx(math.cos(time) + 0.5 * math.sin(time), abs=1e-6)
    assert v[0] == pytest.approx(0.5 * math.cos(time) - math.sin(time), abs=1e-6)


def test_a_rotation_moves_exactly_in_its_gaussian_at_the_cost_of_one_evaluation():
    process = process_with("rotation", 1, as_target(standard_normal, 1))
    before = process["n_gradients"]
    x, v, energy = walk(process, 0.3, 4, np.array([1.0]), np.array([0.5]))
    assert process["n_gradients"] - before == 1
    assert x[0] == pytest.approx(math.cos(1.2) + 0.5 * math.sin(1.2), abs=1e-14)
    assert v[0] == pytest.approx(0.5 * math.cos(1.2) - math.sin(1.2), abs=1e-14)
    assert energy == pytest.approx(0.625, abs=1e-14)


def test_more_stages_conserve_energy_better_at_equal_cost():
    target = as_target(standard_normal, 6)
    errors = {}
    for integrator, stages in STAGES.items():
        process = process_with(integrator, 6, target)
        ends = []
        for seed in range(200):
            rng = np.random.default_rng(seed)
            x, v = rng.normal(size=6), rng.normal(size=6)
            start = (x @ x + v @ v) / 2
            ends.append(walk(process, 0.7, 12 // stages, x, v)[2] - start)
        errors[integrator] = np.std(ends)
    assert errors["leapfrog"] > 1.5 * errors["two_stage"]
    assert errors["two_stage"] > 1.5 * errors["three_stage"]


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_fractions_are_palindromes_that_sum_to_1(stages):
    kicks = [kick_fraction(stages, k) for k in range(stages + 1)]
    drifts = [drift_fraction(stages, k) for k in range(stages)]
    for fractions in (kicks, drifts):
        assert sum(fractions) == pytest.approx(1, abs=1e-15)
        assert fractions == fractions[::-1]


def test_a_path_that_leaves_the_support_is_not_walked_to_its_end():
    def undefined_above_1(x):
        return (-0.5 * x @ x if x[0] < 1 else math.nan), -x

    with pytest.warns(UserWarning, match="Python function"):
        target = as_target(undefined_above_1, 1)
    process = process_with("leapfrog", 1, target)
    point = point_at(process, np.array([0.9]), np.array([1.0]))
    before = process["n_gradients"]
    assert integrate(process.state[0], 0.2, 100, point) == (False, -math.inf)
    assert process["n_gradients"] == before + 1


@every_integrator
def test_rungs_behind_are_reached_by_the_inverse_of_L(integrator):
    process = process_with(integrator, num_steps=3, metric=low_rank_metric(3))
    p = process.state[0]
    neighbour_energy(p, -1)
    x, v = process.rungs[0, -1].copy(), process.rungs[1, -1].copy()
    x, v, energy = walk(process, process["ladder_step"], 3, x, v)
    np.testing.assert_allclose(x, process.rungs[0, 0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(v, process.rungs[1, 0], rtol=1e-12, atol=1e-12)
    assert energy == pytest.approx(process.levels[0, 0], rel=1e-12)


def test_F_twice_is_the_identity_bit_for_bit():
    process = process_with("leapfrog")
    run(process, 20)
    p = process.state[0]
    cursor = ("here", "direction", "low", "high")

    def snapshot():
        return (
            [int(process[name]) for name in cursor],
            process.rungs.tobytes(),
            process.levels.tobytes(),
        )

    before = snapshot()
    move(p, EVENT_F)
    assert process["direction"] == -before[0][1]
    assert snapshot()[1:] == before[1:]
    move(p, EVENT_F)
    assert snapshot() == before


def test_a_new_ladder_keeps_the_momentum_that_the_direction_gave():
    process = process_with("leapfrog")
    p = process.state[0]
    v = process.rungs[1, process._slot].copy()
    energy = process.levels[0, process._slot]
    move(p, EVENT_F)
    process.move(process.x)
    assert process["direction"] == 1
    np.testing.assert_array_equal(process.rungs[1, process._slot], -v)
    assert process.levels[0, process._slot] == energy


def carried(process, i):
    """Velocity and acceleration of a slot of the ladder, as carried along and as they must be."""
    _, v, grad, velocity, acceleration = process.rungs[:, i]
    inverse_mass = process.tuned.metric.covariance()
    if process.tuned.integrator == "rotation":  # it has no kicks
        return velocity, inverse_mass @ v
    return (velocity, acceleration), (inverse_mass @ v, inverse_mass @ grad)


@every_integrator
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_velocity_and_acceleration_stay_those_of_momentum_and_gradient(integrator, alpha):
    start = tuned(4, integrator=integrator, metric=low_rank_metric(4))
    process = started(skewed_target(4), settings(refresh_alpha=alpha), start, 3)
    for _ in range(40):
        run(process, 5)
        process.resolve_flip()
        process.move(process.x + 0.01)
        np.testing.assert_allclose(*carried(process, process._slot), rtol=1e-9, atol=1e-9)
    assert process["all_gradients"] > 200
    other = low_rank_metric(4, seed=9)
    process.configure(start.replace(metric=other))
    process.restart()
    np.testing.assert_allclose(*carried(process, process._slot), rtol=1e-9, atol=1e-9)


def test_a_flipped_velocity_is_that_of_the_flipped_momentum():
    process = process_with("leapfrog", metric=low_rank_metric(3))
    move(process.state[0], EVENT_F)
    process.move(process.x)
    np.testing.assert_allclose(*carried(process, process._slot), rtol=1e-12, atol=1e-12)


@every_integrator
@pytest.mark.parametrize("rank", [0, 2])
def test_a_trial_step_has_the_error_of_a_step_from_there(integrator, rank):
    """Whatever the integrator in use, and whatever was left in the scratch memory."""
    changes = {"metric": low_rank_metric(3, rank)} if rank else {}
    process = process_with("leapfrog", **changes)
    x, _ = random_state(3)
    logp, grad = process.target.logp_and_grad(x)
    stream = process.rng.copy()
    process.work[:] = 1e6
    before = {name: process[name] for name in RESUMABLE}
    error, gain = process.probe(Draws(x, grad, logp), integrator, 0.3)
    changed = {name for name, value in before.items() if process[name] != value}
    assert changed == {"n_gradients", "all_gradients"}  # nothing else has moved
    process.rng[:] = stream
    v = np.empty(3)
    draw_momentum(process.state[0], v, np.empty(3))
    begun = process_with(integrator, **changes)
    end_x, _, energy = walk(begun, 0.3, 1, x, v)
    assert error == pytest.approx(energy - total_energy(process, logp, v), abs=1e-12)
    assert gain == pytest.approx(process.target.logp_and_grad(end_x)[0] - logp, abs=1e-12)
