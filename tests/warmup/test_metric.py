"""Metrics from draws and gradients of Gaussians whose covariance is known."""

import numpy as np
import pytest

from mjhmc_numba import targets
from mjhmc_numba.coordinates import Metric
from mjhmc_numba.coordinates.metric import geometric_mean
from mjhmc_numba.warmup import metric as tuner
from mjhmc_numba.warmup import spectrum as spectrum_module
from mjhmc_numba.warmup.spectrum import COARSE_DETAIL, FINE_DETAIL, estimate
from tests.synthetic import low_rank


def gaussian(covariance, n, rng, mean=0.0):
    """Draws, and gradients of the log density there."""
    x = mean + rng.multivariate_normal(np.zeros(len(covariance)), covariance, n)
    return x, -(x - mean) @ np.linalg.inv(covariance)


def spiked(d, eigenvalues, rng):
    """A covariance with a few unusual directions, in coordinates of different sizes."""
    directions = np.linalg.qr(rng.normal(size=(d, len(eigenvalues))))[0]
    inner = np.eye(d) + (directions * (np.array(eigenvalues) - 1)) @ directions.T
    scale = np.logspace(-1, 1, d)
    return scale[:, None] * inner * scale


def relative_eigenvalues(metric, covariance):
    """Those of the target in the whitened space: all 1 where the metric is right."""
    root = np.linalg.cholesky(covariance)
    return np.linalg.svd(metric.whiten(root.T), compute_uv=False) ** 2


# --- The metric itself


@pytest.fixture
def metric(seeds):
    rng = np.random.default_rng(seeds(81))
    directions = np.linalg.qr(rng.normal(size=(6, 2)))[0].T
    return Metric(rng.uniform(0.5, 2.0, 6), np.ascontiguousarray(directions), np.array([9.0, 0.1]))


def test_whitening_makes_its_covariance_the_identity(metric):
    root = np.linalg.cholesky(metric.covariance())
    whitened = metric.whiten(root.T)
    np.testing.assert_allclose(whitened.T @ whitened, np.eye(6), atol=1e-12)


def test_unwhitening_undoes_whitening(metric):
    x = np.linspace(-1, 1, 18).reshape(3, 6)
    np.testing.assert_allclose(metric.unwhiten(metric.whiten(x)), x, atol=1e-12)


def test_a_whitened_gradient_is_the_derivative_by_the_whitened_position(metric):
    grad, direction = np.arange(6.0), np.cos(np.arange(6.0))
    slope = grad @ metric.unwhiten(direction)
    assert metric.whiten_gradient(grad) @ direction == pytest.approx(slope)


def test_a_dense_metric_is_its_covariance(seeds):
    covariance = spiked(5, [20.0, 0.05], np.random.default_rng(seeds(82)))
    np.testing.assert_allclose(Metric.dense(covariance).covariance(), covariance, rtol=1e-9)


# --- Estimates


def test_a_diagonal_covariance_is_exact_from_a_few_draws(seeds):
    variance = np.logspace(-4, 4, 7)
    x, grad = gaussian(np.diag(variance), 5, np.random.default_rng(seeds(83)), mean=3.0)
    np.testing.assert_allclose(tuner.diagonal(x, grad).scale ** 2, variance, rtol=1e-6)


def test_the_diagonal_lies_between_marginal_and_conditional_variances(seeds):
    rng = np.random.default_rng(seeds(84))
    covariance = spiked(6, [50.0], rng)
    x, grad = gaussian(covariance, 20_000, rng)
    scale = tuner.diagonal(x, grad).scale
    marginal, conditional = np.diag(covariance), 1 / np.diag(np.linalg.inv(covariance))
    np.testing.assert_allclose(scale**4, marginal * conditional, rtol=0.1)


@pytest.mark.parametrize(("d", "n"), [(10, 60), (10, 400), (30, 200)])
def test_low_rank_recovers_unusual_directions(d, n, seeds):
    rng = np.random.default_rng(seeds(85, d, n))
    covariance = spiked(d, [100.0, 30.0, 0.01], rng)
    x, grad = gaussian(covariance, n, rng, mean=-2.0)
    found = low_rank(x, grad)
    whitened = relative_eigenvalues(found, covariance)
    assert 0.3 < whitened.min() <= whitened.max() < 3
    by_diagonal = relative_eigenvalues(tuner.diagonal(x, grad), covariance)
    assert whitened.max() / whitened.min() < 0.1 * by_diagonal.max() / by_diagonal.min()


