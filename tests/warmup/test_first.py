"""Chains without a warm-up."""

import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.settings import Settings
from mjhmc_numba.warmup.first import not_given
from tests.api.densities import FIXED, LOG_GAMMA_MEAN, log_gamma

GIVEN = {name: FIXED[name] for name in ("step_size", "num_steps", "refresh_rate", "draw_interval")}


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, (*GIVEN, "metric")),
        ({"step_size": 0.1}, ("num_steps", "refresh_rate", "draw_interval", "metric")),
        ({"metric": np.ones(2)}, tuple(GIVEN)),
        (GIVEN, ()),
    ],
)
def test_what_was_not_learnt_is_what_was_not_given(given, missing):
    assert not_given(Settings(**given)) == missing


def test_without_a_warm_up_a_chain_runs_and_says_what_it_did_not_learn(seeds):
    with pytest.warns(mj.SamplingWarning, match=r"too short a warm-up to learn step_size, num_"):
        result = mj.sample(log_gamma, ndim=3, tune=0, seed=seeds(121), progress=False)
    assert result.warmup_gradients.max() < 100
    error = 4 * 1.3 / np.sqrt(2000)  # of a mean of half as many independent draws
    np.testing.assert_allclose(result.draws.mean((0, 1)), LOG_GAMMA_MEAN, atol=error)
    assert len({tuned.step_size for tuned in result.tuned}) > 1


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")
def test_without_a_warm_up_the_step_size_is_that_of_the_target_at_the_start(scale, seeds):
    target = targets.gaussian([scale])
    result = mj.sample(target, [scale], tune=0, draws=10, chains=4, seed=seeds(122), progress=False)
    steps = np.array([tuned.step_size for tuned in result.tuned]) / scale
    assert ((steps > 0.1) & (steps < 10)).all()


def test_what_was_given_is_used_as_it_is_and_not_warned_of(seeds):
    result = mj.sample(log_gamma, ndim=2, draws=50, seed=seeds(123), **FIXED)
    for tuned in result.tuned:
        assert {name: getattr(tuned, name) for name in GIVEN} == GIVEN
        np.testing.assert_array_equal(tuned.metric.covariance(), np.eye(2))
