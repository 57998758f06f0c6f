"""A warm-up for all chains together: exact, and the same wherever it runs."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba import pooling
from mjhmc_numba.convergence import nested_r_hat
from tests.api.densities import LOG_GAMMA_MEAN, LOG_GAMMA_VARIANCE, log_gamma
from tests.same_bits import assert_same_stats

pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")

RUN = {"ndim": 2, "draws": 20, "tune": 80, "chains": 60, "progress": False, "warmup": "pooled"}


@pytest.fixture(scope="module")
def result():
    return mj.sample(log_gamma, **RUN, seed=1)


def test_all_chains_run_with_what_one_pilot_has_tuned(result):
    assert result.draws.shape == (60, 20, 2)
    assert len({t.step_size for t in result.tuned}) == 1
    assert (result.warmup_gradients[: pooling.PILOTS] > result.warmup_gradients[-1]).all()
    assert len(set(result.superchains)) <= pooling.PILOTS


def test_draws_are_those_of_the_density(seeds):
    result = mj.sample(log_gamma, **RUN | {"draws": 40, "chains": 200}, seed=seeds(160))
    means = result.draws.mean(axis=1)  # of chains, nearly independent
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    assert (abs(means.mean(axis=0) - LOG_GAMMA_MEAN) < 5 * error).all()
    squares = ((result.draws - LOG_GAMMA_MEAN) ** 2).mean(axis=1)
    error = squares.std(axis=0, ddof=1) / np.sqrt(len(squares))
    assert (abs(squares.mean(axis=0) - LOG_GAMMA_VARIANCE) < 5 * error).all()
    assert (result.nested_r_hat() < 1.05).all()


def test_draws_do_not_depend_on_cores_or_workers_and_a_chain_can_run_alone(result):
    alone = mj.sample(log_gamma, **RUN, seed=1, cores=1)
    np.testing.assert_array_equal(alone.draws, result.draws)
    with ThreadPoolExecutor(2) as executor:
        there = mj.sample(log_gamma, **RUN, seed=1, executor=executor)
    np.testing.assert_array_equal(there.draws, result.draws)
    assert_same_stats(there.stats, result.stats)
    assert there.superchains == result.superchains


def test_chains_that_share_a_process_go_on_as_those_with_one_each():
    run = RUN | {"chains": 20, "seed": 1}
    shared, own = (mj.sample(log_gamma, **run, cores=cores) for cores in (1, 20))
    longer = [result.extend(30, progress=False) for result in (shared, own)]
    np.testing.assert_array_equal(longer[0].draws, longer[1].draws)
    assert_same_stats(longer[0].stats, longer[1].stats)
    assert shared.warmup_windows == own.warmup_windows


def test_pilots_in_a_mode_far_below_are_left_aside():
    """Starts on both sides of a barrier; the left mode is 200 lower."""

    def two_modes(x):
        left = x[0] < 0
        centre, level = (-30.0, -200.0) if left else (30.0, 0.0)
        return level - 0.5 * (x[0] - centre) ** 2, -(x - centre)

    starts = [[-30.0], [30.0], [-29.0], [31.0]]
    options = RUN | {"chains": 4, "ndim": None}
    with pytest.warns(mj.SlowDensityWarning):
        result = mj.sample(two_modes, starts, **options, seed=2, check_gradient=False)
    assert (result.draws > 0).all()
    assert result.superchains == [0, 1, 0, 1]


def test_what_is_unknown_or_useless_is_refused():
    with pytest.raises(mj.SettingsError, match="warmup='shared' is unknown"):
        mj.sample(log_gamma, ndim=2, warmup="shared")
    with pytest.raises(mj.SettingsError, match="needs tuning draws"):
        mj.sample(log_gamma, ndim=2, warmup="pooled", tune=0)


def test_nested_r_hat_sees_superchains_that_disagree():
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(40, 5, 2))
    groups = np.arange(40) % 8
    assert (nested_r_hat(draws, groups) < 1.1).all()
    draws[:, :, 1] += groups[:, None]
    nested = nested_r_hat(draws, groups)
    # superchain means have variance 6 + 1/25, chains within them 1 + 1/5
    assert nested[0] < 1.1
    np.testing.assert_allclose(nested[1], np.sqrt(1 + 6.04 / 1.2), rtol=0.2)
    assert (nested_r_hat(draws[:, :1], groups)[0] < 1.2).all()
    assert np.isnan(nested_r_hat(draws, np.zeros(40))).all()


def test_superchains_can_be_given(result):
    separate = mj.sample(log_gamma, **RUN | {"warmup": "separate", "chains": 4}, seed=1)
    assert separate.superchains is None
    assert separate.nested_r_hat([0, 0, 1, 1]).shape == (2,)
    with pytest.raises(ValueError, match="which superchain"):
        separate.nested_r_hat()
