"""Charts as Python sees them."""

import dataclasses

import numpy as np
import pytest

from mjhmc_numba.chart import Chart, feature_slopes, features
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.saving import load, save
from tests.charts import random_chart

NDIM = 7


@pytest.fixture(params=[(2, 2), (0, 1), (1, 0)], ids=str)
def chart(request):
    movers, scalers = request.param
    return random_chart(NDIM, movers=movers, scalers=scalers)


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(5, NDIM))


def jacobian(function, x, step=1e-6):
    return np.array(
        [(function(x + e) - function(x - e)) / (2 * step) for e in step * np.eye(x.size)]
    ).T


def test_a_chart_and_its_inverse_cancel(chart, x):
    np.testing.assert_allclose(chart.to_x(chart.to_z(x)), x, rtol=1e-12, atol=1e-12)


def test_drivers_stay_as_they_are(chart, x):
    assert np.array_equal(chart.to_z(x)[:, chart.drivers], x[:, chart.drivers])


def test_the_log_volume_is_that_of_the_jacobian(chart, x):
    for one in x:
        z = chart.to_z(one)
        _, log_determinant = np.linalg.slogdet(jacobian(chart.to_x, z))
        assert chart.log_volume(one) == pytest.approx(log_determinant, abs=1e-7)
        assert chart.log_volume(z) == chart.log_volume(one)


def test_gradients_are_pulled_back_by_the_jacobian(chart, x):
    grad = np.random.default_rng(2).normal(size=x.shape)
    pulled = chart.gradient_to_z(x, grad)
    for one, g, expected in zip(x, grad, pulled, strict=True):
        z = chart.to_z(one)
        by_volume = jacobian(lambda z: np.atleast_1d(chart.log_volume(z)), z)[0]
        np.testing.assert_allclose(jacobian(chart.to_x, z).T @ g + by_volume, expected, atol=1e-7)
    np.testing.assert_allclose(chart.gradient_to_x(x, pulled), grad, rtol=1e-10, atol=1e-10)


def test_features_are_the_value_and_a_bend_between_the_knots_and_constant_beyond():
    knots = np.array([[-20.0, 1.0, 20.0, 0.1]])
    u = np.array([[-60.0], [-40.0], [-9.0], [-4.0], [4.0], [9.0], [40.0], [60.0]])
    value, bend = (knots[0, 3] * features(u, knots)).T
    np.testing.assert_allclose(np.diff(value), [0, 20 - 9, 5, 8, 5, 20 - 9, 0], atol=0.01)
    np.testing.assert_allclose(np.diff(bend), [0, -(20 - 9), -5, -2, 5, 20 - 9, 0], atol=0.01)
    step = 1e-6
    slopes = (features(u + step, knots) - features(u - step, knots)) / (2 * step)
    np.testing.assert_allclose(feature_slopes(u, knots), slopes, atol=1e-6)


def test_no_chart_leaves_all_as_it_is(x):
    none = Chart.none()
    assert np.array_equal(none.to_x(x), x)
    assert np.array_equal(none.gradient_to_z(x, x), x)
    assert not none.log_volume(x).any()


def test_what_was_saved_is_the_same_chart(chart, x):
    again = load(Chart, save(chart))
    assert np.array_equal(again.to_x(x), chart.to_x(x))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": np.array([0, 0])}, "once"),
        ({"rows": np.array([0, 6])}, "once"),
        ({"rows": np.array([0, 9])}, "dimension 9 of 7"),
        ({"location": np.zeros((2, 1))}, "location .* shape"),
        ({"log_scale": np.zeros((2, 1))}, "log_scale .* shape"),
        ({"shift": np.zeros((2, 1))}, "shift .* shape"),
        ({"knots": np.zeros((1, 3))}, "knots .* shape"),
    ],
)
def test_a_chart_that_does_not_fit_is_refused(changes, message):
    chart = dataclasses.replace(random_chart(NDIM, rows=[0, 1]), **changes)
    with pytest.raises(SettingsError, match=message):
        chart.check(NDIM)
