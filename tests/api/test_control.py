"""Discrete-time HMC, the paper's control and the standard one, on the same ABI and Result."""

import numpy as np
import pytest

import mjhmc_numba as mj
from tests.api.densities import LOG_GAMMA_MEAN, LOG_GAMMA_VARIANCE, log_gamma, raises_beyond
from tests.api.monte_carlo import assert_moments

RUN = {"step_size": 0.6, "num_steps": 3, "progress": False}


@pytest.fixture(scope="module", params=[1.0, 0.3])
def control(request, seeds):
    return mj.sample_hmc(
        log_gamma,
        ndim=2,
        refresh_probability=request.param,
        draws=5000,
        chains=4,
        seed=seeds(133),
        **RUN,
    )


def test_moments(control):
    burnt_in = control.draws[:, 200:]
    assert_moments(burnt_in, LOG_GAMMA_MEAN, LOG_GAMMA_VARIANCE)


def test_each_step_is_accepted_or_flipped(control):
    stats = control.stats
    np.testing.assert_array_equal(stats["n_L"] + stats["n_F"], 1)
    moved = (np.diff(control.draws, axis=1) != 0).any(axis=2)
    np.testing.assert_array_equal(moved, stats["n_L"][:, 1:] == 1)


def test_each_step_costs_its_gradients(control):
    np.testing.assert_array_equal(control.stats["n_steps"], RUN["num_steps"])


def test_acceptance_is_the_probability_to_move(control):
    moves, acceptance = control.stats["n_L"], control.stats["acceptance_rate"]
    error = np.sqrt(np.sum(acceptance * (1 - acceptance)))
    assert error > 0
    assert abs(moves.sum() - acceptance.sum()) / error < 5


def test_refreshes_come_with_their_probability(seeds):
    for probability in (0.3, 1.0):
        result = mj.sample_hmc(
            log_gamma,
            ndim=1,
            refresh_probability=probability,
            draws=4000,
            chains=1,
            seed=seeds(134),
            **RUN,
        )
        error = np.sqrt(probability * (1 - probability) / 4000)
        assert abs(result.stats["n_R"].mean() - probability) <= 5 * error


def test_the_metric_and_the_integrator_change_the_draws():
    run = {**RUN, "draws": 20, "chains": 1, "seed": 1}
    usual = mj.sample_hmc(log_gamma, [0.1, 0.2], **run)
    for option in ({"metric": [1.0, 4.0]}, {"integrator": "three_stage"}):
        changed = mj.sample_hmc(log_gamma, [0.1, 0.2], **option, **run)
        assert (changed.draws != usual.draws).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"refresh_probability": 0.0}, "refresh_probability lies in"),
        ({"refresh_probability": 1.5}, "refresh_probability lies in"),
        ({"step_size": -1.0}, "step_size must be positive"),
        ({"num_steps": 0}, "num_steps is a whole number"),
        ({"metric": "low_rank"}, "is not tuned"),
        ({"integrator": "auto"}, "is not tuned"),
    ],
)
def test_settings_that_make_no_sense_are_named(options, message):
    with pytest.raises(mj.SettingsError, match=message):
        mj.sample_hmc(log_gamma, ndim=2, **{**RUN, **options})


def test_an_exception_arrives_with_the_draws():
    with pytest.raises(ValueError, match="the pump is dry") as caught:
        mj.sample_hmc(raises_beyond, [0.0], args=(3.0,), draws=100_000, chains=2, seed=1, **RUN)
    assert caught.value.result.draws.shape[1] > 0


def test_the_result_goes_to_arviz(control):
    data = control.to_arviz()
    assert data["posterior"]["x"].shape == (4, 5000, 2)
    assert data["posterior"].attrs["tuning_steps"] == 0
