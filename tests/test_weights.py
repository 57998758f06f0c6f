"""Holding times as weights, against plain NumPy, repetition, and exactly known jump processes."""

import math

import numpy as np
import pytest

from mjhmc_numba import weights
from mjhmc_numba.finite_ladder import (
    asymptotic_variance,
    embedded_chain,
    expected_holding_times,
    ladder_law,
    mjhmc_generator,
    stationary_law,
)

METHODS = ["multinomial", "stratified", "systematic"]
every_method = pytest.mark.parametrize("method", METHODS)


def jump_records(Q, jumps, chains, rng):
    """States visited by independent stationary chains, shape (jumps, chains)."""
    P = embedded_chain(Q)
    edges = P.cumsum(axis=1)[:, :-1]
    state = np.searchsorted(stationary_law(P).cumsum()[:-1], rng.random(chains))
    record = np.empty((jumps, chains), dtype=int)
    for t in range(jumps):
        record[t] = state
        state = (edges[state] < rng.random(chains)[:, None]).sum(axis=1)
    return record


class Ladder:
    """A jump process of which everything is known."""

    def __init__(self, rungs, sd, refresh_rate, rates, power, seed):
        rng = np.random.default_rng(seed)
        energies = rng.normal(0.0, sd, rungs)
        self.Q = mjhmc_generator(energies, rates, refresh_rate)
        self.f = np.tile(np.cos(2.0 * np.pi * np.arange(rungs) / rungs) ** power, 2)
        law = ladder_law(energies)
        self.mean = law @ self.f
        self.variance = law @ (self.f - self.mean) ** 2
        self.h = expected_holding_times(self.Q)
        P = embedded_chain(self.Q)
        visits = stationary_law(P)
        self.visited_mean = visits @ self.f
        linear = self.h * (self.f - self.mean) / (visits @ self.h)
        self.limit = {
            "expected": asymptotic_variance(P, linear),
            "sampled": asymptotic_variance(P, linear) + visits @ linear**2,
        }

    def records(self, jumps, chains, holding, rng):
        states = jump_records(self.Q, jumps, chains, rng)
        times = self.h[states]
        if holding == "sampled":
            times = times * rng.standard_exponential(times.shape)
        return self.f[states], times


# One whose linearised series is positively correlated (13 times the variance of independent
# states), one that is anti-correlated (0.56 times).
SLOW = Ladder(9, 2.0, 0.2, "sqrt", power=1, seed=4)
ALTERNATING = Ladder(20, 0.2, 0.05, "barker", power=2, seed=2)


@pytest.fixture
def record():
    rng = np.random.default_rng(0)
    return rng.normal(size=(57, 3)), rng.exponential(size=57)


# --- Moments and quantiles --------------------------------------------------------------------


