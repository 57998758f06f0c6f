"""Chains on a Dask cluster of several processes, one of which is killed."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba.progress import Progress
from tests.api.densities import FIXED, log_gamma
from tests.same_bits import assert_same_stats

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning"),
    pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

RUN = {**FIXED, "draws": 3000, "chains": 6, "ndim": 2, "seed": 3}


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


def slow_normal(x):
    time.sleep(2e-4)
    return -0.5 * x @ x, -x


@pytest.fixture(scope="module")
def here():
    return mj.sample(lambda x: (-0.5 * x @ x, -x), **RUN)


def test_draws_are_the_same(client):
    options = {"draws": 60, "tune": 60, "chains": 4, "ndim": 2, "seed": 1, "progress": False}
    here, there = mj.sample(log_gamma, **options), mj.sample(log_gamma, executor=client, **options)
    np.testing.assert_array_equal(there.draws, here.draws)
    assert_same_stats(there.stats, here.stats)


def test_a_killed_worker_costs_its_chains_alone(client, here, monkeypatch):
    rows, killed = {}, []

    def update(self, reported):
        rows.update(enumerate(reported))
        running = [k for k, row in rows.items() if row.phase == "draws"]
        if running and not killed:
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    monkeypatch.setattr(Progress, "update", update)
    there = mj.sample(slow_normal, executor=client, **RUN)
    assert killed
    np.testing.assert_array_equal(there.draws, here.draws)
    assert 1 <= len(there.rerun) <= 2
    assert any("run again elsewhere" in message for message in there.warnings)


def test_the_progress_comes_back_and_cancelling_cancels(client, monkeypatch):
    done = []

    def update(self, reported):
        done.append([row.done for row in reported])
        if len([n for n in done[-1] if n > 10]) >= 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "update", update)
    endless = {**RUN, "draws": 10**6}
    with pytest.raises(KeyboardInterrupt):
        mj.sample(slow_normal, executor=client, **endless)
    assert max(map(max, done)) > 10
    monkeypatch.undo()
    # The workers are free again: what they were at has stopped.
    end = time.monotonic() + 20
    while any(client.run(reporting_threads).values()) and time.monotonic() < end:
        time.sleep(0.2)
    assert not any(client.run(reporting_threads).values())


def reporting_threads():
    return [t.name for t in threading.enumerate() if t.name == "mjhmc-report"]
