"""Reparametrisations as Python sees them."""

import dataclasses

import numpy as np
import pytest

from mjhmc_numba.coordinates.reparametrisation import Reparametrisation, feature_slopes, features
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.saving import load, save
from tests.reparametrisations import random_reparametrisation

NDIM = 7


@pytest.fixture(params=[(2, 2), (0, 1), (1, 0)], ids=str)
def reparametrisation(request):
    location_parents, scale_parents = request.param
    return random_reparametrisation(
        NDIM, location_parents=location_parents, scale_parents=scale_parents
    )


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(5, NDIM))


def jacobian(function, x, step=1e-6):
    return np.array(
        [(function(x + e) - function(x - e)) / (2 * step) for e in step * np.eye(x.size)]
    ).T


def test_a_reparametrisation_and_its_inverse_cancel(reparametrisation, x):
    np.testing.assert_allclose(
        reparametrisation.to_x(reparametrisation.to_z(x)), x, rtol=1e-12, atol=1e-12
    )


def test_parents_stay_as_they_are(reparametrisation, x):
    assert np.array_equal(
        reparametrisation.to_z(x)[:, reparametrisation.parents], x[:, reparametrisation.parents]
    )


def test_the_log_volume_is_that_of_the_jacobian(reparametrisation, x):
    for one in x:
        z = reparametrisation.to_z(one)
        _, log_determinant = np.linalg.slogdet(jacobian(reparametrisation.to_x, z))
        assert reparametrisation.log_volume(one) == pytest.approx(log_determinant, abs=1e-7)
        assert reparametrisation.log_volume(z) == reparametrisation.log_volume(one)


def test_gradients_are_pulled_back_by_the_jacobian(reparametrisation, x):
    grad = np.random.default_rng(2).normal(size=x.shape)
    pulled = reparametrisation.gradient_to_z(x, grad)
    for one, g, expected in zip(x, grad, pulled, strict=True):
        z = reparametrisation.to_z(one)
        by_volume = jacobian(lambda z: np.atleast_1d(reparametrisation.log_volume(z)), z)[0]
        np.testing.assert_allclose(
            jacobian(reparametrisation.to_x, z).T @ g + by_volume, expected, atol=1e-7
        )
    np.testing.assert_allclose(
        reparametrisation.gradient_to_x(x, pulled), grad, rtol=1e-10, atol=1e-10
    )


def test_features_are_the_value_and_a_bend_between_the_knots_and_constant_beyond():
    knots = np.array([[-20.0, 1.0, 20.0, 0.1]])
    u = np.array([[-60.0], [-40.0], [-9.0], [-4.0], [4.0], [9.0], [40.0], [60.0]])
    value, bend = (knots[0, 3] * features(u, knots)).T
    np.testing.assert_allclose(np.diff(value), [0, 20 - 9, 5, 8, 5, 20 - 9, 0], atol=0.01)
    np.testing.assert_allclose(np.diff(bend), [0, -(20 - 9), -5, -2, 5, 20 - 9, 0], atol=0.01)
    step = 1e-6
    slopes = (features(u + step, knots) - features(u - step, knots)) / (2 * step)
    np.testing.assert_allclose(feature_slopes(u, knots), slopes, atol=1e-6)


def test_no_reparametrisation_leaves_all_as_it_is(x):
    none = Reparametrisation.none()
    assert np.array_equal(none.to_x(x), x)
    assert np.array_equal(none.gradient_to_z(x, x), x)
    assert not none.log_volume(x).any()


def test_what_was_saved_is_the_same_reparametrisation(reparametrisation, x):
    again = load(Reparametrisation, save(reparametrisation))
    assert np.array_equal(again.to_x(x), reparametrisation.to_x(x))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"children": np.array([0, 0])}, "once"),
        ({"children": np.array([0, 6])}, "once"),
        ({"children": np.array([0, 9])}, "dimension 9 of 7"),
        ({"location": np.zeros((2, 1))}, "location .* shape"),
        ({"log_scale": np.zeros((2, 1))}, "log_scale .* shape"),
        ({"shift": np.zeros((2, 1))}, "shift .* shape"),
        ({"knots": np.zeros((1, 3))}, "knots .* shape"),
    ],
)
def test_a_reparametrisation_that_does_not_fit_is_refused(changes, message):
    reparametrisation = dataclasses.replace(
        random_reparametrisation(NDIM, children=[0, 1]), **changes
    )
    with pytest.raises(SettingsError, match=message):
        reparametrisation.check(NDIM)
