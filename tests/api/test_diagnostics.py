"""Warnings about draws that should not be trusted, and silence about the others."""

import warnings

import numpy as np
import pytest
from numba import njit

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.diagnostics import diagnose
from mjhmc_numba.diagnostics.rules import LOW_ACCEPTANCE
from tests.api.densities import FIXED, log_gamma


def test_a_good_run_is_not_warned_of():
    result = mj.sample(log_gamma, ndim=3, seed=6, draws=200, tune=300, progress=False)
    assert result.warnings == []


def test_an_independence_proposal_is_not_told_that_its_step_size_does_not_fit(seeds):
    """It is accepted less than half the time, and makes independent draws all the same."""
    target = targets.rough_well(2, 4.0)
    result = mj.sample(target, seed=seeds(71), integrator="rotation", progress=False)
    assert all(tuned.integrator == "rotation" for tuned in result.tuned)
    assert (result.stats["acceptance_rate"].mean(axis=1) < LOW_ACCEPTANCE).all()
    assert result.warnings == []


def test_chains_in_different_modes_are_warned_of():
    target = targets.multimodal_gaussian(2, separation=40.0)
    with pytest.warns(mj.SamplingWarning, match=r"chains disagree in x\[0\]") as caught:
        result = mj.sample(
            target, [[-20.0, 0.0], [20.0, 0.0]], draws=200, chains=2, seed=1, **FIXED
        )
    assert result.warnings == [str(warning.message) for warning in caught]


def test_a_chain_at_a_lower_log_density_is_named(seeds):
    """Two modes whose log densities differ by more than draws within a mode do."""

    @njit
    def two_modes(x, grad):
        near = 0.0 if x[0] < 0 else 60.0
        at = -20.0 if x[0] < 0 else 20.0
        grad[0], grad[1] = at - x[0], -x[1]
        return near - 0.5 * ((x[0] - at) ** 2 + x[1] ** 2)

    starts = [[20.0, 0.0], [-20.0, 0.0], [20.0, 0.0]]
    options = {"draws": 200, "chains": 3, "seed": seeds(3), "check_gradient": False}
    match = "chain 1 sits at a lower log density than chain [02]"
    with pytest.warns(mj.SamplingWarning, match=match):
        mj.sample(two_modes, starts, **options, **FIXED)


def test_a_region_that_was_left_and_may_hold_mass_is_told(seeds):
    """Two modes of one mass, either of which each start may end in."""
    target = targets.multimodal_gaussian(2, separation=40.0)
    options = {"draws": 100, "tune": 300, "progress": False}
    with pytest.warns(mj.SamplingWarning) as caught:
        mj.sample(target, [0.1, 0.0], spread=30.0, seed=seeds(4), **options)
    assert any("ended in another region, beyond a gap" in str(w.message) for w in caught)
    mj.sample(target, [20.0, 0.0], seed=seeds(5), starts=1, **options)  # nothing was left


@pytest.mark.parametrize("target", [targets.banana(), targets.student_t(3.0, 5), log_gamma])
def test_starts_that_come_to_one_curved_or_wide_region_are_no_news(target, seeds):
    for k in range(5):
        options = {"ndim": 5} if target is log_gamma else {}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mj.sample(target, draws=50, tune=300, seed=seeds(6, k), progress=False, **options)
        assert not any("another region" in str(warning.message) for warning in caught)


def test_draws_that_were_cut_short_are_counted_and_warned_of():
    with pytest.warns(mj.SamplingWarning, match="draws that were cut short"):
        result = mj.sample(
            log_gamma,
            ndim=1,
            draws=50,
            chains=1,
            seed=1,
            max_jumps=2,
            **{**FIXED, "draw_interval": 10.0},
        )
    assert (result.stats["n_capped"] > 0).any()
    assert (result.stats["n_jumps"] <= 2).all()


