"""The gradient is compared with the log density before sampling."""

import numpy as np
import pytest
from numba import njit

from mjhmc_numba import targets
from mjhmc_numba.density import as_target
from mjhmc_numba.errors import GradientError
from mjhmc_numba.gradient_check import check_gradient
from tests.api.densities import log_gamma, scaled_gradient


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("where", [0.3, 30.0])
def test_a_correct_gradient_passes_at_any_scale(scale, where, seeds):
    target = as_target(targets.gaussian(np.full(3, scale), mean=scale))
    for k in range(20):
        rng = np.random.default_rng(seeds(104, k))
        check_gradient(target, scale * (1 + where * rng.normal(size=3)), rng)


@pytest.mark.parametrize(
    "distribution",
    [
        targets.funnel(5),
        targets.rough_well(2),
        targets.student_t(2.0, 3),
        targets.banana(2),
        targets.log_gamma([1.0, 5.0], 2),
        targets.sparse_image_code(),
    ],
    ids=lambda distribution: distribution.name,
)
def test_the_gradients_of_our_targets_pass(distribution, seeds):
    target = as_target(distribution)
    for k in range(20):
        rng = np.random.default_rng(seeds(105, k))
        check_gradient(target, rng.uniform(-2, 2, target.ndim), rng)


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.1, -1.0, 0.0])
def test_a_wrong_factor_is_always_found(factor, seeds):
    target = as_target(scaled_gradient, 4, (np.full(4, factor),))
    for k in range(20):
        rng = np.random.default_rng(seeds(106, k))
        with pytest.raises(GradientError, match="finite differences say"):
            check_gradient(target, rng.uniform(-2, 2, 4), rng)


@pytest.mark.parametrize(("ndim", "wrong"), [(3, 1), (50, 17), (1000, 812)])
def test_a_single_wrong_dimension_is_named(ndim, wrong, seeds):
    factor = np.ones(ndim)
    factor[wrong] = -2.0
    target = as_target(scaled_gradient, ndim, (factor,))
    for k in range(10):
        rng = np.random.default_rng(seeds(107, k))
        x = rng.uniform(-1, 1, ndim)
        x[wrong] = 1.5
        with pytest.raises(GradientError, match=rf"In x\[{wrong}\] the density says"):
            check_gradient(target, x, rng)


def test_a_flat_density_passes(seeds):
    @njit
    def flat(x, grad):
        grad[:] = 0.0
        return 1.0

    check_gradient(as_target(flat, 2), np.zeros(2), np.random.default_rng(seeds(108)))


def test_a_density_that_ends_nearby_is_not_blamed_on_its_gradient(seeds):
    @njit
    def corner(x, grad):
        grad[:] = -1.0
        return -np.sum(x) if np.all(x > 0) else -np.inf

    edge = np.full(2, 1e-9)
    check_gradient(as_target(corner, 2), edge, np.random.default_rng(seeds(109)))


# --- At a mode the gradient is zero, however wrong it is


@pytest.mark.parametrize("ndim", [1, 3, 100])
def test_a_correct_gradient_passes_at_the_mode(ndim, seeds):
    target = as_target(log_gamma, ndim)
    for k in range(40):
        check_gradient(target, np.zeros(ndim), np.random.default_rng(seeds(110, k)))


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.1, -1.0, 0.0])
@pytest.mark.parametrize("ndim", [1, 3, 100])
def test_a_wrong_factor_is_found_at_the_mode(ndim, factor, seeds):
    target = as_target(scaled_gradient, ndim, (np.full(ndim, factor),))
    for k in range(20):
        with pytest.raises(GradientError, match="finite differences say"):
            check_gradient(target, np.zeros(ndim), np.random.default_rng(seeds(111, k)))


@njit
def _laplace(x, grad, factor):
    total = 0.0
    for j in range(x.size):
        grad[j] = -factor * np.sign(x[j])
        total -= abs(x[j])
    return total


def test_a_kink_at_the_start_hides_nothing(seeds):
    for k in range(20):
        rng = np.random.default_rng(seeds(112, k))
        check_gradient(as_target(_laplace, 2, (1.0,)), np.zeros(2), rng)
        with pytest.raises(GradientError):
            check_gradient(as_target(_laplace, 2, (2.0,)), np.zeros(2), rng)


@njit
def _offset(x, grad, constant, factor):
    """A large log density, rounded as a sum of many terms is."""
    grad[:] = -factor * x
    return constant - 0.5 * np.sum(x * x)


@pytest.mark.parametrize("constant", [0.0, 1e3, -1e6, 1e9])
@pytest.mark.parametrize("where", [0.0, 1e-3, 1.0])
def test_a_large_log_density_does_not_hide_a_wrong_gradient(constant, where, seeds):
    for k in range(10):
        rng = np.random.default_rng(seeds(113, k))
        x = np.full(3, where)
        check_gradient(as_target(_offset, 3, (constant, 1.0)), x, rng)
        with pytest.raises(GradientError):
            check_gradient(as_target(_offset, 3, (constant, 2.0)), x, rng)


@pytest.mark.parametrize("where", [0.0, 0.3])
def test_the_rounding_of_single_precision_is_no_fault(where, seeds):
    @njit
    def rounded(x, grad):
        grad[:] = -x
        return float(np.float32(-500.0 - 0.5 * np.sum(x * x)))

    for k in range(20):
        check_gradient(
            as_target(rounded, 3), np.full(3, where), np.random.default_rng(seeds(114, k))
        )


def test_an_exception_beside_the_start_is_left_to_the_sampler(seeds):
    @njit
    def fragile(x, grad):
        if abs(x[0]) > 1e-7:
            raise ValueError("too far")
        grad[:] = -x
        return -0.5 * np.sum(x * x)

    check_gradient(as_target(fragile, 2), np.zeros(2), np.random.default_rng(seeds(115)))
