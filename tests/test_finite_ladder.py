"""Exact properties of the kernel's rates on circular ladders, and of the algebra around them."""

import math

import numpy as np
import pytest

from mjhmc_numba.finite_ladder import (
    asymptotic_variance,
    embedded_chain,
    expected_holding_times,
    hmc_matrix,
    ladder_law,
    mjhmc_generator,
    spectral_gap,
    state_index,
    stationary_law,
    uniformised,
)
from mjhmc_numba.kernel.rates import BARKER, METROPOLIS, SQRT, jump_rates


def own_g(t):
    """A user's balancing function, bounded by 1: t (1 + t) / (1 + t + t^2)."""
    return t * (1.0 + t) / (1.0 + t + t * t)


RATES = ["sqrt", "metropolis", "barker", own_g]
every_g = pytest.mark.parametrize("rates", RATES, ids=lambda g: getattr(g, "__name__", g))


def random_ladder(rng):
    sd = math.exp(rng.uniform(math.log(0.1), math.log(5.0)))
    return rng.normal(0.0, sd, rng.integers(3, 41))


def largest_flow(law, Q):
    flow = law[:, None] * Q
    np.fill_diagonal(flow, 0.0)
    return flow.max()


def imbalance(energies, Q):
    law = ladder_law(energies)
    return np.abs(law @ Q).max() / largest_flow(law, Q)


def with_flips_scaled(Q, factor):
    k = Q.shape[0] // 2
    out = Q.copy()
    for i in range(k):
        out[i, k + i] *= factor
        out[k + i, i] *= factor
    np.fill_diagonal(out, 0.0)
    np.fill_diagonal(out, -out.sum(axis=1))
    return out


def period(P):
    """Greatest common divisor of the lengths of closed walks of an irreducible chain."""
    level, queue, divisor = {0: 0}, [0], 0
    for a in queue:
        for b in np.flatnonzero(P[a] > 0.0):
            if b in level:
                divisor = math.gcd(divisor, level[a] + 1 - level[b])
            else:
                level[b] = level[a] + 1
                queue.append(b)
    assert len(level) == P.shape[0]
    return divisor


# --- The kernel's rates -----------------------------------------------------------------------


@every_g
def test_target_is_stationary_on_1000_random_ladders(rates):
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(1000):
        energies = random_ladder(rng)
        worst = max(worst, imbalance(energies, mjhmc_generator(energies, rates)))
    assert worst < 1e-13


@every_g
def test_target_is_stationary_with_refreshment(rates):
    rng = np.random.default_rng(2)
    for _ in range(100):
        energies, beta = random_ladder(rng), rng.exponential()
        assert imbalance(energies, mjhmc_generator(energies, rates, beta)) < 1e-13


@every_g
@pytest.mark.parametrize("factor", [0.0, 0.99, 1.01])
def test_stationarity_notices_a_wrong_flip_rate(rates, factor):
    rng = np.random.default_rng(3)
    for _ in range(100):
        energies = random_ladder(rng)
        Q = with_flips_scaled(mjhmc_generator(energies, rates), factor)
        assert imbalance(energies, Q) > 1e-5


def test_generator_holds_the_papers_rates():
    energies = np.array([0.3, -1.2, 0.9, 2.0])
    Q, k = mjhmc_generator(energies, "sqrt", refresh_rate=0.4), 4
    pi = np.exp(-energies)
    for i in range(k):
        for s in (1, -1):
            here = state_index(i, s, k)
            ahead = math.sqrt(pi[(i + s) % k] / pi[i])
            behind = math.sqrt(pi[(i - s) % k] / pi[i])
            expected = np.zeros(2 * k)
            expected[state_index(i + s, s, k)] = ahead
            expected[state_index(i, -s, k)] = max(0.0, behind - ahead) + 0.2
            expected[here] = -expected.sum()
            np.testing.assert_allclose(Q[here], expected, rtol=1e-14)


def test_states_are_numbered_rungs_first_then_direction():
    indices = [state_index(i, s, 5) for s in (1, -1) for i in range(5)]
    assert indices == list(range(10))
    assert state_index(5, 1, 5) == 0
    assert state_index(-1, -1, 5) == 9
    with pytest.raises(ValueError, match="direction"):
        state_index(0, 0, 5)


