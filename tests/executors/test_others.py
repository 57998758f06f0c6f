"""Chains on engines that may not be installed: loky, with a worker that is killed, and Ray."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import mjhmc_numba as mj
from tests.api.densities import FIXED, SHORT, log_gamma

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning"),
    pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning"),
    pytest.mark.filterwarnings("ignore:A worker stopped while some jobs:UserWarning"),
]

RUN = SHORT | {"ndim": 2, "seed": 1}


def slow_normal(x):
    time.sleep(2e-4)
    return -0.5 * x @ x, -x


def test_a_killed_worker_of_loky_costs_its_chains_alone():
    loky = pytest.importorskip("loky")
    executor = loky.get_reusable_executor(2)
    here, there = mj.sample(log_gamma, **RUN), mj.sample(log_gamma, executor=executor, **RUN)
    np.testing.assert_array_equal(there.draws, here.draws)
    fixed = FIXED | {"draws": 3000, "chains": 4, "ndim": 2, "seed": 3}
    here = mj.sample(lambda x: (-0.5 * x @ x, -x), **fixed)
    victim = next(iter(executor._processes))
    threading.Timer(1.0, lambda: os.kill(victim, signal.SIGKILL)).start()
    there = mj.sample(slow_normal, executor=executor, **fixed)
    assert 1 <= len(there.rerun) <= 2
    np.testing.assert_array_equal(there.draws, here.draws)


@pytest.mark.filterwarnings("ignore")
def test_an_adapter_of_three_lines_serves_ray(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else it writes to the home folder
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    class Executor:
        def submit(self, function, *args):
            return ray.remote(function).remote(*args).future()

    try:
        there = mj.sample(log_gamma, executor=Executor(), **RUN)
    finally:
        ray.shutdown()
    np.testing.assert_array_equal(there.draws, mj.sample(log_gamma, **RUN).draws)
