"""Balancing functions and jump rates, at ordinary and at extreme energies."""

import itertools
import math

import numpy as np
import pytest

from mjhmc_numba.balancing import resolve_rates
from mjhmc_numba.kernel.rates import (
    BARKER,
    CUSTOM,
    LARGEST_LOG_RATE,
    METROPOLIS,
    SQRT,
    balancing,
    jump_rates,
)
from tests.kernel.processes import own_bounded_g, own_unbounded_g

OWN = {"own_bounded": resolve_rates(own_bounded_g, 1.0), "own": resolve_rates(own_unbounded_g)}
KINDS = {
    "sqrt": (SQRT, 0),
    "metropolis": (METROPOLIS, 0),
    "barker": (BARKER, 0),
    "own_bounded": (CUSTOM, OWN["own_bounded"].address),
    "own": (CUSTOM, OWN["own"].address),
}
BOUNDS = {"metropolis": 1.0, "barker": 2.0, "own_bounded": 1.0}

every_g = pytest.mark.parametrize("name", KINDS)


def g(name, log_ratio):
    kind, address = KINDS[name]
    return balancing(kind, log_ratio, address)


def rates(name, energy, ahead, behind):
    kind, address = KINDS[name]
    return jump_rates(kind, energy, ahead, behind, address)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("sqrt", math.sqrt),
        ("metropolis", lambda t: min(1.0, t)),
        ("barker", lambda t: 2 * t / (1 + t)),
        ("own_bounded", own_bounded_g),
        ("own", own_unbounded_g),
    ],
)
def test_g_is_its_formula(name, formula):
    for log_t in np.linspace(-30, 30, 241):
        assert g(name, log_t) == pytest.approx(formula(math.exp(log_t)), rel=1e-13)


@every_g
def test_g_of_t_is_t_times_g_of_its_inverse(name):
    for log_t in np.linspace(0, 600, 301):
        there, back = g(name, log_t), g(name, -log_t)
        assert math.log(there) == pytest.approx(log_t + math.log(back), abs=1e-11)


@every_g
def test_g_reaches_and_never_exceeds_its_bound(name):
    log_ratios = np.concatenate([np.linspace(-50, 50, 1001), [1e3, 1e6, 1e300, math.inf]])
    values = np.array([g(name, log_t) for log_t in log_ratios])
    bound = BOUNDS.get(name, math.exp(LARGEST_LOG_RATE))
    assert values.max() <= bound
    assert values.max() >= 0.999 * min(bound, 1e100)


@every_g
@pytest.mark.parametrize("difference", [700.0, 745.0, 1e3, 1e4, 1e6, 1e300])
def test_rates_are_finite_at_extreme_energy_differences(name, difference):
    for ahead, behind in itertools.product((-difference, 0.0, difference), repeat=2):
        for energy in (0.0, 1e6, -1e6):
            rate_L, rate_F = rates(name, energy, energy + ahead, energy + behind)
            assert math.isfinite(rate_L + rate_F)
            assert rate_L >= 0
            assert rate_F >= 0


@every_g
def test_rates_are_never_nan_or_infinite_whatever_the_energies(name):
    energies = [0.0, 1e6, -1e6, 1e308, -1e308, math.inf, -math.inf, math.nan]
    for triple in itertools.product(energies, repeat=3):
        rate_L, rate_F = rates(name, *triple)
        assert math.isfinite(rate_L)
        assert math.isfinite(rate_F)
        assert min(rate_L, rate_F) >= 0


@every_g
@pytest.mark.parametrize("nowhere", [math.inf, -math.inf, math.nan])
def test_nothing_moves_to_where_the_energy_is_not_finite(name, nowhere):
    rate_L, rate_F = rates(name, 1.0, nowhere, 2.0)
    assert rate_L == 0
    assert rate_F == pytest.approx(g(name, -1.0), rel=1e-14)
    assert rates(name, 1.0, 2.0, nowhere) == (pytest.approx(g(name, -1.0), rel=1e-14), 0)


@every_g
def test_a_state_of_no_probability_is_left_at_once(name):
    rate_L, _ = rates(name, math.inf, 0.0, 0.0)
    assert rate_L >= 0.999 * min(BOUNDS.get(name, math.inf), 1e100)


@every_g
def test_flows_of_an_edge_agree_from_both_ends(name):
    rng = np.random.default_rng(1)
    for here, there in rng.normal(0, 5, (100, 2)):
        forth = math.exp(-here) * g(name, here - there)
        back = math.exp(-there) * g(name, there - here)
        assert forth == pytest.approx(back, rel=1e-12)


@every_g
def test_exit_rate_does_not_depend_on_the_direction(name):
    rng = np.random.default_rng(2)
    for energy, one, other in rng.normal(0, 5, (100, 3)):
        assert sum(rates(name, energy, one, other)) == pytest.approx(
            sum(rates(name, energy, other, one)), rel=1e-12
        )


def test_sqrt_rates_are_the_papers():
    rng = np.random.default_rng(3)
    for energy, ahead, behind in rng.normal(0, 3, (100, 3)):
        rate_L, rate_F = rates("sqrt", energy, ahead, behind)
        paper_L = math.sqrt(math.exp(energy - ahead))
        paper_F = max(0.0, math.sqrt(math.exp(energy - behind)) - paper_L)
        assert rate_L == pytest.approx(paper_L, rel=1e-13)
        assert rate_F == pytest.approx(paper_F, rel=1e-12, abs=1e-13)


@every_g
def test_rates_depend_on_energy_differences_alone(name):
    near = rates(name, 0.25, 1.0, -0.5)
    far = rates(name, 1e6 + 0.25, 1e6 + 1.0, 1e6 - 0.5)
    assert far == near
