"""A process in other coordinates is one on the density that these make."""

import numpy as np
import pytest
from numba import njit

from mjhmc_numba.density import as_target
from mjhmc_numba.errors import TargetError
from mjhmc_numba.process import Process
from mjhmc_numba.settings import Settings
from mjhmc_numba.warmup.first import first_guess
from tests.kernel.processes import COLUMN, low_rank_metric, run, settings, skewed_target, started
from tests.kernel.processes import tuned as made_tuned
from tests.reparametrisations import random_reparametrisation

NDIM = 6
X0 = np.linspace(-0.4, 1.1, NDIM)


def reparametrised_by_python(target, reparametrisation):
    """The density that the reparametrisation makes, as a Python function of z."""

    def density(z):
        x = reparametrisation.to_x(z)
        logp, grad = target.logp_and_grad(x)
        return logp + reparametrisation.log_volume(z), reparametrisation.gradient_to_z(x, grad)

    with pytest.warns(UserWarning, match="Python function"):
        return as_target(density, target.ndim)


@pytest.fixture(params=[(1, 1), (2, 2), (0, 2), (2, 0)], ids=str)
def reparametrisation(request):
    location_parents, scale_parents = request.param
    return random_reparametrisation(
        NDIM, location_parents=location_parents, scale_parents=scale_parents
    )


def test_position_gradient_and_log_density_are_those_of_the_reparametrisation(reparametrisation):
    target = skewed_target(NDIM)
    process = started(
        target, settings(), made_tuned(NDIM, reparametrisation=reparametrisation), 1, X0
    )
    logp, grad = target.logp_and_grad(X0)
    np.testing.assert_allclose(process.here.x, reparametrisation.to_z(X0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        process.here.grad, reparametrisation.gradient_to_z(X0, grad), rtol=1e-10
    )
    assert process.here.logp == pytest.approx(logp + reparametrisation.log_volume(X0), rel=1e-12)
    np.testing.assert_allclose(process.x, X0, rtol=1e-12)
    np.testing.assert_allclose(process.grad, grad, rtol=1e-9, atol=1e-9)
    assert process.logp == pytest.approx(logp, rel=1e-12)


@pytest.mark.parametrize("integrator", ["leapfrog", "three_stage", "harmonic", "rotation"])
@pytest.mark.parametrize(
    "options",
    [{}, {"rates": "sqrt"}, {"refresh_alpha": 0.6}, {"refine_levels": 3, "refine_threshold": 0.2}],
    ids=str,
)
def test_draws_are_those_on_the_density_that_the_reparametrisation_makes(
    reparametrisation, integrator, options
):
    target, values = skewed_target(NDIM), settings(**options)
    step = 0.1 if integrator == "three_stage" else 0.3  # rounding must not grow
    tuned = made_tuned(NDIM, step_size=step, integrator=integrator, metric=low_rank_metric(NDIM))
    ours = started(target, values, tuned.replace(reparametrisation=reparametrisation), 2, X0)
    theirs = started(
        reparametrised_by_python(target, reparametrisation),
        values,
        tuned,
        2,
        reparametrisation.to_z(X0),
    )
    x, stats = run(ours, 25)
    z, expected = run(theirs, 25)
    np.testing.assert_allclose(x, reparametrisation.to_x(z), rtol=1e-6, atol=1e-6)
    for name in ("n_gradients", "n_L", "n_F", "n_R", "n_refined"):
        assert np.array_equal(stats[:, COLUMN[name]], expected[:, COLUMN[name]])
    # The energy is that of the model: without the volume that the coordinates bring.
    volumes = np.array([reparametrisation.log_volume(one) for one in x])
    energies = expected[:, COLUMN["energy"]] + volumes
    np.testing.assert_allclose(stats[:, COLUMN["energy"]], energies, rtol=1e-6)


def test_the_log_density_of_a_draw_is_that_of_the_density(reparametrisation):
    target = skewed_target(NDIM)
    x, stats = run(
        started(target, settings(), made_tuned(NDIM, reparametrisation=reparametrisation), 3, X0),
        20,
    )
    logp = [target.logp_and_grad(one)[0] for one in x]
    np.testing.assert_allclose(stats[:, COLUMN["lp"]], logp, rtol=1e-10)


def test_the_record_has_positions_of_the_density(reparametrisation):
    values = settings(rates="sqrt")
    process = started(
        skewed_target(NDIM),
        values,
        made_tuned(NDIM, reparametrisation=reparametrisation),
        4,
        X0,
        4000,
    )
    x, _ = run(process, 40)
    visited = process.visits().x
    found = [np.abs(visited - one).max(axis=1).min() for one in x[:-1]]
    assert max(found) < 1e-12


def test_another_step_method_moves_in_the_coordinates_of_the_density(reparametrisation):
    process = started(
        skewed_target(NDIM),
        settings(),
        made_tuned(NDIM, reparametrisation=reparametrisation),
        5,
        X0,
    )
    run(process, 3)
    process.resolve_flip()
    process.move(X0 + 0.1)
    np.testing.assert_allclose(process.x, X0 + 0.1, rtol=1e-12, atol=1e-12)


def test_another_reparametrisation_leaves_the_process_where_it_is(reparametrisation):
    target, tuned = skewed_target(NDIM), made_tuned(NDIM)
    process = started(target, settings(), tuned, 6, X0)
    gradients = process["all_gradients"]
    for other in (reparametrisation, random_reparametrisation(NDIM, seed=9), None):
        process.configure(tuned.replace(reparametrisation=other))
        process.restart()
        logp, grad = target.logp_and_grad(X0)
        np.testing.assert_allclose(process.x, X0, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(process.grad, grad, rtol=1e-9, atol=1e-9)
        assert process.logp == pytest.approx(logp, rel=1e-11)
    assert process["all_gradients"] == gradients


def test_a_restored_process_has_the_reparametrisation(reparametrisation):
    target, values = skewed_target(NDIM), settings()
    process = started(target, values, made_tuned(NDIM, reparametrisation=reparametrisation), 7, X0)
    run(process, 5)
    other = Process.resume(target, values, process.snapshot())
    assert np.array_equal(run(process, 10)[0], run(other, 10)[0])


def test_an_error_names_the_position_of_the_density():
    @njit
    def density(x, grad):
        if x[0] > 0.5:
            raise ValueError
        grad[:] = 0.0
        grad[0] = 1.0
        return x[0]

    target = as_target(density, 3)
    reparametrisation = random_reparametrisation(3)
    seen = []
    target._error_at = lambda x: seen.append(x) or TargetError("raised")
    process = started(target, settings(), made_tuned(3, reparametrisation=reparametrisation), 8)
    out, stats = np.empty((500, 3)), np.empty((500, len(COLUMN)))
    _, status = process.run(out, stats)
    assert status != 0
    process.error()
    assert seen[0][0] > 0.5
    assert not np.allclose(seen[0], process.here.x)


def test_a_reparametrisation_that_was_given_is_used(reparametrisation):
    values = Settings(
        reparametrisation=reparametrisation,
        step_size=0.3,
        num_steps=1,
        refresh_rate=0.2,
        draw_interval=1.0,
    )
    assert first_guess(values, NDIM).reparametrisation is reparametrisation