def test_stuck_chains_are_named():
    result = mj.sample(log_gamma, ndim=3, seed=6, draws=200, tune=300, progress=False)
    assert diagnose(result) == []
    result.stats["longest_stay"][[0, 2], 7] = 500
    (message,) = diagnose(result)
    assert message.startswith("Chain 0 stayed at one point for 500 looks at its neighbours")
    assert message.endswith(" The same is true of chain 2.")


def test_a_chain_that_never_moves_raises_and_says_in_which_chain():
    @njit
    def needle(x, grad):
        grad[0] = -1e10 * x[0]
        return -0.5e10 * x[0] ** 2

    with pytest.raises(mj.StuckError, match=r"did not move once(.|\n)*Raised in chain \d"):
        mj.sample(needle, [0.0], draws=300, chains=2, seed=1, **FIXED)


def test_a_refresh_rate_that_did_not_converge_is_warned_of_by_chain():
    result = mj.sample(log_gamma, ndim=3, seed=6, draws=200, tune=300, progress=False)
    assert diagnose(result) == []
    result.tuned[2] = result.tuned[2].replace(converged=False)
    (message,) = diagnose(result)
    assert message.startswith("Chain 2's refresh rate did not converge")
    assert "Tune longer" in message


def test_scales_that_depend_on_where_a_chain_is_do_not_converge(seeds):
    options = {"draws": 10, "chains": 40, "reparametrisation": "none", "progress": False}
    with pytest.warns(mj.SamplingWarning) as caught:
        mj.sample(targets.funnel(10), seed=seeds(66), **options)
    assert any("refresh rate did not converge" in str(warning.message) for warning in caught)


def test_a_chain_that_mixes_slowly_is_told_of_once():
    """And not in another sentence about all chains."""
    slow = {**FIXED, "step_size": 0.02}
    with pytest.warns(mj.SamplingWarning) as caught:
        mj.sample(log_gamma, ndim=2, draws=1000, chains=1, seed=1, **slow)
    told = [str(w.message) for w in caught if "independent ones" in str(w.message)]
    assert len(told) == 1
    assert told[0].startswith("Chain 0 mixes slowly: its first 500 draws are worth only ")


@njit
def behind_walls(x, grad):
    """Uniform in (0, 3), exponential with mean 2/3, standard normal; no transform."""
    grad[0], grad[1], grad[2] = 0.0, -1.5, -x[2]
    if not (0 < x[0] < 3 and x[1] > 0):
        return -np.inf
    return -1.5 * x[1] - 0.5 * x[2] ** 2


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")  # a wall is a divergence
def test_hard_walls_are_sampled_and_not_taken_for_flat_densities(seeds):
    result = mj.sample(behind_walls, [1.0, 1.0, 0.0], seed=seeds(67), progress=False)
    assert not any("no finite integral" in message for message in result.warnings)
    x = result.draws
    sd = np.array([3 / np.sqrt(12), 1 / 1.5, 1.0])
    error = 4 * sd / np.sqrt(400)  # of 400 independent draws out of 4000
    np.testing.assert_array_less(np.abs(x.mean((0, 1)) - [1.5, 1 / 1.5, 0.0]), error)
    np.testing.assert_allclose(x.std((0, 1)), sd, rtol=0.2)
    # The chain in the middle: 23 to 127 gradients per draw with 24 seeds; a step that walls have
    # frozen takes thousands.
    assert np.median(result.stats["n_steps"].sum(axis=1)) < 400 * 1000


def test_a_density_that_is_flat_without_an_end_is_told_of(seeds):
    @njit
    def half_flat(x, grad):
        grad[0], grad[1] = 0.0, -x[1]
        return -0.5 * x[1] ** 2 if x[0] > 0 else -np.inf

    with pytest.warns(mj.SamplingWarning) as caught:
        mj.sample(half_flat, [1.0, 0.0], draws=200, tune=200, seed=seeds(68), progress=False)
    assert any("does not depend on x[0]" in str(w.message) for w in caught)
