"""Warnings about draws that should not be trusted, and silence about the others."""

import numpy as np
import pytest
from numba import njit

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.diagnostics import split_r_hat
from tests.api.densities import FIXED, log_gamma


def test_a_good_run_is_not_warned_of():
    result = mj.sample(log_gamma, ndim=3, seed=6, draws=200, tune=300, progress=False)
    assert result.warnings == []


def test_chains_in_different_modes_are_warned_of():
    target = targets.multimodal_gaussian(2, separation=40.0)
    with pytest.warns(mj.SamplingWarning, match=r"chains disagree in x\[0\]") as caught:
        result = mj.sample(
            target, [[-20.0, 0.0], [20.0, 0.0]], draws=200, chains=2, seed=1, **FIXED
        )
    assert result.warnings == [str(warning.message) for warning in caught]


def test_draws_that_were_cut_short_are_counted_and_warned_of():
    with pytest.warns(mj.SamplingWarning, match=r"(\d+) draws were cut short") as caught:
        result = mj.sample(
            log_gamma,
            ndim=1,
            draws=50,
            chains=1,
            seed=1,
            max_jumps=2,
            **{**FIXED, "draw_interval": 10.0},
        )
    assert int(str(caught[0].message).split()[0]) == (result.stats["n_capped"] > 0).sum()
    assert (result.stats["n_jumps"] <= 2).all()


def test_a_stuck_chain_is_named():
    @njit
    def needle(x, grad):
        grad[0] = -1e10 * x[0]
        return -0.5e10 * x[0] ** 2

    with pytest.warns(mj.SamplingWarning) as caught:
        mj.sample(needle, [0.0], draws=300, chains=2, seed=1, **FIXED)
    messages = [str(warning.message) for warning in caught]
    assert any("met a divergence" in message for message in messages)
    assert any(message.startswith("Chain 1 once stayed") for message in messages)


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
    monkeypatch.setattr("mjhmc_numba.diagnostics.BLOCK", 1000)
    np.testing.assert_allclose(split_r_hat(draws), expected)


def test_r_hat_of_what_never_moved_is_no_number():
    assert np.isnan(split_r_hat(np.ones((2, 100, 1)))).all()
