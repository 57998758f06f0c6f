import math

import numpy as np
import pytest

from mjhmc_numba.estimates import error as errors
from mjhmc_numba.estimates.error import monte_carlo_error, standard_error


def autoregression(rng, chains, n, k, rho):
    x = rng.normal(size=(chains, n, k))
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + math.sqrt(1 - rho**2) * x[:, t]
    return x


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.5, 0.9])
def test_error_and_size_are_those_of_an_autoregression(rho, seeds):
    x = autoregression(np.random.default_rng(seeds(21, 10 + int(10 * rho))), 4, 2000, 30, rho)
    error, size, _ = monte_carlo_error(x)
    expected = 8000 * (1 - rho) / (1 + rho)
    assert np.mean(size) == pytest.approx(expected, rel=0.12)
    assert np.sqrt(np.mean(error**2)) == pytest.approx(expected**-0.5, rel=0.12)


@pytest.mark.parametrize("draws", [51, 400])
def test_sums_of_products_and_transforms_give_the_same_error(draws, monkeypatch, seeds):
    rng = np.random.default_rng(seeds(27, draws))
    x = np.concatenate([autoregression(rng, 3, draws, 8, rho) for rho in (-0.5, 0, 0.99)], axis=2)
    found = standard_error(x)
    for lags in (2, draws):  # transforms for nearly all, and for none
        monkeypatch.setattr(errors, "FEW_LAGS", lags)
        np.testing.assert_allclose(standard_error(x), found, rtol=1e-12)


def test_chains_that_disagree_have_a_large_error(seeds):
    x = np.random.default_rng(seeds(22)).normal(size=(4, 500, 1)) + 3 * np.arange(4)[:, None, None]
    error, size, _ = monte_carlo_error(x)
    assert size[0] < 20
    assert error[0] > 0.5


def test_nothing_that_varies_has_no_error():
    error, size, _ = monte_carlo_error(np.full((2, 100, 1), 3.0))
    assert (error[0], size[0]) == (0.0, 200.0)


def tail_index(values):
    """Of values (n, k), whatever their tails do to the error."""
    rows = np.ascontiguousarray(values.T)
    return errors._tail_shape(rows, errors._Outermost.of(rows), np.zeros(len(rows)))


def test_a_tail_that_hardly_adds_to_the_error_is_not_looked_at(monkeypatch, seeds):
    """An error without that rule is larger by 4 % at most; others are the same."""
    rng = np.random.default_rng(seeds(29))
    values = np.stack([rng.standard_t(df, size=(4, 1000)) for df in [1.2, 2, 3, 6, 12] * 8], axis=2)
    found = monte_carlo_error(values)
    monkeypatch.setattr(errors, "LITTLE", 0.0)
    whole = monte_carlo_error(values)
    skipped = (found.tail == 0) & (whole.tail > 0)
    assert 0 < skipped.sum() < 35
    same = [np.maximum(one.tail, 0.0)[~skipped] for one in (found, whole)]
    np.testing.assert_array_equal(*same)
    assert (found.error[skipped] <= whole.error[skipped]).all()
    assert (found.error > 0.955 * whole.error).all()


@pytest.mark.parametrize("shape", [0.25, 0.5, 1.0])
def test_tail_index_is_that_of_a_pareto_distribution(shape, seeds):
    x = np.random.default_rng(seeds(23)).pareto(1 / shape, size=(4000, 40))
    assert np.mean(tail_index(x)) == pytest.approx(shape, abs=0.12)
    assert np.mean(tail_index(-x)) == pytest.approx(shape, abs=0.12)


def test_a_tail_that_is_near_is_light_and_the_other_one_is_seen(seeds):
    x = np.random.default_rng(seeds(28)).uniform(size=(4000, 3))
    assert (tail_index(x) == 0).all()
    one_sided = np.where(x > 0.5, (1 - x) ** -0.6, x)
    assert tail_index(one_sided).min() > 0.4
    np.testing.assert_allclose(tail_index(-one_sided), tail_index(one_sided))


def test_light_tails_have_a_small_index(seeds):
    x = np.random.default_rng(seeds(24)).normal(size=(4000, 40))
    assert np.mean(tail_index(x)) < 0.1


def test_where_few_draws_make_the_error_it_is_larger(seeds):
    light = np.random.default_rng(seeds(25)).normal(size=(4, 1000, 40))
    for values, least, most in ((light, 0.95, 1.1), (light**7, 1.5, 3.0)):
        plain = values.std(axis=(0, 1)) / math.sqrt(4000)
        assert least < np.median(monte_carlo_error(values).error / plain) < most


def test_intervals_of_a_skewed_heavy_tail_cover(seeds):
    """x**6 of a normal x: its own standard error covers in about 85 %."""
    rng = np.random.default_rng(seeds(26))
    values = rng.normal(size=(4, 500, 400)) ** 6
    error = monte_carlo_error(values).error
    covered = np.abs(values.mean(axis=(0, 1)) - 15.0) < 1.96 * error
    assert 0.91 < covered.mean() < 0.99
