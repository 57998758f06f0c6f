"""Momenta, velocity and kinetic energy are those of the matrix that the metric stands for."""

import numpy as np
import pytest
from numba import njit

from mjhmc_numba.coordinates import Metric
from mjhmc_numba.kernel.integrators import kick_and_drift, kick_and_follow
from mjhmc_numba.kernel.metric import (
    apply_inverse_mass,
    draw_momentum,
    kinetic_energy,
    pull_to_centre,
    refresh_momentum,
)
from tests.kernel.processes import (
    dense_metric,
    low_rank_metric,
    point_at,
    settings,
    skewed_target,
    started,
    tuned,
)

NDIM = 5
METRICS = {
    "diagonal": Metric.diagonal([0.01, 0.5, 1.0, 2.0, 100.0]),
    "low_rank": low_rank_metric(NDIM),
    "dense": dense_metric(NDIM),
}
every_metric = pytest.mark.parametrize("name", METRICS)


@njit
def many_momenta(state, out):
    for k in range(out.shape[0]):
        draw_momentum(state[0], out[k], np.empty(out.shape[1]))


@njit
def refresh_many(state, alpha, momenta, velocities):
    for k in range(momenta.shape[0]):
        refresh_momentum(state[0], alpha, momenta[k], velocities[k])


def process_with(name, seed=1):
    return started(skewed_target(NDIM), settings(), tuned(NDIM, metric=METRICS[name]), seed)


def covariance_z(sample, covariance):
    """Sample second moments against the exact ones, in standard errors: (d, d)."""
    n = sample.shape[0]
    variances = np.diag(covariance)
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / n)
    return (sample.T @ sample / n - covariance) / error


@every_metric
def test_momenta_have_the_mass_as_covariance(seeds, name):
    process = process_with(name, seeds(10))
    mass = np.linalg.inv(METRICS[name].covariance())
    sample = np.empty((200_000, NDIM))
    many_momenta(process.state, sample)
    assert np.abs(covariance_z(sample, mass)).max() < 5
    z = sample.mean(0) * np.sqrt(sample.shape[0] / np.diag(mass))
    assert np.abs(z).max() < 5


@every_metric
@pytest.mark.parametrize("alpha", [-0.7, 0.0, 0.7, 0.95])
def test_a_refresh_leaves_the_law_of_the_momentum_and_keeps_a_share_of_it(seeds, name, alpha):
    process = process_with(name, seeds(11))
    mass = np.linalg.inv(METRICS[name].covariance())
    before = np.empty((200_000, NDIM))
    many_momenta(process.state, before)
    after = before.copy()
    velocities = before @ METRICS[name].covariance()
    refresh_many(process.state, alpha, after, velocities)
    if process.tuned.metric.rank:
        np.testing.assert_allclose(velocities, after @ METRICS[name].covariance(), atol=1e-9)
    assert np.abs(covariance_z(after, mass)).max() < 5
    fresh = after - alpha * before
    assert np.abs(covariance_z(fresh, (1 - alpha**2) * mass)).max() < 5
    cross = fresh.T @ before / len(before)
    variances = np.diag(mass)
    error = np.sqrt(np.outer((1 - alpha**2) * variances, variances) / len(before))
    assert np.abs(cross / error).max() < 5


@every_metric
def test_kinetic_energy_is_half_of_momentum_times_velocity(name):
    process, v = process_with(name), np.linspace(-2, 3, NDIM)
    energy = kinetic_energy(process.state[0], v, METRICS[name].covariance() @ v)
    assert energy == pytest.approx(0.5 * v @ METRICS[name].covariance() @ v, rel=1e-12)


@pytest.mark.parametrize("ndim", [1, 7, 8, 9, 20])
@pytest.mark.parametrize("rank", [0, 1, 5, 6, 7, 12, 13])
def test_products_are_those_of_the_matrix_for_every_rank(ndim, rank):
    metric = low_rank_metric(ndim, min(rank, ndim)).centred(np.linspace(0, 1, ndim))
    process = started(skewed_target(ndim), settings(), tuned(ndim, metric=metric), 1)
    v, out = np.linspace(-2, 3, ndim), np.full(ndim, np.nan)
    apply_inverse_mass(process.state[0], v, out)
    np.testing.assert_allclose(out, metric.covariance() @ v, rtol=1e-12, atol=1e-13)
    pull_to_centre(process.state[0], v, out)
    np.testing.assert_allclose(metric.covariance() @ out, v - metric.centre, rtol=1e-12, atol=1e-13)


@every_metric
def test_drift_follows_the_velocity_of_the_kicked_momentum(name):
    process, v, grad = process_with(name), np.linspace(-2, 3, NDIM), np.linspace(1, -1, NDIM)
    point = point_at(process, np.ones(NDIM), v, grad)
    kicked = v + 0.2 * grad
    x, _, _, velocity, acceleration = point
    if process.tuned.metric.rank:
        kick_and_follow(0.2, 0.3, x, point[1], grad, velocity, acceleration)
    else:
        kick_and_drift(process.state[0], 0.2, 0.3, x, point[1], grad)
    np.testing.assert_allclose(point[1], kicked, rtol=1e-14)
    np.testing.assert_allclose(point[0], 1 + 0.3 * METRICS[name].covariance() @ kicked, rtol=1e-12)


def test_a_dense_metric_stands_for_the_matrix_it_was_made_of():
    rng = np.random.default_rng(8)
    root = rng.normal(size=(6, 6))
    covariance = root @ root.T + np.diag(np.logspace(-2, 2, 6))
    np.testing.assert_allclose(Metric.dense(covariance).covariance(), covariance, rtol=1e-10)


def test_full_rank_and_no_rank_agree_where_the_matrix_is_diagonal():
    variances = np.array([0.1, 1.0, 3.0])
    dense, diagonal = Metric.dense(np.diag(variances)), Metric.diagonal(variances)
    np.testing.assert_allclose(dense.covariance(), diagonal.covariance(), rtol=1e-14)
