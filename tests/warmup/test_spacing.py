"""Whether a chain mixes, and how far apart its draws have to be."""

import numpy as np
import pytest

from mjhmc_numba.warmup.spacing import (
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
    assert draw_spacing(autocorrelation_time(np.ones((100, 2))), 0.5, 4) == 4


@pytest.mark.parametrize(
    ("alike", "factor"), [(-1.0, 1.0), (0.6, 1.0), (0.7, 1.5), (0.8, 2.0), (0.99, 2.0)]
)
def test_paths_are_lengthened_where_draws_stay_alike(alike, factor):
    assert lengthening(alike) == pytest.approx(factor)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_draws_until_the_slowest_dimension_forgets(rho, seeds):
    x = draws_of([-0.5, rho, 0.0, -0.9], seeds(191), 20_000)
    assert autocorrelation_time(x) == pytest.approx((1 + rho) / (1 - rho), rel=0.35)


@pytest.mark.parametrize("time", [0.3, 1.0, 2.9, 4.0, 6.5, 1e9])
@pytest.mark.parametrize(("wanted", "most"), [(0.5, 5), (0.25, 5), (0.9, 3), (0.5, 1)])
def test_draws_are_worth_what_is_wanted_or_as_far_apart_as_may_be(time, wanted, most):
    apart = draw_spacing(time, wanted, most)
    assert 1 <= apart <= most
    assert apart == most or (apart + 1) / time > wanted
    assert apart == 1 or apart / time <= wanted
