from fractions import Fraction

import numpy as np
import pytest

from examples.paper.balance import RULES, exact_generator, imbalance
from mjhmc_numba import finite_ladder


def test_the_rates_balance_exactly(quick):
    claims, _ = quick("balance")
    assert claims["imbalance"] == 0
    assert claims["ladders"] >= 3 * 30


def test_rates_that_do_not_balance_are_noticed(monkeypatch):
    from examples.paper import balance

    right = balance.balancing
    monkeypatch.setattr(balance, "balancing", lambda *about: right(*about) ** 2)
    assert imbalance("sqrt", [Fraction(1), Fraction(2), Fraction(3)], Fraction(0)) > 0


@pytest.mark.parametrize("rule", RULES)
def test_the_exact_rates_are_those_of_the_kernel(rule):
    roots = [Fraction(3, 7), Fraction(2), Fraction(5, 4), Fraction(1, 9)]
    exact = np.array(exact_generator(rule, roots, Fraction(1, 3)), dtype=float)
    energies = [-2 * np.log(float(root)) for root in roots]
    kernel = finite_ladder.mjhmc_generator(energies, rule, refresh_rate=1 / 3)
    np.testing.assert_allclose(kernel, exact, rtol=1e-12, atol=1e-14)


def test_the_least_of_three_equal_times_is_each_with_probability_a_third(quick):
    claims, _ = quick("balance")
    assert abs(claims["equal_simulated"] - 1 / 3) < 5 * claims["equal_error"]
    assert claims["largest_z"] < 5


def test_the_product_over_pairs_is_no_distribution(quick):
    claims, _ = quick("balance")
    assert claims["equal_paper"] == pytest.approx(1 / 4)
    assert claims["equal_paper_sum"] == pytest.approx(3 / 4)
    assert claims["largest_z_paper"] > 5
