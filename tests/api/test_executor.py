"""Chains in other processes: the same draws, and no chain lost with another."""

import multiprocessing
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numba
import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba.executors import Shipped
from mjhmc_numba.progress import Progress
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


def dies_far_out(x, folder, deaths):
    """Standard normal; far out it ends the worker that asks, `deaths` times in all."""
    is_worker = multiprocessing.parent_process() is not None
    if is_worker and x[0] > 5.0 and len(os.listdir(folder)) < deaths:
        (folder / str(os.getpid())).touch()
        os._exit(1)
    return -0.5 * x @ x, -x


STARTS = [[0.0], [0.0], [6.0]]


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")
def test_a_chain_whose_worker_dies_is_run_again_with_the_same_draws(tmp_path):
    options = {"draws": 50, "chains": 3, "seed": 1, "args": (tmp_path, 1), **FIXED}
    here = mj.sample(dies_far_out, STARTS, **options)
    with new_pool(1) as executor:
        there = mj.sample(dies_far_out, STARTS, executor=executor, **options)
    assert len(list(tmp_path.iterdir())) == 1
    assert there.rerun == [2]
    assert any("run again elsewhere" in message for message in there.warnings)
    np.testing.assert_array_equal(there.draws, here.draws)
    assert_same_stats(there.stats, here.stats)
    assert here.rerun == []


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")
def test_a_chain_that_always_kills_is_named_and_the_others_are_kept(tmp_path):
    options = {"draws": 50, "chains": 3, "seed": 1, "args": (tmp_path, 10**6), **FIXED}
    with new_pool(1) as executor, pytest.raises(BrokenProcessPool) as caught:
        mj.sample(dies_far_out, STARTS, executor=executor, **options)
    assert any("Raised in chain 2" in note for note in caught.value.__notes__)
    assert caught.value.result.draws.shape == (2, 50, 1)
    assert caught.value.result.rerun == [2]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_density_made_in_a_function_crosses_and_is_compiled_once_per_worker(pool):
    scale = np.array([0.5, 2.0])

    @numba.njit
    def density(x, grad):
        for j in range(x.size):
            grad[j] = -x[j] / scale[j] ** 2
        return 0.5 * np.sum(x * grad)

    options = {**FIXED, "draws": 20, "chains": 4, "ndim": 2, "seed": 5}
    here = mj.sample(density, **options)
    there = mj.sample(density, executor=pool, **options)
    np.testing.assert_array_equal(there.draws, here.draws)
    compiled = [pool.submit(compiled_times, Shipped(density)) for _ in range(8)]
    assert {future.result() for future in compiled} <= {0, 1}


def compiled_times(shipped):
    """C functions that this process has made around a density."""
    return len(getattr(shipped.value, "_mjhmc_c_functions", ()))


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")
def test_the_progress_of_other_processes_comes_back(pool, monkeypatch):
    shown = []
    monkeypatch.setattr(Progress, "update", lambda self, rows: shown.append(list(rows)))
    options = {**FIXED, "draws": 3000, "chains": 2, "ndim": 2, "seed": 3}
    result = mj.sample(slow_in_python, executor=pool, **options)
    for k in range(2):
        done = [rows[k].done for rows in shown]
        assert done == sorted(done)
        assert any(0 < n < 3000 for n in done)
        assert done[-1] == 3000
        assert 0 < shown[-1][k].gradients <= result.stats["n_steps"][k].sum()


def slow_in_python(x):
    time.sleep(5e-5)
    return -0.5 * x @ x, -x


def test_a_target_without_a_source_says_that_it_cannot_be_sent(pool):
    made = mj.as_target(log_gamma, 2)
    target = mj.Target.from_address(made.address, 2, table=made.table, keepalive=made)
    with pytest.raises(TypeError, match="cannot be pickled"):
        mj.sample(target, draws=5, chains=1, seed=1, executor=pool, **FIXED)
