"""The same seed gives the same bits, however the chains are run."""

import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba import targets
from tests.api.densities import FIXED, SHORT, log_gamma
from tests.same_bits import assert_same_stats

# Runs are short here; whether their draws can be trusted is asserted elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")


def assert_same(result, other):
    np.testing.assert_array_equal(result.draws, other.draws)
    assert_same_stats(result.stats, other.stats)


@pytest.fixture(scope="module")
def usual():
    return mj.sample(log_gamma, ndim=3, seed=42, **SHORT)


def test_the_same_seed_twice(usual):
    assert_same(usual, mj.sample(log_gamma, ndim=3, seed=42, **SHORT))


@pytest.mark.parametrize("cores", [1, 2, 7])
def test_any_number_of_cores(usual, cores):
    assert_same(usual, mj.sample(log_gamma, ndim=3, seed=42, cores=cores, **SHORT))


def test_the_first_of_more_chains(usual):
    more = mj.sample(log_gamma, ndim=3, seed=42, **{**SHORT, "chains": 5})
    np.testing.assert_array_equal(more.draws[:2], usual.draws)
    np.testing.assert_array_equal(more.stats["energy"][:2], usual.stats["energy"])


@pytest.mark.parametrize("rates", ["metropolis", "sqrt"])
def test_the_first_of_more_draws(rates):
    options = {**SHORT, "rates": rates, "seed": 42}
    few = mj.sample(log_gamma, ndim=3, **options)
    more = mj.sample(log_gamma, ndim=3, **{**options, "draws": 150})
    np.testing.assert_array_equal(more.draws[:, :60], few.draws)
    np.testing.assert_array_equal(more.stats["n_steps"][:, :60], few.stats["n_steps"])


def test_the_jump_record_changes_nothing():
    options = {**SHORT, "clock": "poisson", "method": "competing", "seed": 42}
    without = mj.sample(log_gamma, ndim=3, **options)
    assert_same(without, mj.sample(log_gamma, ndim=3, jumps=True, **options))


def test_keeping_the_warm_up_or_skipping_the_check_changes_no_draw(usual):
    kept = mj.sample(log_gamma, ndim=3, seed=42, keep_warmup=True, **SHORT)
    assert_same(usual, kept)
    unchecked = mj.sample(log_gamma, ndim=3, seed=42, check_gradient=False, **SHORT)
    assert_same(usual, unchecked)


def test_other_seeds_and_other_chains_make_other_draws(usual):
    other = mj.sample(log_gamma, ndim=3, seed=43, **SHORT)
    assert (other.draws != usual.draws).all()
    assert (usual.draws[0] != usual.draws[1]).all()


def test_two_runs_without_a_seed_differ_and_each_can_be_repeated():
    options = {**FIXED, "draws": 5, "chains": 2}
    one, other = (mj.sample(log_gamma, ndim=2, **options) for _ in range(2))
    assert (one.draws != other.draws).any()
    assert_same(one, mj.sample(log_gamma, ndim=2, seed=one.seed, **options))


@pytest.mark.parametrize("seed", [[1, 2, 3], np.random.SeedSequence(8).spawn(2)[1]])
def test_the_seed_of_a_result_makes_its_draws_again(seed):
    options = {**FIXED, "draws": 5, "chains": 2}
    first = mj.sample(log_gamma, ndim=2, seed=seed, **options)
    assert_same(first, mj.sample(log_gamma, ndim=2, seed=first.seed, **options))
    assert_same(first, mj.sample(log_gamma, ndim=2, seed=seed, **options))


def test_chains_start_within_the_spread_around_the_initial_point():
    options = {"draws": 1, "tune": 1, "keep_warmup": True, "progress": False, "step_size": 1e-12}
    target = targets.standard_normal(3)
    initial = np.array([5.0, -3.0, 0.0])
    result = mj.sample(target, initial, spread=0.5, chains=40, seed=1, **options)
    away = np.abs(result.warmup_draws[:, 0] - initial)
    assert 0.45 < away.max() <= 0.5
    assert 0.2 < away.mean() < 0.3
    again = mj.sample(target, initial, spread=0.5, chains=40, seed=1, **options)
    np.testing.assert_array_equal(result.warmup_draws, again.warmup_draws)
