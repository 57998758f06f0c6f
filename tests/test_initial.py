"""Where a chain starts."""

import math

import numpy as np
import pytest
from numba import njit

from mjhmc_numba.density import as_target
from mjhmc_numba.errors import InitialPointError
from mjhmc_numba.initial import Region, find_start


@njit
def _corner(x, grad):
    """Has a density where all coordinates are positive."""
    grad[:] = -1.0
    return -np.sum(x) if np.all(x > 0) else -np.inf


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