def test_own_g_equal_to_a_named_one_gives_the_same_generator():
    energies = np.random.default_rng(4).normal(0.0, 3.0, 9)
    for name, g in [
        ("sqrt", math.sqrt),
        ("metropolis", lambda t: min(1.0, t)),
        ("barker", lambda t: 2.0 * t / (1.0 + t)),
    ]:
        named, own = mjhmc_generator(energies, name), mjhmc_generator(energies, g)
        np.testing.assert_allclose(own, named, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("height", [600.0, 800.0, 1e6, math.inf])
def test_own_bounded_g_leaves_a_state_of_vanishing_probability_as_the_named_one_does(height):
    energies = [0.0, height, 0.3]
    named = mjhmc_generator(energies, "metropolis")
    own = mjhmc_generator(energies, lambda t: min(1.0, t))
    assert named[1, 2] == 1.0
    np.testing.assert_allclose(own, named, rtol=1e-12, atol=1e-12)


EXTREMES = [x * sign for x in (700.0, 745.0, 1400.0, 1e4, 1e6, math.inf) for sign in (1, -1)]
EXTREMES += [math.nan, 0.0, 1e-300]


@pytest.mark.parametrize("kind", [SQRT, METROPOLIS, BARKER])
def test_rates_are_finite_and_not_negative_at_extreme_energies(kind):
    for here in EXTREMES:
        for ahead in EXTREMES:
            for behind in EXTREMES:
                rate_L, rate_F = jump_rates(kind, here, ahead, behind, 0)
                assert 0.0 <= rate_L < math.inf
                assert 0.0 <= rate_F < math.inf
                assert rate_L + rate_F < math.inf


@every_g
@pytest.mark.parametrize("jump", EXTREMES, ids=str)
def test_generator_is_finite_and_left_at_the_refresh_rate_at_extreme_energies(rates, jump):
    beta = 0.3
    Q = mjhmc_generator([0.0, jump, 1.0, 0.5, jump], rates, refresh_rate=beta)
    assert np.all(np.isfinite(Q))
    # The direction changes in half of the refreshments.
    assert np.all(-np.diag(Q) >= 0.5 * beta)


@every_g
@pytest.mark.parametrize("energy", [math.inf, -math.inf, math.nan], ids=str)
def test_no_probability_flows_into_a_rung_that_is_not_finite(rates, energy):
    energies = np.array([0.0, 0.7, energy, -0.4])
    Q = mjhmc_generator(energies, rates, refresh_rate=0.1)
    forbidden = [state_index(2, s, 4) for s in (1, -1)]
    others = np.setdiff1d(np.arange(8), forbidden)
    assert np.all(Q[np.ix_(others, forbidden)] == 0.0)
    assert imbalance(energies, Q) < 1e-13


def test_mean_rate_of_the_papers_rule_is_at_most_two():
    rng = np.random.default_rng(5)
    for _ in range(100):
        energies = random_ladder(rng)
        assert ladder_law(energies) @ -np.diag(mjhmc_generator(energies)) <= 2.0


# --- Embedded chain ---------------------------------------------------------------------------


@every_g
def test_embedded_chain_keeps_pi_times_rate_and_not_pi(rates):
    rng = np.random.default_rng(6)
    for _ in range(100):
        energies = random_ladder(rng)
        law, Q = ladder_law(energies), mjhmc_generator(energies, rates)
        P = embedded_chain(Q)
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-14)
        visits = law / expected_holding_times(Q)
        visits /= visits.sum()
        assert np.abs(visits @ P - visits).max() / visits.max() < 1e-13
        assert np.abs(law @ P - law).max() / law.max() > 1e-4
        np.testing.assert_allclose(stationary_law(P), visits, rtol=1e-12)


def test_three_equal_rates_are_chosen_with_probability_one_third():
    Q = np.ones((4, 4)) - 4.0 * np.eye(4)
    P = embedded_chain(Q)
    np.testing.assert_allclose(P, (np.ones((4, 4)) - np.eye(4)) / 3.0, rtol=1e-15)
    # The paper's product over pairs gives 1/4 and is not a probability: three sum to 3/4.
    product = np.prod([Q[0, 1] / (Q[0, 1] + Q[0, c]) for c in (2, 3)])
    assert product == 0.25


def test_competing_exponentials_choose_as_the_embedded_chain_says():
    energies = np.array([0.0, 1.1, -0.6])
    Q = mjhmc_generator(energies, refresh_rate=0.5)
    P, rng, n = embedded_chain(Q), np.random.default_rng(7), 200_000
    for here in range(6):
        targets = np.flatnonzero(P[here])
        waits = rng.exponential(1.0 / Q[here, targets], size=(n, targets.size))
        share = np.mean(waits.argmin(axis=1)[:, None] == np.arange(targets.size), axis=0)
        p = P[here, targets]
        assert np.all(np.abs(share - p) < 5.0 * np.sqrt(p * (1.0 - p) / n))
        holding = waits.min(axis=1)
        z = (holding.mean() - expected_holding_times(Q)[here]) / (holding.std() / math.sqrt(n))
        assert abs(z) < 5.0


