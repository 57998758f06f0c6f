"""Chains in other processes: the same draws, and no chain lost with another."""

import multiprocessing
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

import mjhmc_numba as mj
from tests.api.densities import (
    FIXED,
    SHORT,
    log_gamma,
    log_gamma_in_python,
    raises_beyond,
    scaled_normal,
)
from tests.same_bits import assert_same_stats

# Runs are short here; whether their draws can be trusted is asserted elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")


def new_pool(workers):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def pool():
    with new_pool(2) as executor:
        yield executor


def geometric(t):
    return t**0.5


@pytest.mark.parametrize(
    ("density", "args", "options"),
    [
        (log_gamma, (), {}),
        (log_gamma, (), {"rates": geometric}),
        (scaled_normal, (np.array([1.0, 2.0]), 0.5), {"keep_warmup": True}),
        (log_gamma, (), {"jumps": True}),
    ],
)
def test_other_processes_make_the_same_draws(pool, density, args, options):
    options = {**SHORT, "seed": 17, "ndim": 2, "args": args, **options}
    here = mj.sample(density, **options)
    there = mj.sample(density, executor=pool, **options)
    np.testing.assert_array_equal(there.draws, here.draws)
    assert_same_stats(there.stats, here.stats)
    if here.jumps is not None:
        for one, other in zip(there.jumps, here.jumps, strict=True):
            np.testing.assert_array_equal(one["x"], other["x"])
    if here.warmup_draws is not None:
        np.testing.assert_array_equal(there.warmup_draws, here.warmup_draws)


def test_a_python_density_is_warned_of_here_and_not_there(pool, capfd):
    options = {**FIXED, "draws": 10, "chains": 2, "ndim": 2, "seed": 3}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        there = mj.sample(log_gamma_in_python, executor=pool, **options)
    assert [warning.category for warning in caught] == [mj.SlowDensityWarning]
    assert "SlowDensityWarning" not in capfd.readouterr().err
    here = mj.sample(log_gamma, **options)
    np.testing.assert_array_equal(there.draws, here.draws)


def test_an_exception_of_another_process_arrives_with_the_draws(pool):
    with pytest.raises(ValueError, match="the pump is dry") as caught:
        mj.sample(
            raises_beyond,
            [0.0],
            args=(3.2,),
            draws=20_000,
            chains=2,
            seed=1,
            executor=pool,
            **FIXED,
        )
    assert any("Raised in chain" in note for note in caught.value.__notes__)
    assert caught.value.result.draws.shape[1] > 0


def dies_far_out(x):
    """Standard normal that kills the worker that asks far out."""
    if multiprocessing.parent_process() is not None and x[0] > 5.0:
        os._exit(1)
    return -0.5 * x @ x, -x


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")
def test_a_killed_worker_is_named_and_the_chains_before_it_are_kept():
    starts = [[0.0], [0.0], [6.0]]
    with new_pool(1) as executor, pytest.raises(BrokenProcessPool) as caught:
        mj.sample(dies_far_out, starts, draws=50, chains=3, seed=1, executor=executor, **FIXED)
    assert any("Raised in chain 2" in note for note in caught.value.__notes__)
    assert caught.value.result.draws.shape == (2, 50, 1)


def test_a_target_without_a_source_says_that_it_cannot_be_sent(pool):
    made = mj.as_target(log_gamma, 2)
    target = mj.Target.from_address(made.address, 2, table=made.table, keepalive=made)
    with pytest.raises(TypeError, match="cannot be pickled"):
        mj.sample(target, draws=5, chains=1, seed=1, executor=pool, **FIXED)
