"""Chains, here on threads or on an executor."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjhmc_numba.interruption import holding_interrupts
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.process import Process
from mjhmc_numba.progress import Progress
from mjhmc_numba.run.blas import blas_limit
from mjhmc_numba.run.chain import ChainRun
from mjhmc_numba.run.elsewhere import RemoteRun, run_elsewhere
from mjhmc_numba.run.tasks import ChainOutput, ChainTask
from mjhmc_numba.run.threads import run_here

__all__ = ["run_chains"]


def run_chains(
    tasks: list[ChainTask],
    *,
    cores: int | None,
    blas_threads: int | None = 1,
    progress: Progress,
    executor: Any = None,
    on_start: Callable[[Sequence[ChainRun | RemoteRun]], None] | None = None,
    keep_going: bool = False,
    rooms: Sequence[np.ndarray] = (),
) -> tuple[np.ndarray, list[ChainOutput], bool]:
    """Run all chains; returns (draws (chain, draw, d), outputs, interrupted).

    `rooms` are where the draws (draw, d) of each chain are to lie, if they have a place; then the
    first value returned has no draws.
    `on_start` gets the chains before they run, to look at them or to abort them from another
    thread. A chain that fails ends the others, unless they are to `keep_going`.
    """
    d, draws = tasks[0].target.ndim, tasks[0].draws
    is_stored = tasks[0].store is not None  # then a chain has room for a chunk while it runs
    out = np.empty((len(tasks), 0 if is_stored or rooms else draws, d))
    places = rooms or tuple(out)
    if executor is not None:
        remote = [RemoteRun(*pair) for pair in zip(tasks, places, strict=True)]
        if on_start is not None:
            on_start(remote)
        with holding_interrupts() as press:
            interrupted = run_elsewhere(remote, executor, progress, press, keep_going)
        return out, [run.output for run in remote], interrupted
    with watched(progress.compiling), holding_interrupts() as press, press.raising():
        Process.compile_kernel()  # here, because Ctrl-C reaches the main thread alone
    runs = [ChainRun(*pair) for pair in zip(tasks, places, strict=True)]
    if tasks[0].keep_warmup:
        warmup = np.empty((len(tasks), tasks[0].tune, d))
        for k, run in enumerate(runs):
            run.warmup_out = warmup[k]
    if on_start is not None:
        on_start(runs)
    workers = min(len(runs), cores or os.cpu_count() or 1)
    with blas_limit(blas_threads), holding_interrupts() as press:
        outputs = run_here(runs, workers, progress, press, keep_going)
    return out, outputs, any(run.aborted.is_set() for run in runs)
