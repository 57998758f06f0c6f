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
from mjhmc_numba.run.tasks import ChainOutput, in_turn
from mjhmc_numba.run.watched import GRACE_SECONDS, LOOK_SECONDS, STOP_SECONDS
from mjhmc_numba.turns import Turn

__all__ = ["run_here"]


def run_here(
    runs: list[ChainRun], workers: int, display: Progress, press: Press, keep_going: bool
) -> list[ChainOutput]:
    """All chains on so many threads, until they have ended, or have had a moment to stop.

    The threads are daemons: a density that takes its time keeps nobody waiting.
    """
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    ended, turn = Ended(len(runs)), Turn()
    for k in range(len(runs)):
        waiting.put(k)

    def work() -> None:
        spare = None
        with contextlib.suppress(queue.Empty), in_turn(turn, runs[0].task.target):
            while True:
                k = waiting.get_nowait()
                runs[k].spare = spare
                try:
                    output = runs[k].run()
                except (
                    BaseException
                ) as error:  # as where there is no room: nobody is to wait for it
                    ended.fail(error)
                    return
                spare, runs[k].spare = runs[k].spare, None
                if output.error is not None and not keep_going:
                    stop()  # before this thread takes up the next one
                ended.put(k, output)

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


class Ended:
    """What the chains have made that have ended.

    Parameters
    ----------
    chains : int
        As many end, unless there is an error.
    """

    def __init__(self, chains: int):
        self.outputs: dict[int, ChainOutput] = {}
        self._chains, self._all = chains, threading.Event()
        self._error: BaseException | None = None

    def put(self, k: int, output: ChainOutput) -> None:
        self.outputs[k] = output
        if len(self.outputs) == self._chains:
            self._all.set()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._all.set()

    def wait(self, seconds: float) -> bool:
        """Wait for all of them, so long at most; says whether they have ended."""
        # Each that ends must not wake the caller: there may be thousands in a second.
        has_ended = self._all.wait(seconds)
        if self._error is not None:
            raise self._error
        return has_ended


def _collect_outputs(
    runs: list[ChainRun],
    ended: Ended,
    display: Progress,
    press: Press,
    stop: Callable[[], None],
) -> dict[int, ChainOutput]:
    """Show the progress until all chains have ended; one that was stopped, or Ctrl-C, stops all."""
    stopped = math.inf
    # What is new must reach a store.
    patience = STOP_SECONDS if runs[0].task.store is None else GRACE_SECONDS
    while not ended.wait(LOOK_SECONDS) and time.monotonic() < stopped + patience:
        if stopped == math.inf and (press.is_set() or any(r.aborted.is_set() for r in runs)):
            stop()
            stopped = time.monotonic()
        display.update(run.progress() for run in runs)
    display.update(run.progress() for run in runs)
    return dict(ended.outputs)