def test_low_rank_helps_with_fewer_draws_than_dimensions(seeds):
    rng = np.random.default_rng(seeds(86))
    covariance = spiked(80, [1000.0], rng)
    x, grad = gaussian(covariance, 25, rng)
    found = relative_eigenvalues(low_rank(x, grad), covariance)
    by_diagonal = relative_eigenvalues(tuner.diagonal(x, grad), covariance)
    assert found.max() < 0.2 * by_diagonal.max()


def test_low_rank_directions_are_orthonormal_and_bounded_in_number(seeds):
    rng = np.random.default_rng(seeds(87))
    x, grad = gaussian(spiked(20, [50.0, 20.0, 10.0, 0.1], rng), 100, rng)
    found = low_rank(x, grad, COARSE_DETAIL._replace(max_rank=2))
    assert found.rank == 2
    np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(2), atol=1e-10)
    assert (found.eigenvalues > 0).all()


def test_stiff_directions_do_not_shorten_the_scale_of_all_others(seeds):
    rng = np.random.default_rng(seeds(93))
    covariance = spiked(60, [1e-4] * 6, rng)
    x, grad = gaussian(covariance, 400, rng)
    by_diagonal = relative_eigenvalues(tuner.diagonal(x, grad), covariance)
    assert np.median(by_diagonal) > 1.5
    found = relative_eigenvalues(low_rank(x, grad), covariance)
    assert np.median(found) == pytest.approx(1.0, rel=0.1)
    assert found.max() / found.min() < 4


def test_many_directions_are_kept_only_where_they_are_strong(seeds):
    rng = np.random.default_rng(seeds(94))
    for more, rank in ((2.0, 12), (8.0, 30)):
        covariance = spiked(90, [1000.0] * 10 + [more] * 20, rng)
        assert low_rank(*gaussian(covariance, 900, rng)).rank == rank


@pytest.mark.parametrize(("d", "n"), [(30, 40), (30, 90), (100, 130)])
def test_a_gaussian_is_known_exactly_from_more_draws_than_dimensions(d, n, seeds):
    rng = np.random.default_rng(seeds(95, d, n))
    covariance = spiked(d, np.logspace(-4, 4, 16), rng)
    found = low_rank(*gaussian(covariance, n, rng), FINE_DETAIL)
    np.testing.assert_allclose(relative_eigenvalues(found, covariance), 1.0, atol=0.03)


@pytest.mark.parametrize("n", [40, 90, 200])
def test_noise_of_a_target_that_is_not_gaussian_is_not_taken_for_directions(n, seeds):
    """Independent Student t, as the marginals of many a posterior; fewer draws than dimensions."""
    rng = np.random.default_rng(seeds(96, n))
    x = rng.standard_t(8, (n, 100))
    grad = -9.0 * x / (8.0 + x**2)
    found = low_rank(x, grad)
    whitened = relative_eigenvalues(found, 8 / 6 * np.eye(100))
    assert whitened.max() / whitened.min() < 12
    assert found.rank < 20


def test_an_isotropic_target_needs_no_directions(seeds):
    x, grad = gaussian(np.eye(5), 500, np.random.default_rng(seeds(88)))
    assert low_rank(x, grad).rank == 0


@pytest.mark.parametrize("estimate", [tuner.diagonal, low_rank])
@pytest.mark.parametrize("n", [2, 20])
def test_degenerate_input_gives_a_finite_metric(estimate, n):
    still = np.ones((n, 4))
    for x, grad in ((still, still), (np.zeros((n, 4)), 1e150 * still), (1e150 * still, 0 * still)):
        found = estimate(x, grad)
        assert np.isfinite(found.covariance()).all()
        assert (found.scale > 0).all()


# --- Hard walls


def behind_walls(n, rng):
    """Draws and gradients of an exponential, a uniform, a tilted and a normal variable."""
    x = np.column_stack(
        [
            rng.exponential(1 / 1.5, n),
            rng.uniform(0, 3, n),
            rng.exponential(50.0, n),
            rng.normal(size=n),
        ]
    )
    grad = np.zeros((n, 4))
    grad[:, 0] = -1.5
    grad[:, 2] = -1 / 50 - 1e-6 * x[:, 2]
    grad[:, 3] = -x[:, 3]
    return x, grad


@pytest.mark.parametrize("estimate", [tuner.diagonal, low_rank])
@pytest.mark.parametrize("n", [20, 400])
def test_where_a_wall_ends_the_density_draws_alone_tell_its_width(estimate, n, seeds):
    x, grad = behind_walls(n, np.random.default_rng(seeds(97, n)))
    metric = estimate(x, grad)
    width = np.sqrt(np.diag(metric.covariance()))
    sd = [1 / 1.5, 3 / np.sqrt(12), 50.0, 1.0]
    np.testing.assert_allclose(width, sd, rtol=4 / np.sqrt(n))
    assert tuner.slowest_scale(metric, x, grad) < 2.0


