"""Chains on an executor: in other processes, here or on other machines."""

from __future__ import annotations

import concurrent.futures as futures
import math
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mjhmc_numba.executors import CANCELLED, Calls, Reports, Shipped, reporting
from mjhmc_numba.interruption import Press
from mjhmc_numba.progress import ChainProgress, Progress
from mjhmc_numba.run.blas import quiet_blas
from mjhmc_numba.run.chain import ChainRun
from mjhmc_numba.run.tasks import ChainOutput, ChainTask, in_turn
from mjhmc_numba.run.watched import GRACE_SECONDS, LOOK_SECONDS, PRESSED_SECONDS
from mjhmc_numba.stats import Rows
from mjhmc_numba.turns import Turn

__all__ = ["RemoteRun", "run_elsewhere"]


@dataclass
class RemoteRun:
    """A chain that runs elsewhere, as far as it is known here."""

    task: ChainTask
    out: np.ndarray  # (draws, d), filled once it has ended
    report: ChainProgress | None = None
    output: ChainOutput = field(init=False)
    finished: bool = False
    aborted: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        nothing = Rows.empty(0, self.task.target.ndim)
        self.output = ChainOutput(nothing, nothing)

    @property
    def acceptance(self) -> float:
        return self.output.acceptance

    def abort(self) -> None:
        """Stop it, from any thread, as soon as its worker can be told."""
        self.aborted.set()

    def end(self, output: ChainOutput | None, error: BaseException | None) -> None:
        """Take what it made, or why there is nothing."""
        if output is None:
            # Ctrl-C may have reached the workers too, and broken their pool.
            lost = (*CANCELLED, futures.BrokenExecutor)
            is_cancelled = isinstance(error, lost) and self.aborted.is_set()
            self.output.error = None if is_cancelled else error
        else:
            made = len(output.rows.draws)
            self.out[:made] = output.rows.draws
            self.output = replace(output, rows=output.rows._replace(draws=self.out[:made]))
        self.finished = True

    def rows_so_far(self) -> Rows:
        """All rows of a chain that has ended, and none before."""
        return self.output.rows

    def progress(self) -> ChainProgress:
        """How far the chain is by its last report."""
        total = self.task.tune + self.task.draws
        row = ChainProgress(0, total) if self.report is None else self.report
        return row._replace(done=total, phase="done") if self.finished else row


def _run_sent(shipped: Shipped, k: int, task: ChainTask, link: Any) -> ChainOutput:
    """Chain k in another process."""
    target, settings, turn = shipped.value
    task = replace(task, target=target, settings=settings)
    run = ChainRun(task, np.empty((task.draws, target.ndim)))
    with (
        quiet_blas,
        reporting(link, k, run.progress, run.abort),
        in_turn(turn, target),
    ):
        return run.run()


def run_elsewhere(
    runs: list[RemoteRun], executor: Any, display: Progress, press: Press, keep_going: bool
) -> bool:
    """All chains on an executor; says whether they were interrupted."""
    # What chains share is sent, and compiled there, once per worker.
    turn = Turn()  # of the chains that a worker runs side by side
    shared = {id(r.task.target): Shipped((r.task.target, r.task.settings, turn)) for r in runs}
    with Reports(executor) as reports:
        calls = Calls(
            executor,
            _run_sent,
            [
                (shared[id(run.task.target)], k, _without_target(run.task), reports.link)
                for k, run in enumerate(runs)
            ],
        )
        try:
            _watch_elsewhere(runs, calls, reports, display, press, keep_going)
        except BaseException:  # what is not waited for must not go on
            calls.cancel()
            reports.stop()
            raise
        finally:
            calls.close()
    for k in calls.rerun | reports.started_again:
        runs[k].output.is_rerun = True
    return any(run.aborted.is_set() for run in runs)


def _without_target(task: ChainTask) -> ChainTask:
    return replace(task, target=None, settings=None)  # type: ignore[arg-type]


def _watch_elsewhere(
    runs: list[RemoteRun],
    calls: Calls,
    reports: Reports,
    display: Progress,
    press: Press,
    keep_going: bool,
) -> None:
    """Collect the chains as they end, and show how far they are. One that raises ends the others;
    one that is lost with its worker does not.
    """
    until, looked = math.inf, -math.inf
    while calls.waiting and time.monotonic() < until:
        for k, output, error in calls.ended(LOOK_SECONDS):
            runs[k].end(output, error)
            if output is not None and output.error is not None and not keep_going:
                runs[k].abort()
        if time.monotonic() < looked + LOOK_SECONDS and calls.waiting:
            continue  # not at all of them for each that ends
        looked = time.monotonic()
        pressed = press.is_set()
        if until == math.inf and (pressed or any(run.aborted.is_set() for run in runs)):
            until = time.monotonic() + (PRESSED_SECONDS if pressed else GRACE_SECONDS)
            for run in runs:
                run.abort()
            calls.cancel()
            reports.stop()
        reports.read()
        for k, run in enumerate(runs):
            run.report = reports.progress(k)
        display.update(run.progress() for run in runs)
