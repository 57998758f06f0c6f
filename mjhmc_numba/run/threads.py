"""Chains on threads of this process."""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable

from mjhmc_numba.interruption import Press, end_with_process
from mjhmc_numba.progress import Progress
from mjhmc_numba.run.chain import ChainRun
from mjhmc_numba.run.tasks import ChainOutput
from mjhmc_numba.run.watched import GRACE_SECONDS, LOOK_SECONDS, STOP_SECONDS

__all__ = ["run_here"]


def run_here(
    runs: list[ChainRun], workers: int, display: Progress, press: Press, keep_going: bool
) -> list[ChainOutput]:
    """All chains on so many threads, until they have ended, or have had a moment to stop.

    The threads are daemons: a density that takes its time keeps nobody waiting.
    """
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    ended: queue.SimpleQueue = queue.SimpleQueue()
    for k in range(len(runs)):
        waiting.put(k)

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                k = waiting.get_nowait()
                try:
                    output = runs[k].run()
                except (
                    BaseException
                ) as error:  # as where there is no room: nobody is to wait for it
                    ended.put((k, error))
                    return
                if output.error is not None and not keep_going:
                    stop()  # before this thread takes up the next one
                ended.put((k, output))

    def stop() -> None:
        for run in runs:
            run.abort()

    try:
        for j in range(workers):
            thread = threading.Thread(target=work, name=f"mjhmc_{j}", daemon=True)
            end_with_process(thread, stop)
            try:
                thread.start()
            except RuntimeError:  # as when the process is ending: the caller's thread does
                if j == 0:
                    work()
                break
        found = _collect_outputs(runs, ended, display, press, stop)
    except BaseException:
        stop()
        raise
    return [found[k] if k in found else run.unfinished() for k, run in enumerate(runs)]


def _collect_outputs(
    runs: list[ChainRun],
    ended: queue.SimpleQueue,
    display: Progress,
    press: Press,
    stop: Callable[[], None],
) -> dict[int, ChainOutput]:
    """Show the progress until all chains have ended; one that was stopped, or Ctrl-C, stops all."""
    found: dict[int, ChainOutput] = {}
    stopped = math.inf
    # What is new must reach a store.
    patience = STOP_SECONDS if runs[0].task.store is None else GRACE_SECONDS
    while len(found) < len(runs) and time.monotonic() < stopped + patience:
        with contextlib.suppress(queue.Empty):
            k, output = ended.get(timeout=LOOK_SECONDS)
            while True:  # one look at all chains for as many as have ended
                if isinstance(output, BaseException):
                    raise output
                found[k] = output
                k, output = ended.get_nowait()
        if stopped == math.inf and (press.is_set() or any(r.aborted.is_set() for r in runs)):
            stop()
            stopped = time.monotonic()
        display.update(run.progress() for run in runs)
    return found
