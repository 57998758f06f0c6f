"""Whether a chain mixes, and how far apart its draws have to be."""

import numpy as np
import pytest

from mjhmc_numba.warmup.spacing import (
    agreed,
    autocorrelation_time,
    draw_spacing,
    largest_autocorrelation,
    lengthening,
)
from tests.synthetic import autoregression


def draws_of(rho, seed, n=4000):
    return autoregression(rho, n, np.random.default_rng(seed), chains=1)[0]


def test_largest_autocorrelation_is_the_largest_autocorrelation_at_the_lag(seeds):
    x = draws_of([0.9, 0.2, -0.8], seeds(190))
    assert largest_autocorrelation(x, 1) == pytest.approx(0.9, abs=0.05)
    assert largest_autocorrelation(x, 4) == pytest.approx(0.9**4, abs=0.1)
    assert largest_autocorrelation(x[:, 2:], 1) == pytest.approx(-0.8, abs=0.06)


def test_a_chain_that_stands_still_is_as_slow_as_can_be():
    assert largest_autocorrelation(np.ones((100, 2)), 1) == 1.0
    assert draw_spacing(autocorrelation_time(np.ones((100, 2))), 2) == 4


@pytest.mark.parametrize(
    ("alike", "factor"), [(-1.0, 1.0), (0.6, 1.0), (0.7, 1.5), (0.8, 2.0), (0.99, 2.0)]
)
def test_paths_are_lengthened_where_draws_stay_alike(alike, factor):
    assert lengthening(alike) == pytest.approx(factor)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_draws_until_the_slowest_dimension_forgets(rho, seeds):
    x = draws_of([-0.5, rho, 0.0, -0.9], seeds(191), 20_000)
    assert autocorrelation_time(x) == pytest.approx((1 + rho) / (1 - rho), rel=0.35)


@pytest.mark.parametrize(
    ("forgets", "apart"), [(0.3, 1), (1.0, 1), (2.9, 1), (4.0, 2), (6.0, 3), (1e9, 4)]
)
def test_draws_that_forget_slowly_are_taken_further_apart(forgets, apart):
    assert draw_spacing(forgets, 10) == apart
    assert draw_spacing(forgets, 500) == (1 if apart == 1 else round(min(0.6 * forgets, 5)))


@pytest.mark.parametrize(("ndim", "forgets"), [(2, 4.0), (50, 4.0), (500, 8.0), (10_000, 8.0)])
def test_two_estimates_agree_on_the_smaller_or_in_many_dimensions_on_their_mean(ndim, forgets):
    assert agreed(4.0, 16.0, ndim) == pytest.approx(forgets)
    assert agreed(16.0, 4.0, ndim) == pytest.approx(forgets)
    assert 4.0 < agreed(16.0, 4.0, 100) < 8.0