def test_a_part_of_a_gaussian_that_draws_go_through_is_not_taken_for_a_wall():
    x = np.linspace(9.0, 10.0, 12)[:, None] * np.array([1.0, 1e-6])
    grad = -x / np.array([1.0, 1e-6]) ** 2
    np.testing.assert_allclose(tuner.diagonal(x, grad).scale, [1.0, 1e-6])


# --- The slowest scale


def test_the_slowest_scale_is_one_in_the_right_metric(seeds):
    rng = np.random.default_rng(seeds(89))
    covariance = spiked(8, [25.0], rng)
    x, grad = gaussian(covariance, 4000, rng)
    assert tuner.slowest_scale(Metric.dense(covariance), x, grad) == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("d", [8, 150])
@pytest.mark.parametrize("length", [3.0, 10.0])
def test_the_slowest_scale_is_that_of_the_longest_direction(length, d, seeds):
    rng = np.random.default_rng(seeds(90))
    scale = np.logspace(-1, 1, d)
    covariance = spiked(d, [length**2], rng) / np.outer(scale, scale)
    x, grad = gaussian(covariance, 4000, rng)
    unit = Metric.diagonal(np.ones(d))
    assert tuner.slowest_scale(unit, x, grad) == pytest.approx(length, rel=0.1)


def test_the_strongest_directions_are_found_without_the_others(seeds):
    rng = np.random.default_rng(seeds(94))
    covariance = spiked(150, [100.0, 30.0, 0.02], rng)
    x, grad = gaussian(covariance, 300, rng)
    found = estimate(x, grad, "low_rank", only_strong=True)
    assert len(found.eigenvalues) <= tuner.STRONGEST
    ratios = relative_eigenvalues(found.metric(COARSE_DETAIL), covariance)
    assert ratios.max() / ratios.min() < 8.0  # 5,000 without a metric


def test_noise_does_not_lengthen_the_slowest_scale(seeds):
    x, grad = gaussian(np.eye(50), 40, np.random.default_rng(seeds(91)))
    assert tuner.slowest_scale(Metric.diagonal(np.ones(50)), x, grad) < 1.7


def test_draws_that_mix_slowly_do_not_lengthen_the_slowest_scale(seeds):
    # A common factor of all draws: far too wide a sample of a Gaussian, as its gradients show.
    slow = 4.0 * np.random.default_rng(seeds(92)).normal(size=(120, 1)) * np.ones(10)
    x = slow + np.random.default_rng(seeds(93)).normal(size=(120, 10))
    unit = Metric.diagonal(np.ones(10))
    assert tuner.slowest_scale(unit, x, -x) < 2.0
    # The same draws where they are not too wide.
    covariance = np.eye(10) + 16.0
    grad = -np.linalg.solve(covariance, x.T).T
    assert tuner.slowest_scale(unit, x, grad) == pytest.approx(np.sqrt(161), rel=0.3)


def test_ripples_do_not_shorten_the_slowest_scale(seeds):
    target = targets.rough_well()
    x = target.draw(np.random.default_rng(seeds(94)), 400)
    grad = np.array([target.logp_and_grad(row)[1] for row in x])
    assert tuner.slowest_scale(Metric.diagonal(np.ones(2)), x, grad) > 0.7 * 100.0


def test_the_slowest_scale_of_a_flat_direction_is_finite():
    x = np.linspace(-1, 1, 40)[:, None] * np.ones((40, 2))
    scale = tuner.slowest_scale(Metric.diagonal(np.ones(2)), x, np.zeros((40, 2)))
    assert 0 < scale < 100


def test_an_estimate_that_rounding_ends_is_the_one_before(monkeypatch):
    """On a Gaussian nothing is left of the noise, and a matrix may not be positive definite."""
    rng = np.random.default_rng(1)
    x, grad = gaussian(spiked(20, [100.0, 0.01, 30.0], rng), 200, rng)
    calls = []

    def mean_of(spread, precision):
        calls.append(spread)
        if len(calls) > most:
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        return geometric_mean(spread, precision)

    monkeypatch.setattr(spectrum_module, "geometric_mean", mean_of)
    most = 1
    found = spectrum_module.spectrum(x, grad)
    assert len(calls) == 2
    assert np.isfinite(found.eigenvalues).all()
    most, calls[:] = 0, []
    with pytest.raises(np.linalg.LinAlgError):  # of the first there is none before
        spectrum_module.spectrum(x, grad)
