"""How many independent draws some chains are worth, and whether they agree."""

import numpy as np
import pytest

from mjhmc_numba import convergence
from mjhmc_numba.convergence import (
    effective_size,
    is_converged,
    least_effective,
    slowest_dimensions,
    split_r_hat,
)
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


def monotone_sequence(x):
    """Geyer's effective size of one chain, written out."""
    n, centred = len(x), x - x.mean()
    correlation = [centred[k:] @ centred[: n - k] / (centred @ centred) for k in range(n)]
    total, last = -1.0, np.inf
    for k in range(0, n - 1, 2):
        pair = correlation[k] + correlation[k + 1]
        if pair <= 0:
            break
        last = min(last, pair)
        total += 2 * last
    return n / total


def test_pairs_of_correlations_are_made_to_fall(seeds):
    draws = autoregression(np.full(50, 0.7), 301, np.random.default_rng(seeds(66)), chains=1)
    expected = [monotone_sequence(draws[0, :, k]) for k in range(50)]
    np.testing.assert_allclose(effective_size(draws), expected, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
def test_the_least_effective_dimension_is_found_by_values_or_squares(seeds, size):
    rng = np.random.default_rng(seeds(67))
    draws = autoregression(np.full(40, 0.2), 1000, rng)
    draws[:, :, 11] = autoregression(0.95, 1000, rng)[:, :, 0]
    slow, dimension = least_effective(size * draws)
    assert dimension == 11
    assert 50 < slow < 250  # 103
    signs = rng.choice([-1.0, 1.0], (4, 1000))
    draws[:, :, 23] = signs * np.exp(0.3 * autoregression(0.99, 1000, rng)[:, :, 0])
    slower, dimension = least_effective(size * draws)
    assert dimension == 23
    assert slower < slow


@pytest.mark.parametrize("block", [1 << 18, 5000])
def test_the_slowest_dimensions_come_first(monkeypatch, seeds, block):
    monkeypatch.setattr("mjhmc_numba.convergence.BLOCK_SIZE", block)
    rho = np.zeros(40)
    rho[[7, 31]] = 0.95, 0.8
    draws = autoregression(rho, 500, np.random.default_rng(seeds(65)))
    draws[:, :, 5] = np.sign(draws[:, :, 5]) * np.exp(draws[:, :, 7])
    by_values, by_squares = slowest_dimensions(draws)
    assert list(by_values[:2]) == [7, 31]
    assert by_squares[0] in (5, 7)
    assert 5 in by_squares
    assert 5 not in by_values[:2]
    assert len(by_values) == len(by_squares) == 16


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
    monkeypatch.setattr("mjhmc_numba.convergence.BLOCK_SIZE", 1000)
    np.testing.assert_allclose(split_r_hat(draws), expected)


def test_r_hat_of_what_never_moved_is_no_number():
    assert np.isnan(split_r_hat(np.ones((2, 100, 1)))).all()


# ------------------------------------------------------------------- with ranks


def good_draws(rng):
    return np.exp(3.0 * autoregression(np.full(20, 0.3), 1000, rng))  # of heavy tails


def test_chains_that_agree_are_converged_however_heavy_their_tails(seeds):
    draws = good_draws(np.random.default_rng(seeds(68)))
    draws[:, :, 7] = 1.0  # a constant of the model
    assert is_converged(draws)


def apart(draws, rng):
    draws[:, :, 3] *= np.exp(0.6 * np.arange(4))[:, None]  # 0.2 of its sd in logs


def of_other_scales(draws, rng):
    draws[:, :, 3] = rng.normal(size=(4, 1000)) * np.array([1.0, 1.0, 1.0, 1.6])[:, None]


def slow(draws, rng):
    draws[:, :, 3] = autoregression(0.96, 1000, rng)[:, :, 0]


def not_finite(draws, rng):
    draws[1, 500, 3] = np.nan


@pytest.mark.parametrize("spoil", [apart, of_other_scales, slow, not_finite])
def test_one_dimension_that_is_not_converged_is_enough(spoil, seeds):
    rng = np.random.default_rng(seeds(69))
    draws = good_draws(rng)
    spoil(draws, rng)
    assert not is_converged(draws)


def test_ranks_are_those_of_vehtari_et_al(seeds):
    """ArviZ computes the same R-hat, and nearly the same effective sizes."""
    arviz_stats = pytest.importorskip("arviz_stats")
    rng = np.random.default_rng(seeds(74))
    draws = autoregression(np.linspace(-0.4, 0.9, 6), 800, rng)
    scores = convergence._normal_scores(draws)
    axes = {"chain_axis": 0, "draw_axis": 1}
    halves = scores.reshape(8, 400, 6)
    for j in range(6):
        r_hat = arviz_stats.rhat(draws[..., j], method="z_scale", **axes)
        assert split_r_hat(scores)[j] == pytest.approx(float(r_hat), rel=1e-9)
        size = arviz_stats.ess(draws[..., j], method="bulk", **axes)
        assert effective_size(halves)[j] == pytest.approx(float(size), rel=0.1)
