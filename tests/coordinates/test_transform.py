"""Coordinates in which the target should be standard normal, and draws that know theirs."""

import numpy as np
import pytest

from mjhmc_numba.coordinates import Draws, Metric, Transform
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.saving import load, save
from tests.kernel.processes import low_rank_metric, skewed_target
from tests.reparametrisations import random_reparametrisation

NDIM = 7


@pytest.fixture(params=["affine", "both"])
def transform(request):
    metric = low_rank_metric(NDIM).centred(np.linspace(-1, 2, NDIM))
    outer = random_reparametrisation(NDIM, location_parents=2) if request.param == "both" else None
    return Transform(metric, outer)


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(4, 3, NDIM))


def draws_at(x):
    """On a density, for positions (..., d)."""
    target = skewed_target(NDIM)
    values = [target.logp_and_grad(one) for one in x.reshape(-1, NDIM)]
    logp, grad = (np.array(a) for a in zip(*values, strict=True))
    return Draws(x, grad.reshape(x.shape), logp.reshape(x.shape[:-1]))


def assert_same(one, other, rtol=1e-9):
    for a, b in zip(one[:3], other[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-9)


def test_a_transform_and_its_inverse_cancel(transform, x):
    np.testing.assert_allclose(transform.to_x(transform.to_z(x)), x, rtol=1e-12, atol=1e-12)


def test_the_log_volume_is_that_of_the_jacobian(transform, x):
    z, step = transform.to_z(x[0, 0]), 1e-6
    columns = [
        (transform.to_x(z + e) - transform.to_x(z - e)) / (2 * step) for e in step * np.eye(NDIM)
    ]
    _, log_determinant = np.linalg.slogdet(np.array(columns))
    assert transform.log_volume(x[0, 0]) == pytest.approx(log_determinant, abs=1e-7)


def test_the_gradient_is_that_of_the_log_density_of_z(transform, x):
    z = draws_at(x[:1, :1]).to(transform)
    step = 1e-6

    def logp(position):
        at = transform.to_x(position)
        return draws_at(at[None]).logp[0] + transform.log_volume(at)

    one = z.x[0, 0]
    slopes = [(logp(one + e) - logp(one - e)) / (2 * step) for e in step * np.eye(NDIM)]
    np.testing.assert_allclose(z.grad[0, 0], slopes, rtol=1e-5, atol=1e-6)
    assert z.logp[0, 0] == pytest.approx(logp(one), rel=1e-12)


def test_all_is_vectorised_over_draws(transform, x):
    all_at_once = draws_at(x).to(transform)
    for k in np.ndindex(x.shape[:-1]):
        alone = draws_at(x[k][None]).to(transform)
        assert_same(all_at_once.take(k), alone.take(0))


def test_a_gaussian_becomes_standard_normal(x):
    metric = low_rank_metric(NDIM).centred(np.linspace(-1, 2, NDIM))
    grad = -np.linalg.solve(metric.covariance(), (x - metric.centre)[..., None])[..., 0]
    z = Draws(x, grad, np.zeros(x.shape[:-1])).to(Transform(metric))
    np.testing.assert_allclose(z.x, -z.grad, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------------ draws


def test_draws_come_back_from_other_coordinates(transform, x):
    draws = draws_at(x)
    there = draws.to(transform)
    assert there.coordinates is transform
    back = there.to(None)
    assert back.coordinates is None
    assert_same(back, draws)


def test_draws_go_from_any_coordinates_to_any_others(transform, x):
    draws, other = draws_at(x), random_reparametrisation(NDIM, seed=8)
    assert_same(draws.to(transform).to(other), draws.to(other))


def test_draws_that_are_there_already_stay_as_they_are(transform, x):
    draws = draws_at(x)
    assert draws.to(None) is draws
    there = draws.to(transform)
    assert there.to(transform) is there


def test_draws_are_saved_with_their_coordinates(x):
    for coordinates in (None, random_reparametrisation(NDIM), Transform(low_rank_metric(NDIM))):
        draws = draws_at(x).to(coordinates)
        again = load(Draws, save(draws))
        assert type(again.coordinates) is type(coordinates)
        assert_same(again.to(None), draws_at(x))


# ----------------------------------------------------------------------------- metrics

GOOD = {"scale": np.ones(3), "directions": np.eye(3)[:1], "eigenvalues": np.ones(1)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": np.ones((3, 1))}, "scale .* shape"),
        ({"scale": np.ones(4)}, "directions .* shape"),
        ({"directions": np.eye(3)}, "directions .* shape"),
        ({"eigenvalues": np.ones(2)}, "directions .* shape"),
        ({"centre": 0.0}, "centre .* shape"),
        ({"centre": np.zeros(4)}, "centre .* shape"),
        ({"scale": np.array([1.0, 0.0, 1.0])}, "positive"),
        ({"eigenvalues": -np.ones(1)}, "positive"),
        ({"scale": np.array([1.0, np.inf, 1.0])}, "scale .* finite"),
        ({"directions": np.full((1, 3), np.nan)}, "directions .* finite"),
        ({"centre": np.array([0.0, np.nan, 0.0])}, "centre .* finite"),
    ],
)
def test_a_metric_that_the_kernel_could_not_read_is_refused(change, message):
    Metric(**GOOD)
    with pytest.raises(SettingsError, match=message):
        Metric(**(GOOD | change))


def test_a_centre_is_one_number_per_dimension():
    metric = Metric.diagonal(np.ones(50))
    with pytest.raises(SettingsError, match="centre"):
        metric.centred(0.0)
