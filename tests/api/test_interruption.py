"""Ctrl-C ends a run at once and keeps what there is."""

import textwrap
import threading

import pytest

from mjhmc_numba import interruption
from mjhmc_numba.stats import longest_rectangle
from tests.new_process import report_of

# The density is slow enough for hours of sampling; the signal comes while it is under way.
SCRIPT = """
import json, os, signal, sys, threading, time, warnings
import numpy as np
import mjhmc_numba as mj
from tests.api.densities import slow_normal

warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
options = {"step_size": 0.3, "num_steps": 2, "refresh_rate": 0.3, "draw_interval": 1.0}
run = {"ndim": 2, "args": (2000,), "progress": False, "seed": 1}
mj.sample(slow_normal, draws=2, tune=2, chains=1, **run, **options)  # compiles


def interrupted(draws, **more):
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(1.0, send).start()
    try:
        result, raised = mj.sample(slow_normal, draws=draws, **run, **options, **more), False
    except KeyboardInterrupt:
        result, raised = None, True
    report = {"seconds": time.monotonic() - sent[0], "raised": raised}
    if result is not None:
        report |= {
            "interrupted": result.interrupted,
            "shape": result.draws.shape,
            "finite": bool(np.isfinite(result.draws).all()),
            "stats": sorted({values.shape for values in result.stats.values()}),
            "chains": result.chains,
            "warnings": result.warnings,
            "draws": result.draws[:, :5].tolist(),
        }
        if result.warmup_draws is not None:
            report["warmup"] = result.warmup_draws.shape
            report["warmup_finite"] = bool(np.isfinite(result.warmup_draws).all())
            report["posterior"] = result.to_arviz()["posterior"]["x"].shape
    return report
"""


def run_script(body):
    code = SCRIPT + textwrap.dedent(body) + "\nprint(json.dumps(report))\n"
    return report_of(code)


@pytest.mark.parametrize("cores", [2, 1])
def test_an_interrupted_run_ends_at_once_and_keeps_its_draws(cores):
    reports = run_script(
        f"""
        report = [interrupted(10**6, tune=0, chains=3, cores={cores}) for _ in range(2)]
        report.append(mj.sample(slow_normal, draws=5, tune=0, chains=3, **run, **options)
                      .draws.tolist())
        """
    )
    *reports, whole = reports
    assert min(report["seconds"] for report in reports) < 0.5
    for report in reports:
        chains, draws, ndim = report["shape"]
        assert report["interrupted"]
        assert report["finite"]
        assert 1 <= chains <= cores
        assert len(report["chains"]) == chains
        assert 5 <= draws < 10**6
        assert ndim == 2
        assert report["stats"] == [[chains, draws]]
        assert any("Interrupted" in message for message in report["warnings"])
        assert report["draws"] == [whole[k] for k in report["chains"]]


def test_one_core_keeps_the_chains_that_it_has_finished():
    report = run_script("report = interrupted(100, tune=0, chains=1000, cores=1)")
    chains, draws, _ = report["shape"]
    assert 1 < chains < 1000
    assert 50 < draws <= 100  # the one that was cut short is kept if that keeps more in all
    assert report["chains"] == list(range(chains))


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        ([], []),
        ([0, 0], []),
        ([7], [0]),
        ([10, 10, 0], [0, 1]),
        ([10, 4, 0], [0]),
        ([10, 6, 0], [0, 1]),
        ([3, 10, 9, 8], [1, 2, 3]),
        ([0, 5, 0, 5], [1, 3]),
    ],
)
def test_as_many_draws_are_kept_as_equal_lengths_allow(lengths, kept):
    assert longest_rectangle(lengths) == kept


def test_a_warm_up_is_kept_on_request():
    report = run_script("report = interrupted(10, tune=10**6, chains=2, keep_warmup=True)")
    assert report["interrupted"]
    assert report["shape"] == [2, 0, 2]
    chains, draws, ndim = report["warmup"]
    assert (chains, ndim) == (2, 2)
    assert 0 < draws < 10**6
    assert report["warmup_finite"]
    assert report["posterior"] == [2, 0, 2]
    assert any("of the warm-up" in message for message in report["warnings"])


def test_a_warm_up_that_is_not_kept_leaves_the_interrupt():
    report = run_script("report = interrupted(10, tune=10**6, chains=2)")
    assert report["raised"]
    assert report["seconds"] < 5


def test_threads_that_end_with_the_process_are_noted_from_many_runs_at_once(monkeypatch):
    noted = {}
    monkeypatch.setattr(interruption, "_ending", noted)

    class Overtaken(threading.Thread):
        """Another run begins while this thread is looked at."""

        def is_alive(self):
            noted.setdefault(threading.Thread(), print)
            return True

    first, last = Overtaken(), threading.Thread()
    for thread in (first, last):
        interruption.end_with_process(thread, print)
    assert first in noted
    assert last in noted