@every_g
@pytest.mark.parametrize("refresh_rate", [0.0, 0.3])
def test_embedded_chain_has_period_two_on_every_even_ladder_and_one_on_odd(rates, refresh_rate):
    rng = np.random.default_rng(8)
    for k in range(3, 25):
        P = embedded_chain(mjhmc_generator(rng.normal(size=k), rates, refresh_rate))
        assert period(P) == (2 if k % 2 == 0 else 1)
        if k % 2 == 0:
            assert abs(spectral_gap(P, by="modulus")) < 1e-12
        else:
            assert spectral_gap(P, by="modulus") > 1e-6
        assert spectral_gap(P, by="real") > 1e-6


def test_odd_ladder_broken_by_an_infinite_rung_has_period_two():
    Q = mjhmc_generator([0.2, -1.0, math.inf, 0.4, 1.3], refresh_rate=0.1)
    kept = [i for i in range(10) if i % 5 != 2]
    P = embedded_chain(Q)[np.ix_(kept, kept)]
    assert period(P) == 2
    assert abs(spectral_gap(P, by="modulus")) < 1e-12


def test_state_that_is_never_left_stays_in_the_embedded_chain():
    Q = np.array([[-1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(embedded_chain(Q), [[0.0, 1.0], [0.0, 1.0]])
    np.testing.assert_array_equal(expected_holding_times(Q), [1.0, math.inf])


# --- Discrete-time HMC ------------------------------------------------------------------------


@pytest.mark.parametrize("refresh_probability", [0.0, 0.3, 1.0])
def test_target_is_stationary_for_hmc(refresh_probability):
    rng = np.random.default_rng(9)
    for _ in range(200):
        energies = random_ladder(rng)
        law, P = ladder_law(energies), hmc_matrix(energies, refresh_probability)
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-14)
        assert np.abs(law @ P - law).max() / law.max() < 1e-14


def test_hmc_moves_ahead_with_the_metropolis_probability_and_else_flips():
    energies, k = np.array([0.0, 1.0, 0.5]), 3
    P = hmc_matrix(energies)
    up = state_index(0, 1, k)
    assert P[up, state_index(1, 1, k)] == pytest.approx(math.exp(-1.0), rel=1e-15)
    assert P[up, state_index(0, -1, k)] == pytest.approx(1.0 - math.exp(-1.0), rel=1e-15)
    assert P[state_index(1, -1, k), state_index(0, -1, k)] == 1.0


def test_hmc_forgets_its_direction_when_always_refreshed():
    P = hmc_matrix([0.0, 1.0, 0.5, 2.0], refresh_probability=1.0)
    np.testing.assert_allclose(P[:, :4], P[:, 4:], rtol=1e-15)


# --- Stationary law ---------------------------------------------------------------------------


@every_g
def test_stationary_law_of_the_generator_is_the_target(rates):
    rng = np.random.default_rng(10)
    for _ in range(200):
        energies = random_ladder(rng)
        law = stationary_law(mjhmc_generator(energies, rates))
        assert np.abs(law / ladder_law(energies) - 1.0).max() < 1e-12


def test_stationary_law_of_hmc_is_the_target():
    rng = np.random.default_rng(11)
    for _ in range(200):
        energies = random_ladder(rng)
        law = stationary_law(hmc_matrix(energies))
        assert np.abs(law / ladder_law(energies) - 1.0).max() < 1e-12


def test_stationary_law_keeps_small_probabilities_accurate():
    # A birth-death chain whose law spans 60 orders of magnitude: pi_i = 10^-3i.
    k = 21
    Q = np.diag(np.full(k - 1, 1e-3), 1) + np.diag(np.ones(k - 1), -1)
    np.fill_diagonal(Q, -Q.sum(axis=1))
    expected = 10.0 ** (-3.0 * np.arange(k))
    law = stationary_law(Q)
    np.testing.assert_allclose(law, expected / expected.sum(), rtol=1e-13)


def test_states_left_for_ever_have_no_probability():
    Q = np.array([[-2.0, 1.0, 1.0], [0.0, -1.0, 1.0], [0.0, 3.0, -3.0]])
    np.testing.assert_allclose(stationary_law(Q), [0.0, 0.75, 0.25], rtol=1e-15)
    np.testing.assert_array_equal(stationary_law([[0.5, 0.5], [0.0, 1.0]]), [0.0, 1.0])


def test_equal_energies_without_refreshment_have_no_unique_law():
    Q = mjhmc_generator(np.zeros(5))
    with pytest.raises(ValueError, match="not unique"):
        stationary_law(Q)
    assert spectral_gap(embedded_chain(Q), by="real") == pytest.approx(0.0, abs=1e-13)
    law = stationary_law(mjhmc_generator(np.zeros(5), refresh_rate=0.1))
    np.testing.assert_allclose(law, 0.1, rtol=1e-13)


# --- Spectral gap and uniformisation ----------------------------------------------------------


def test_spectral_gap_of_a_known_matrix():
    # Eigenvalues 1, 1 - a - b.
    P = np.array([[0.1, 0.9], [0.7, 0.3]])
    assert spectral_gap(P, by="modulus") == pytest.approx(1.0 - 0.6, rel=1e-14)
    assert spectral_gap(P, by="real") == pytest.approx(1.0 + 0.6, rel=1e-14)


@every_g
def test_gap_of_the_uniformised_chain_is_that_of_the_generator_in_units_of_the_clock(rates):
    rng = np.random.default_rng(12)
    for _ in range(20):
        energies = random_ladder(rng)
        Q = mjhmc_generator(energies, rates, 0.2)
        clock = 1.5 * -np.diag(Q).min()
        P = uniformised(Q, clock)
        assert np.all(P >= 0.0)
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-14)
        np.testing.assert_allclose(stationary_law(P), ladder_law(energies), rtol=1e-12)
        gap, scaled = spectral_gap(Q, by="real"), clock * spectral_gap(P, by="real")
        assert scaled == pytest.approx(gap, rel=1e-6, abs=1e-11 * clock)


def test_uniformised_metropolis_is_the_thinned_sampler():
    # At a ring: refresh with beta / (1 + beta); else ahead with a; else flip with (b - a)^+.
    energies, beta, k = np.array([0.4, -0.5, 1.2, 0.1]), 0.25, 4
    P = uniformised(mjhmc_generator(energies, "metropolis", beta), 1.0 + beta)
    for i in range(k):
        for s in (1, -1):
            a = min(1.0, math.exp(energies[i] - energies[(i + s) % k]))
            b = min(1.0, math.exp(energies[i] - energies[(i - s) % k]))
            here = state_index(i, s, k)
            ahead, flip = P[here, state_index(i + s, s, k)], P[here, state_index(i, -s, k)]
            assert ahead == pytest.approx(a / (1.0 + beta), rel=1e-14)
            assert flip == pytest.approx((max(0.0, b - a) + 0.5 * beta) / (1.0 + beta), rel=1e-14)


def test_uniformised_uses_the_largest_exit_rate_and_refuses_less():
    Q = mjhmc_generator([0.0, 1.0, -2.0], refresh_rate=0.1)
    assert uniformised(Q).min() == 0.0
    np.testing.assert_array_equal(uniformised(Q), uniformised(Q, -np.diag(Q).min()))
    with pytest.raises(ValueError, match="largest exit rate"):
        uniformised(Q, 0.9 * -np.diag(Q).min())


# --- Asymptotic variance ----------------------------------------------------------------------


def test_asymptotic_variance_of_two_states_is_known():
    a, b = 0.3, 1.1
    Q = np.array([[-a, a], [b, -b]])
    expected = 2.0 * a * b / (a + b) ** 3
    assert asymptotic_variance(Q, [0.0, 1.0]) == pytest.approx(expected, rel=1e-13)
    P = np.array([[1.0 - a, a], [b / 2.0, 1.0 - b / 2.0]])
    p, q = a, b / 2.0
    expected = p * q * (2.0 - p - q) / (p + q) ** 3
    assert asymptotic_variance(P, [0.0, 1.0]) == pytest.approx(expected, rel=1e-13)


def test_asymptotic_variance_is_the_sum_of_all_autocovariances():
    rng = np.random.default_rng(13)
    energies = rng.normal(0.0, 1.0, 7)
    P, law, f = hmc_matrix(energies, 0.4), ladder_law(energies), rng.normal(size=14)
    deviation = f - law @ f
    total, moved = law @ deviation**2, deviation
    for _ in range(2000):
        moved = P @ moved
        total += 2.0 * (law * deviation) @ moved
    assert asymptotic_variance(P, f) == pytest.approx(total, rel=1e-10)


def test_asymptotic_variance_of_a_periodic_chain_is_that_of_its_means():
    # 0, 1, 0, 1, ...: the mean of n steps is off by at most 1 / (2 n).
    P = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert asymptotic_variance(P, [0.0, 1.0]) == pytest.approx(0.0, abs=1e-15)


@every_g
def test_time_average_and_weighted_record_have_the_same_asymptotic_variance(rates):
    # Renewal: per unit of time, the jumps' linearised series and the spread of holding times.
    rng = np.random.default_rng(14)
    for _ in range(50):
        energies = random_ladder(rng)
        f = np.tile(rng.normal(size=energies.size), 2)
        Q = mjhmc_generator(energies, rates, 0.3)
        P, h = embedded_chain(Q), expected_holding_times(Q)
        visits = stationary_law(P)
        mean_time = visits @ h
        linear = h * (f - ladder_law(energies) @ f) / mean_time
        per_jump = asymptotic_variance(P, linear) + visits @ linear**2
        # Rounding grows with the time that the slowest barrier takes: 1e8 at the worst here.
        assert asymptotic_variance(Q, f) == pytest.approx(mean_time * per_jump, rel=1e-6)


def test_uniformised_chain_has_the_asymptotic_variance_of_the_process():
    # Looked at by a Poisson clock of rate r: V_P = r V_Q - Var(f), V_Q per unit of time.
    rng = np.random.default_rng(15)
    energies, f = rng.normal(size=6), rng.normal(size=12)
    law, Q = ladder_law(energies), mjhmc_generator(energies, "barker", 0.2)
    variance = law @ (f - law @ f) ** 2
    chain = asymptotic_variance(uniformised(Q, 4.0), f)
    assert chain == pytest.approx(4.0 * asymptotic_variance(Q, f) - variance, rel=1e-12)


# --- What is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("energies", [[], [1.0], [[0.0, 1.0]], [math.inf, math.nan]])
def test_energies_that_make_no_ladder_are_refused(energies):
    with pytest.raises(ValueError, match="energ"):
        mjhmc_generator(energies)


@pytest.mark.parametrize("refresh_rate", [-0.1, math.nan, math.inf])
def test_bad_refresh_rate_is_refused(refresh_rate):
    with pytest.raises(ValueError, match="refresh_rate"):
        mjhmc_generator([0.0, 1.0], refresh_rate=refresh_rate)


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan])
def test_bad_refresh_probability_is_refused(probability):
    with pytest.raises(ValueError, match="refresh_probability"):
        hmc_matrix([0.0, 1.0], probability)


