"""How many independent draws some chains are worth, and whether they agree."""

import numpy as np
import pytest

from mjhmc_numba.convergence import effective_size, slowest_dimensions, split_r_hat
from tests.synthetic import autoregression


def test_effective_sizes_of_autoregressions_are_known(seeds):
    rho = np.array([-0.5, 0.0, 0.5, 0.9])
    draws = autoregression(rho, 5000, np.random.default_rng(seeds(63)))
    expected = 20_000 * (1 - rho) / (1 + rho)
    np.testing.assert_allclose(effective_size(draws), expected, rtol=0.25)


def test_chains_apart_are_worth_little(seeds):
    draws = np.random.default_rng(seeds(64)).normal(size=(4, 1000, 2))
    draws[:, :, 1] += 3 * np.arange(4)[:, None]
    many, few = effective_size(draws)
    assert many > 2000
    assert few < 20


def test_what_never_moved_is_worth_next_to_nothing():
    assert effective_size(np.ones((2, 100, 1)))[0] < 5


@pytest.mark.parametrize("block", [1 << 18, 5000])
def test_the_slowest_dimensions_come_first(monkeypatch, seeds, block):
    monkeypatch.setattr("mjhmc_numba.convergence.BLOCK", block)
    rho = np.zeros(40)
    rho[[7, 31]] = 0.95, 0.8
    draws = autoregression(rho, 500, np.random.default_rng(seeds(65)))
    found = slowest_dimensions(draws)
    assert list(found[:2]) == [7, 31]
    assert len(found) == 16


def test_r_hat_of_equal_chains_is_one_and_of_others_is_not(seeds):
    rng = np.random.default_rng(seeds(61))
    draws = rng.normal(size=(4, 500, 3))
    draws[:, :, 1] += np.arange(4)[:, None]  # chains apart
    draws[:, :, 2] += np.linspace(0, 5, 500)  # drifting together
    r_hat = split_r_hat(draws)
    assert abs(r_hat[0] - 1) < 0.02
    assert (r_hat[1:] > 1.2).all()


def test_r_hat_is_the_textbook_formula_whatever_the_block(monkeypatch, seeds):
    draws = np.random.default_rng(seeds(62)).normal(size=(3, 101, 7))
    halves = draws[:, 1:].reshape(6, 50, 7)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = 50 * halves.mean(axis=1).var(axis=0, ddof=1)
    expected = np.sqrt((49 / 50 * within + between / 50) / within)
    np.testing.assert_allclose(split_r_hat(draws), expected)
    monkeypatch.setattr("mjhmc_numba.convergence.BLOCK", 1000)
    np.testing.assert_allclose(split_r_hat(draws), expected)


def test_r_hat_of_what_never_moved_is_no_number():
    assert np.isnan(split_r_hat(np.ones((2, 100, 1)))).all()
