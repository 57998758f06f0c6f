"""Where a chain starts, and the check of the gradient there."""

import math

import numpy as np
import pytest
from numba import njit

from mjhmc_numba import targets
from mjhmc_numba.density import as_target
from mjhmc_numba.errors import GradientError, InitialPointError
from mjhmc_numba.initial import Region, check_gradient, find_start


@njit
def _corner(x, grad):
    """Has a density where all coordinates are positive."""
    grad[:] = -1.0
    return -np.sum(x) if np.all(x > 0) else -np.inf


@njit
def _scaled_gradient(x, grad, factor):
    total = 0.0
    for j in range(x.size):
        grad[j] = factor[j] * (1.0 - math.exp(x[j]))
        total += x[j] - math.exp(x[j])
    return total


def test_a_given_point_is_used_as_it_is(seeds):
    given = np.array([0.25, 0.5])
    region, rng = Region(given, 0.0), np.random.default_rng(seeds(101))
    x, tries = find_start(as_target(_corner, 2), region, rng)
    np.testing.assert_array_equal(x, given)
    assert tries == 1
    x[0] = 9.0
    assert given[0] == 0.25


def test_random_points_are_tried_until_one_has_a_density(seeds):
    rng = np.random.default_rng(seeds(102))
    target = as_target(_corner, 3)
    found = [find_start(target, Region.anywhere(3), rng) for _ in range(200)]
    assert all((x > 0).all() for x, _ in found)
    tries = np.array([n for _, n in found])
    error = math.sqrt((1 - 1 / 8) * 64 / len(tries))  # geometric with probability 1/8
    assert abs(tries.mean() - 8) / error < 5


def test_a_given_point_without_a_density_is_not_replaced(seeds):
    region, rng = Region(np.array([-1.0, 1.0]), 0.0), np.random.default_rng(seeds(103))
    with pytest.raises(InitialPointError, match="log density is -inf"):
        find_start(as_target(_corner, 2), region, rng)


def test_starts_are_within_the_spread_of_the_centre(seeds):
    region, rng = Region(np.array([0.3, 4.0]), 0.5), np.random.default_rng(seeds(105))
    found = [find_start(as_target(_corner, 2), region, rng)[0] for _ in range(100)]
    away = np.abs(np.array(found) - region.centre)
    assert 0.45 < away.max() <= 0.5
    impossible = Region(np.array([-9.0, 1.0]), 0.5)
    with pytest.raises(InitialPointError, match=r"random points within 0\.5 of initial"):
        find_start(as_target(_corner, 2), impossible, rng)


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
    target = as_target(_scaled_gradient, 4, (np.full(4, factor),))
    for k in range(20):
        rng = np.random.default_rng(seeds(106, k))
        with pytest.raises(GradientError, match="finite differences say"):
            check_gradient(target, rng.uniform(-2, 2, 4), rng)


@pytest.mark.parametrize(("ndim", "wrong"), [(3, 1), (50, 17), (1000, 812)])
def test_a_single_wrong_dimension_is_named(ndim, wrong, seeds):
    factor = np.ones(ndim)
    factor[wrong] = -2.0
    target = as_target(_scaled_gradient, ndim, (factor,))
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
    edge = np.full(2, 1e-9)
    check_gradient(as_target(_corner, 2), edge, np.random.default_rng(seeds(109)))