def test_equal_weights_give_numpys_answers(record):
    values, _ = record
    equal = np.full(57, 0.3)
    np.testing.assert_allclose(weights.mean(values, equal), values.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(weights.variance(values, equal), values.var(axis=0), rtol=1e-13)
    third = weights.moment(values, 3, equal)
    np.testing.assert_allclose(third, (values**3).mean(axis=0), rtol=1e-12)
    q = np.linspace(0.0, 1.0, 58)
    expected = np.quantile(values, q, axis=0, method="inverted_cdf")
    np.testing.assert_array_equal(weights.quantile(values, q, equal), expected)


def test_whole_weights_count_as_repetitions(record):
    values, _ = record
    counts = np.random.default_rng(1).integers(0, 5, 57)
    repeated = np.repeat(values, counts, axis=0)
    np.testing.assert_allclose(weights.mean(values, counts), repeated.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(weights.variance(values, counts), repeated.var(axis=0), rtol=1e-13)
    fourth = weights.moment(values, 4, counts, central=True)
    expected = ((repeated - repeated.mean(axis=0)) ** 4).mean(axis=0)
    np.testing.assert_allclose(fourth, expected, rtol=1e-12)
    q = np.array([0.0, 0.05, 0.31, 0.5, 0.77, 1.0])
    expected = np.quantile(repeated, q, axis=0, method="inverted_cdf")
    np.testing.assert_array_equal(weights.quantile(values, q, counts), expected)


def test_columns_are_treated_one_by_one(record):
    values, w = record
    for function in (
        weights.mean,
        weights.variance,
        weights.mcse,
        weights.ess,
        weights.asymptotic_variance,
        lambda f, w: weights.moment(f, 3, w),
        lambda f, w: weights.quantile(f, 0.3, w),
    ):
        together = function(values, w)
        assert together.shape == (3,)
        for j in range(3):
            alone = function(values[:, j], w)
            assert alone.shape == ()
            assert alone == pytest.approx(together[j], rel=1e-12)


def test_quantile_has_the_shape_of_q_then_that_of_a_value(record):
    values, w = record
    assert weights.quantile(values, [[0.1, 0.2]], w).shape == (1, 2, 3)
    assert weights.quantile(values[:, 0], [0.1, 0.2], w).shape == (2,)
    assert weights.quantile(values[:, 0], 0.5, w).shape == ()


@pytest.mark.parametrize("factor", [1e-290, 1e290])
def test_only_ratios_of_weights_matter(record, factor):
    values, w = record
    for function in (weights.mean, weights.variance, weights.ess, weights.mcse):
        np.testing.assert_allclose(function(values, w * factor), function(values, w), rtol=1e-11)
    assert weights.kish_ess(w * factor) == pytest.approx(weights.kish_ess(w), rel=1e-12)
    np.testing.assert_array_equal(
        weights.resample(w * factor, 40, rng=3), weights.resample(w, 40, rng=3)
    )


def test_share_that_reaches_q_up_to_rounding_has_reached_it():
    # 7 / 25 * 25 is above 7 in floating point, and the seventh value has the share 7 / 25.
    assert 7 / 25 * 25 > 7
    assert weights.quantile(np.arange(25), 7 / 25, np.ones(25)) == 6
    counts = np.array([5, 6, 9, 7, 6, 5])
    assert weights.quantile(np.arange(6), counts[:5].sum() / counts.sum(), counts) == 4


def test_values_without_weight_do_not_count_even_if_infinite():
    values, w = [1.0, math.inf, 3.0, -math.inf], [1.0, 0.0, 1.0, 0.0]
    assert weights.mean(values, w) == 2.0
    assert weights.variance(values, w) == 1.0
    assert weights.quantile(values, 0.0, w) == 1.0
    assert weights.quantile(values, 1.0, w) == 3.0


# --- Effective sample size --------------------------------------------------------------------


def test_kish_counts_equal_weights_in_full_and_a_single_weight_once():
    assert weights.kish_ess(np.full(10, 7.0)) == pytest.approx(10.0, rel=1e-15)
    assert weights.kish_ess([0.0, 5.0, 0.0]) == 1.0
    assert weights.kish_ess([1.0, 2.0, 3.0]) == pytest.approx(36.0 / 14.0, rel=1e-15)


def test_time_average_is_unbiased_and_the_average_over_jumps_is_not():
    values, times = SLOW.records(4000, 100, "expected", np.random.default_rng(2))
    weighted = np.array([weights.mean(v, w) for v, w in zip(values.T, times.T, strict=True)])
    error = weighted.std(ddof=1) / 10.0
    assert abs(weighted.mean() - SLOW.mean) < 5.0 * error
    assert abs(values.mean() - SLOW.visited_mean) < abs(values.mean() - SLOW.mean) / 10.0


def ratios_to_the_limit(ladder, holding, method, seed, jumps=6000, chains=100):
    """Estimated over exact asymptotic variance, and z scores of the means, chain by chain."""
    values, times = ladder.records(jumps, chains, holding, np.random.default_rng(seed))
    ratios, z = [], []
    for v, w in zip(values.T, times.T, strict=True):
        ratios.append(weights.asymptotic_variance(v, w, method) / ladder.limit[holding])
        z.append((weights.mean(v, w) - ladder.mean) / weights.mcse(v, w, method))
    return np.array(ratios), np.array(z)


@pytest.mark.parametrize("holding", ["expected", "sampled"])
@pytest.mark.parametrize("ladder", [SLOW, ALTERNATING], ids=["slow", "alternating"])
def test_batch_means_find_the_exact_asymptotic_variance(ladder, holding):
    ratios, z = ratios_to_the_limit(ladder, holding, "batch_means", seed=3)
    # Batches of 78 jumps alone would give 0.87 on the slow one, batches of 39 would give 0.74.
    assert 0.9 < ratios.mean() < 1.25
    assert ratios.std() < 0.35
    # z is standard normal, so the mean of 100 squares is 1 with standard error 0.14.
    assert abs(np.mean(z**2) - 1.0) < 5.0 * math.sqrt(2.0 / z.size)


def test_ignoring_autocorrelation_would_be_wrong_by_a_factor():
    rng = np.random.default_rng(4)
    for ladder, low, high in [(SLOW, 5.0, 100.0), (ALTERNATING, 0.0, 0.7)]:
        values, times = ladder.records(20_000, 1, "expected", rng)
        series = times * (values - ladder.mean) / times.mean()
        assert low < ladder.limit["expected"] / series.var() < high


def test_initial_monotone_sequence_is_wrong_on_an_alternating_chain():
    # Why it is not the default: the truncated sum stays far above the limit.
    ratios, _ = ratios_to_the_limit(ALTERNATING, "expected", "initial_monotone", seed=5)
    assert ratios.mean() > 3.0


@pytest.mark.parametrize("method", ["batch_means", "initial_monotone"])
def test_both_estimators_agree_with_theory_on_an_autoregression(method):
    # Reversible, so both are consistent: n Var(mean) -> 1 / (1 - rho)^2 for unit innovations.
    rho, rng, ratios = 0.7, np.random.default_rng(6), []
    for _ in range(50):
        noise = rng.normal(size=6000)
        noise[0] /= math.sqrt(1.0 - rho**2)
        for t in range(1, noise.size):
            noise[t] += rho * noise[t - 1]
        estimate = weights.asymptotic_variance(noise, np.ones(noise.size), method)
        ratios.append(estimate * (1.0 - rho) ** 2)
    assert abs(np.mean(ratios) - 1.0) < 0.1


def test_ess_of_independent_states_is_their_number_and_with_weights_that_of_the_ratio():
    rng = np.random.default_rng(7)
    plain, weighted = [], []
    for _ in range(100):
        values, times = rng.normal(size=2000), rng.exponential(size=2000)
        plain.append(weights.ess(values, np.ones(2000)))
        weighted.append(weights.ess(values, times))
    # E[w]^2 / E[w^2] = 1/2 for exponential weights that do not depend on the values.
    assert abs(np.mean(1.0 / np.array(plain)) * 2000 - 1.0) < 0.1
    assert abs(np.mean(1.0 / np.array(weighted)) * 1000 - 1.0) < 0.1


def test_ess_is_variance_over_squared_standard_error(record):
    values, w = record
    expected = weights.variance(values, w) / weights.mcse(values, w) ** 2
    np.testing.assert_allclose(weights.ess(values, w), expected, rtol=1e-12)


def test_ess_of_values_that_never_change_is_nan_and_their_error_nothing():
    w = np.random.default_rng(8).exponential(size=100)
    assert np.isnan(weights.ess(np.full(100, 0.1), w))
    assert weights.mcse(np.full(100, 0.1), w) < 1e-15


# --- Resampling -------------------------------------------------------------------------------


@every_method
def test_every_state_is_taken_in_proportion_to_its_weight(method):
    w = np.array([0.1, 0.0, 2.3, 0.7, 1.9, 0.0, 0.4])
    rng, n = np.random.default_rng(9), 11
    counts = np.array(
        [np.bincount(weights.resample(w, n, method, rng), minlength=7) for _ in range(4000)]
    )
    expected = n * w / w.sum()
    spread = counts.std(axis=0, ddof=1) / math.sqrt(4000)
    assert np.all(counts.sum(axis=1) == n)
    assert np.all(counts[:, w == 0.0] == 0)
    assert np.all(np.abs(counts.mean(axis=0) - expected) <= 5.0 * spread)


def test_systematic_counts_stray_by_less_than_one_and_stratified_by_less_than_two():
    rng = np.random.default_rng(10)
    for _ in range(200):
        w, n = rng.exponential(size=30), 100
        expected = n * w / w.sum()
        systematic = np.bincount(weights.resample(w, n, "systematic", rng), minlength=30)
        stratified = np.bincount(weights.resample(w, n, "stratified", rng), minlength=30)
        assert np.all(np.abs(systematic - expected) < 1.0 + 1e-9)
        assert np.all(np.abs(stratified - expected) < 2.0 + 1e-9)


def test_multinomial_counts_have_the_multinomial_variance():
    w, rng, n = np.array([1.0, 2.0, 7.0]), np.random.default_rng(11), 50
    counts = np.array(
        [np.bincount(weights.resample(w, n, "multinomial", rng), minlength=3) for _ in range(5000)]
    )
    p = w / w.sum()
    # The relative standard error of a variance from 5000 counts is about 0.02.
    np.testing.assert_allclose(counts.var(axis=0), n * p * (1.0 - p), rtol=0.1)


@every_method
def test_indices_point_into_the_record(method):
    w = np.random.default_rng(12).exponential(size=25)
    for n in (0, 1, 7, 1000):
        chosen = weights.resample(w, n, method, rng=1)
        assert chosen.shape == (n,)
        assert chosen.dtype == np.int64
        assert np.all((chosen >= 0) & (chosen < 25))
    assert weights.resample(w, method=method, rng=1).shape == (25,)


@pytest.mark.parametrize("method", ["stratified", "systematic"])
def test_stratified_and_systematic_indices_keep_the_order_of_the_record(method):
    w = np.random.default_rng(13).exponential(size=25)
    assert np.all(np.diff(weights.resample(w, 200, method, rng=2)) >= 0)


@every_method
def test_the_same_seed_gives_the_same_indices_and_another_gives_others(method):
    w = np.random.default_rng(14).exponential(size=500)
    first = weights.resample(w, 500, method, rng=5)
    np.testing.assert_array_equal(first, weights.resample(w, 500, method, rng=5))
    np.testing.assert_array_equal(
        first, weights.resample(w, 500, method, rng=np.random.default_rng(5))
    )
    assert np.any(first != weights.resample(w, 500, method, rng=6))


@every_method
def test_point_at_the_very_start_takes_the_first_state_with_weight(method):
    class AlwaysTheStart(np.random.Generator):
        def random(self, size=None):
            return 0.0 if size is None else np.zeros(size)

    chosen = weights.resample([0.0, 1.0, 1.0], 1, method, AlwaysTheStart(np.random.PCG64(0)))
    assert chosen.tolist() == [1]


@every_method
def test_point_rounded_up_to_the_end_takes_the_last_state_with_weight(method):
    class AlwaysTheEnd(np.random.Generator):
        def random(self, size=None):
            return 1.0 if size is None else np.ones(size)

    chosen = weights.resample([1.0, 1.0, 0.0], 3, method, AlwaysTheEnd(np.random.PCG64(0)))
    assert chosen.max() == 1


# --- What is refused --------------------------------------------------------------------------

ALL = [
    lambda w: weights.mean(np.zeros(3), w),
    lambda w: weights.variance(np.zeros(3), w),
    lambda w: weights.quantile(np.zeros(3), 0.5, w),
    lambda w: weights.asymptotic_variance(np.zeros(3), w),
    weights.kish_ess,
    weights.resample,
]


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize(
    ("w", "message"),
    [
        ([1.0, -0.5, 1.0], "weight 1 is -0.5"),
        ([1.0, 1.0, math.nan], "weight 2 is nan"),
        ([math.inf, 1.0, 1.0], "weight 0 is inf"),
        ([0.0, 0.0, 0.0], "all weights are zero"),
        ([], "shape"),
        ([[1.0, 1.0, 1.0]], "shape"),
        (1.0, "shape"),
    ],
)
def test_weights_that_are_no_weights_are_refused(function, w, message):
    with pytest.raises(ValueError, match=message):
        function(w)


@pytest.mark.parametrize("values", [np.zeros(4), np.zeros((4, 2)), np.zeros((3, 2, 2)), 1.0])
def test_values_of_the_wrong_shape_are_refused(values):
    for function in (weights.mean, weights.variance, weights.mcse, weights.ess):
        with pytest.raises(ValueError, match="values must have shape"):
            function(values, np.ones(3))


def test_other_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        weights.quantile(np.zeros(3), 1.1, np.ones(3))
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        weights.quantile(np.zeros(3), math.nan, np.ones(3))
    with pytest.raises(ValueError, match="NaN"):
        weights.quantile([1.0, math.nan], 0.5, np.ones(2))
    with pytest.raises(ValueError, match="too few"):
        weights.mcse(np.zeros(5), np.ones(5))
    with pytest.raises(ValueError, match="finite"):
        weights.mcse(np.full(20, math.inf), np.ones(20))
    with pytest.raises(ValueError, match="batch_means"):
        weights.mcse(np.zeros(20), np.ones(20), "spectral")
    with pytest.raises(ValueError, match="systematic"):
        weights.resample(np.ones(3), 3, "residual")
    with pytest.raises(ValueError, match="negative"):
        weights.resample(np.ones(3), -1)
    with pytest.raises(ValueError, match="power"):
        weights.moment([-1.0, 1.0], 0.5, np.ones(2))


# ---------------------------------------------------------------------- several chains


def test_a_summary_of_chains_is_that_of_their_states_together():
    rng = np.random.default_rng(5)
    lengths = (400, 900, 250)
    values = [rng.normal(2.0, 3.0, size=(n, 2)) for n in lengths]
    times = [rng.exponential(size=n) for n in lengths]
    made = weights.summary(values, times)
    together, time = np.concatenate(values), np.concatenate(times)
    np.testing.assert_allclose(made["mean"], weights.mean(together, time))
    np.testing.assert_allclose(made["sd"] ** 2, weights.variance(together, time))
    # Independent states: Kish's size, up to the noise of batch means.
    np.testing.assert_allclose(made["ess"], weights.kish_ess(time), rtol=0.5)
    np.testing.assert_allclose(made["mcse_mean"], made["sd"] / np.sqrt(made["ess"]))
    assert np.all(made["r_hat"] < 1.02)


def test_r_hat_sees_chains_and_halves_that_disagree():
    rng = np.random.default_rng(6)
    times = [rng.exponential(size=1000) for _ in range(2)]
    apart = [rng.normal(size=1000), rng.normal(1.0, size=1000)]
    drift = [np.sort(rng.normal(size=1000)) for _ in range(2)]
    assert weights.summary(apart, times)["r_hat"] > 1.1
    assert weights.summary(drift, times)["r_hat"] > 1.5


def test_a_summary_of_what_never_changes_has_no_effective_size():
    made = weights.summary([np.full(20, 3.3)] * 2, [np.linspace(1, 2, 20)] * 2)
    assert made["mean"] == pytest.approx(3.3)
    assert np.isnan(made["ess"])
    assert np.isnan(made["r_hat"])
    with pytest.raises(ValueError, match="2 chains of values, but 1 of weights"):
        weights.summary([np.ones(20)] * 2, [np.ones(20)])