def test_unknown_or_unbalanced_rates_are_refused():
    with pytest.raises(ValueError, match="metropolis"):
        mjhmc_generator([0.0, 1.0], "heat bath")
    with pytest.raises(TypeError, match="function"):
        mjhmc_generator([0.0, 1.0], 3.0)
    with pytest.raises(ValueError, match="not a balancing function"):
        mjhmc_generator([0.0, 1.0], lambda t: t**0.6)
    with pytest.raises(ValueError, match="finite"):
        mjhmc_generator([0.0, 1.0], lambda t: -t)


def test_exception_of_an_own_g_reaches_the_caller():
    def fragile(t):
        if t == math.exp(-3.5):
            raise ZeroDivisionError("asked at the wrong place")
        return min(1.0, t)

    with pytest.raises(ZeroDivisionError, match="wrong place"):
        mjhmc_generator([0.0, 3.5, 1.0], fragile)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "square"),
        ([[0.5, 0.4], [0.5, 0.5]], "sum"),
        ([[1.5, -0.5], [0.0, 1.0]], "negative"),
        ([[math.nan, 1.0], [0.0, 1.0]], "finite"),
        ([[-1.0, 2.0], [0.5, 0.5]], "sum"),
    ],
)
def test_what_is_neither_generator_nor_transition_matrix_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        stationary_law(matrix)


def test_arguments_of_the_wrong_kind_are_refused():
    P = hmc_matrix([0.0, 1.0, 0.5])
    with pytest.raises(ValueError, match="generator"):
        embedded_chain(P)
    with pytest.raises(ValueError, match="real"):
        spectral_gap(mjhmc_generator([0.0, 1.0, 0.5]), by="modulus")
    with pytest.raises(ValueError, match="modulus"):
        spectral_gap(P, by="imaginary")
    with pytest.raises(ValueError, match="tile"):
        asymptotic_variance(P, np.ones(3))
