import numpy as np
import pytest

from examples.paper.spectral_gap import HALF_ORDER, gaps
from mjhmc_numba import finite_ladder


def test_mjhmc_has_the_larger_gap_on_all_but_the_smallest_ladders(quick):
    claims, _ = quick("spectral_gap")
    assert claims["first_ahead"] > 3
    assert claims["gap_real"] - 5 * claims["gap_real_error"] > 1


def test_it_is_not_better_by_half_an_order_of_magnitude(quick):
    claims, _ = quick("spectral_gap")
    assert claims["gap_real"] + 4 * claims["gap_real_error"] < HALF_ORDER


def test_by_modulus_the_gap_vanishes_on_every_even_ladder(quick):
    claims, _ = quick("spectral_gap")
    assert abs(claims["even_modulus"]) < 1e-9
    assert claims["odd_modulus"] - 5 * claims["odd_modulus_error"] > 1


def test_the_variance_per_rung_is_lower_but_not_by_as_much(quick):
    claims, _ = quick("spectral_gap")
    assert claims["cost_move"] + 5 * claims["cost_move_error"] < 1
    assert claims["cost_move"] > claims["cost_step"]


def test_gaps_from_one_decomposition_are_those_of_the_package():
    energies = np.random.default_rng(8).standard_normal(7)
    chain = finite_ladder.embedded_chain(finite_ladder.mjhmc_generator(energies))
    expected = [finite_ladder.spectral_gap(chain, by) for by in ("real", "modulus")]
    assert gaps(chain, finite_ladder.stationary_law(chain)) == pytest.approx(expected, rel=1e-9)
