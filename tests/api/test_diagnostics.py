"""Warnings about draws that should not be trusted, and silence about the others."""

import pytest
from numba import njit

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.diagnostics import diagnose
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


def test_a_refresh_rate_that_did_not_settle_is_warned_of_by_chain():
    result = mj.sample(log_gamma, ndim=3, seed=6, draws=200, tune=300, progress=False)
    assert diagnose(result) == []
    result.tuned[2] = result.tuned[2].replace(settled=False)
    (message,) = diagnose(result)
    assert message.startswith("The refresh rate of chain 2 did not settle")
    assert "Tune longer" in message


def test_scales_that_depend_on_where_a_chain_is_do_not_settle(seeds):
    options = {"draws": 10, "chains": 40, "chart": "none", "progress": False}
    with pytest.warns(mj.SamplingWarning) as caught:
        mj.sample(targets.funnel(10), seed=seeds(66), **options)
    assert any("did not settle" in str(warning.message) for warning in caught)
