"""What one posterior has taught is carried over to another."""

import numpy as np
from numba import njit

import mjhmc_numba as mj
from mjhmc_numba.coordinates import Metric
from mjhmc_numba.pymc.neighbours import Laplace, Neighbour
from mjhmc_numba.tuned import Tuned


@njit
def gaussian(x, grad, mean, precision):
    off = x - mean
    grad[:] = -precision @ off
    return -0.5 * off @ precision @ off


@njit
def cubic(x, grad):
    """Rises for ever: it has no mode."""
    for j in range(x.size):
        grad[j] = 1.0 + x[j] ** 2
    return np.sum(x + x**3 / 3)


def normal(mean, covariance):
    return mj.as_target(gaussian, 3, (mean, np.linalg.inv(covariance)))


def random_normal(rng):
    root = rng.normal(size=(3, 3)) + 2 * np.eye(3)
    return rng.normal(size=3), root @ root.T


def tuned_to(mean, covariance):
    metric = Metric.dense(covariance).centred(mean)
    return Tuned(1.0, 1, 1.0, 1.0, "rotation", metric)


def test_a_gaussian_is_carried_over_exactly():
    rng = np.random.default_rng(1)
    (mean, covariance), (other_mean, other_covariance) = random_normal(rng), random_normal(rng)
    neighbour = Neighbour.of(normal(mean, covariance), tuned_to(mean, covariance))
    draws = rng.multivariate_normal(mean, covariance, size=20000)
    tuned, carried, gradients = neighbour.carry(normal(other_mean, other_covariance), draws)
    np.testing.assert_allclose(tuned.metric.centre, other_mean, atol=1e-5)
    np.testing.assert_allclose(tuned.metric.covariance(), other_covariance, rtol=1e-4, atol=1e-4)
    # The map is affine, so the moments of the draws are carried with it: 20,000 draws, 5 errors.
    error = np.sqrt(np.diag(other_covariance) / len(draws))
    assert (abs(carried.mean(axis=0) - other_mean) < 5 * error).all()
    np.testing.assert_allclose(np.cov(carried.T), other_covariance, rtol=0.1, atol=0.3)
    assert gradients < 30


def test_a_mean_beside_the_mode_stays_beside_it():
    """A Gaussian off the mode of its own target is off that of the other by as much."""
    rng = np.random.default_rng(2)
    mean, covariance = random_normal(rng)
    shift = np.array([0.1, -0.2, 0.3])
    neighbour = Neighbour.of(normal(mean, covariance), tuned_to(mean + shift, covariance))
    tuned, _, _ = neighbour.carry(normal(mean + 5, covariance), mean[None])
    np.testing.assert_allclose(tuned.metric.centre, mean + 5 + shift, atol=1e-5)


def test_where_there_is_no_mode_nothing_is_carried():
    transform = tuned_to(np.zeros(3), np.eye(3)).transform
    assert Laplace.of(mj.as_target(cubic, 3), transform, np.zeros(3)) is None
