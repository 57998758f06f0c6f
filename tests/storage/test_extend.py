"""A finished run goes on to what a longer one would have made; a warm-up is used again."""

import copy
import pickle

import numpy as np
import pytest

import mjhmc_numba as mj
from tests.api.densities import FIXED, log_gamma, scaled_normal
from tests.storage.runs import RUN, ridge
from tests.storage.test_checkpoint import assert_same

pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")


@pytest.mark.parametrize("more", [{}, {"keep_warmup": True, "jumps": True}])
def test_extended_is_the_longer_run(more):
    run = {**RUN, **more}
    short = mj.sample(ridge, **{**run, "draws": 150})
    longer = short.extend(50, progress=False).extend(200, progress=False)
    assert_same(longer, mj.sample(ridge, **run))
    assert short.draws.shape[1] == 150


def test_without_a_warmup():
    run = {**FIXED, "ndim": 2, "seed": 1}
    whole = mj.sample(log_gamma, draws=90, **run)
    assert_same(mj.sample(log_gamma, draws=50, **run).extend(40, progress=False), whole)


def test_a_copy_cannot_be_extended():
    result = mj.sample(log_gamma, ndim=2, draws=20, seed=1, **FIXED)
    for other in (pickle.loads(pickle.dumps(result)), copy.copy(result)):
        np.testing.assert_array_equal(other.draws, result.draws)
        with pytest.raises(RuntimeError, match="cannot be extended"):
            other.extend(10)
    with pytest.raises(mj.SettingsError, match="draws"):
        result.extend(0)


def test_warnings_are_those_of_all_draws():
    """A wide scale found by short paths: slow, which the first draws alone do not tell."""
    slow = {"step_size": 0.05, "num_steps": 1, "refresh_rate": 5.0, "draw_interval": 1.0}
    run = {"ndim": 2, "seed": 1, "tune": 0, "chains": 2, "progress": False, **slow}
    first = mj.sample(log_gamma, draws=20, **run)
    assert not first.warnings
    longer = first.extend(580, progress=False)
    assert longer.warnings == mj.sample(log_gamma, draws=600, **run).warnings
    assert longer.warnings


# --- warm_start


@pytest.fixture(scope="module")
def first():
    data = np.array([0.0, 5.0, -3.0]), 2.0
    return mj.sample(scaled_normal, ndim=3, args=data, seed=1, progress=False)


def test_a_warm_start_takes_what_was_tuned_and_finds_the_new_posterior(first):
    data = np.array([1.0, 5.5, -3.0]), 1.8
    result = mj.sample(
        scaled_normal, args=data, ndim=3, seed=2, tune=100, warm_start=first, progress=False
    )
    assert result.tuned == first.tuned
    assert not result.warnings
    assert result.gradients["warmup"] < 0.5 * first.gradients["warmup"]
    z = (result.draws - data[0]) / 1.8
    error = 1 / np.sqrt(z[..., 0].size)  # draws are nearly independent or better
    assert np.abs(z.mean((0, 1))).max() < 5 * error
    assert np.abs(z.var((0, 1)) - 1).max() < 5 * np.sqrt(2) * error


def test_a_warm_start_of_more_chains_and_from_given_points(first):
    run = {"ndim": 3, "seed": 2, "tune": 0, "draws": 10, "progress": False, "warm_start": first}
    data = {"args": (np.zeros(3), 2.0)}
    six = mj.sample(scaled_normal, chains=6, **data, **run)
    assert [t.step_size for t in six.tuned[4:]] == [t.step_size for t in first.tuned[:2]]
    elsewhere = mj.sample(scaled_normal, initial=np.full(3, 40.0), **data, **run)
    assert np.abs(elsewhere.draws[:, 0]).max() > 8  # 4 standard deviations


@pytest.mark.parametrize("wrong", ["a path", None])
def test_what_is_no_warm_start_is_refused(first, wrong):
    given = first if wrong is None else wrong
    with pytest.raises(mj.SettingsError, match="warm_start"):
        mj.sample(log_gamma, ndim=2, warm_start=given, progress=False)
