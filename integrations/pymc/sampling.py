"""A run of whole chains on a PyMC model, in this thread or in the background."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjhmc_numba.diagnostics import diagnose_unless_pressed
from mjhmc_numba.errors import SamplingWarning
from mjhmc_numba.estimates import Until
from mjhmc_numba.interruption import Press, end_with_process, holding_interrupts
from mjhmc_numba.kernel.user_warnings import warn_user
from mjhmc_numba.kernel.waiting import InThread, watched
from mjhmc_numba.markup import card
from mjhmc_numba.pooling import run_with_warmup
from mjhmc_numba.progress import Progress
from mjhmc_numba.pymc.delivery import Delivery
from mjhmc_numba.pymc.packaging import convergence_is_unclear, log_convergence
from mjhmc_numba.pymc.quantities import Quantities
from mjhmc_numba.results import Result
from mjhmc_numba.run import ChainRun, ChainTask, RemoteRun, extend, run_until, stats_of, with_store
from mjhmc_numba.stats import longest_rectangle
from mjhmc_numba.storage import Checkpoint
from mjhmc_numba.stored import from_store

__all__ = ["Sampling"]


class Sampling:
    """A run of several chains, in this thread or in the background."""

    def __init__(
        self,
        delivery: Delivery,
        tasks: list[ChainTask],
        *,
        cores: int | None,
        progress: Progress,
        checks: bool,
        quiet: bool,
        blas_threads: int | None,
        executor: Any,
        checkpoint: Checkpoint | None,
        warmup: str,
        until: tuple[Until, Quantities, bool] | None = None,
    ):
        self._delivery, self._density, self._tasks = delivery, delivery.density, tasks
        self._cores, self._progress, self._checks = cores, progress, checks
        self._quiet, self._blas_threads, self._executor = quiet, blas_threads, executor
        self._checkpoint, self._warmup, self._until = checkpoint, warmup, until
        self._runs: list[ChainRun | RemoteRun] = []
        self._aborted = threading.Event()
        self._press = Press()
        self._thread: threading.Thread | None = None
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._data: Any = None
        self._began = time.perf_counter()
        if delivery.store is not None:
            first = tasks[0]
            x = first.region.centre if first.initial is None else first.initial
            self._tasks = with_store(
                tasks, delivery.store, checkpoint, delivery.groups(x), delivery.variables
            )

    def __repr__(self) -> str:
        return f"<Sampling: {self._state}, draws of each chain: {self._made}>"

    def _repr_html_(self) -> str:
        task = self._tasks[0]
        facts = {
            "state": self._state,
            "draws of each chain": f"{', '.join(map(str, self._made))} of {task.draws:,}",
            "warm-up": f"{task.tune:,} draws",
            "settings": task.settings.given() or "all by default",
            **self._density.facts,
        }
        return card("Sampling", facts)

    @property
    def _state(self) -> str:
        return "finished" if self.is_finished else "running"

    @property
    def _made(self) -> list[int]:
        return [len(run.rows_so_far().draws) for run in self._runs]

    # ------------------------------------------------------------------ running

    def run(self) -> Any:
        """Run in this thread; returns what `pm.sample` returns."""
        with holding_interrupts() as self._press:
            with self._progress, watched(self._progress.compiling):
                # What is computed of the draws is compiled while the chains run without the GIL.
                ahead = InThread(self._prepare if self._density.is_native else lambda: None)
                self._work()
                if self._error is None:
                    ahead.wait()
                else:
                    ahead.cancel()
            return self._finish(is_last=True)

    def _prepare(self) -> None:
        self._delivery.expansion.prepare()

    def start(self) -> Sampling:
        """Run in the background."""
        self._thread = threading.Thread(target=self._work_alone, name="mjhmc", daemon=True)
        end_with_process(self._thread, self._stop)
        self._thread.start()
        return self

    def _work_alone(self) -> None:
        with self._progress:
            self._work()

    def _work(self) -> None:
        try:
            result, self._tasks = run_with_warmup(
                self._tasks,
                self._tasks[0].settings,
                None,
                cores=self._cores,
                blas_threads=self._blas_threads,
                progress=self._progress,
                executor=self._executor,
                on_start=self._note,
                checkpoint=self._checkpoint,
                warmup=self._warmup,
            )
            if self._until is not None:
                result, self._tasks = run_until(
                    result,
                    self._tasks,
                    *self._until,
                    cores=self._cores,
                    blas_threads=self._blas_threads,
                    progress=self._progress,
                    executor=self._executor,
                    on_start=self._note,
                    on_round=self._keep,
                    began=self._began,
                )
            self._result = result
        except BaseException as error:  # raised where the draws are waited for
            self._error = error
        self._seconds = time.perf_counter() - self._began

    def _keep(self, result: Result) -> None:
        self._result = result

    def _note(self, runs: Sequence[ChainRun | RemoteRun]) -> None:
        self._runs = list(runs)
        if self._aborted.is_set():
            for run in runs:
                run.abort()

    @property
    def result(self) -> Result:
        """The draws of the unconstrained variables, and what was tuned, once all have ended."""
        if self._result is None or not self.is_finished:
            raise RuntimeError("The chains have not ended; wait() for them.")
        return self._result

    @property
    def gradients(self) -> dict[str, int]:
        """Gradients of all chains, in the warm-up and after it, once they have ended."""
        return self.result.gradients

    def extend(self, draws: int) -> Any:
        """Make more draws of the same chains: what a longer run would have made, bit for bit.

        It waits for the chains to end, and returns what `pm.sample` returns, with all draws.
        """
        self.wait()
        began = time.perf_counter()
        with Progress(enabled=self._progress.enabled) as display:
            self._result = extend(
                self.result,
                self._tasks,
                draws,
                cores=self._cores,
                blas_threads=self._blas_threads,
                progress=display,
                executor=self._executor,
                on_start=self._note,
            )
        self._seconds += time.perf_counter() - began
        self._data = None
        return self._finish()

    @property
    def is_finished(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> Any:
        """What `pm.sample` returns, once all chains have ended.

        Raises `TimeoutError` if they have not after `timeout` seconds, and what a chain raised.
        Ctrl-C stops the waiting and not the chains; `abort` stops them.
        """
        if self._thread is not None:
            if timeout is None and not (self.is_finished or self._aborted.is_set()):
                self._prepare()  # here and not beside: PyTensor knows nothing of threads
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise TimeoutError(f"The chains are still running after {timeout} seconds.")
        return self._finish()

    def abort(self) -> Any:
        """Stop the chains; returns their draws so far, or None if there are none."""
        self._stop()
        try:
            return self.wait()
        except KeyboardInterrupt:
            if self._result is None and isinstance(self._error, KeyboardInterrupt):
                return None
            raise

    def _stop(self) -> None:
        self._aborted.set()  # for chains that are about to begin
        for run in self._runs:
            run.abort()

    def inspect(self) -> Any:
        """The draws so far, of as many chains as give most of them; None if there are none.

        On an executor they are those of the chains that have ended; of a run in rounds, those of
        the rounds that have ended.
        """
        if self.is_finished:
            return self._finish()
        if self._until is not None and self._result is not None:
            return self._delivery.of_result(self._result, time.perf_counter() - self._began)
        if self._delivery.store is not None:
            data = from_store(self._delivery.store.path)
            return data if data["posterior"].sizes["draw"] else None
        parts = [run.rows_so_far() for run in self._runs]
        kept = longest_rectangle([len(rows.draws) for rows in parts])
        if not kept:
            return None
        n = min(len(parts[k].draws) for k in kept)
        rows = [parts[k].until(n) for k in kept]
        draws = np.stack([part.draws for part in rows])
        stats = stats_of(rows, [self._runs[k].acceptance for k in kept])
        seconds = time.perf_counter() - self._began
        return self._delivery.package(draws, stats, kept, seconds, {}, in_place=True)

    # ------------------------------------------------------------------ results

    def _finish(self, *, is_last: bool = False) -> Any:
        """What `pm.sample` returns; if nobody asks for the result itself again, in its memory."""
        if self._error is not None:
            partial = getattr(self._error, "result", None)
            if isinstance(partial, Result):
                self._error.result = self._delivered(partial, is_last)  # type: ignore[attr-defined]
            raise self._error
        if self._data is None:
            assert self._result is not None
            messages, asks_pymc = self._judged(self._result)  # while there are its draws
            self._data = self._delivered(self._result, is_last)
            self._report(messages, asks_pymc)
        return self._data

    def _delivered(self, result: Result, is_last: bool) -> Any:
        return self._delivery.of_result(result, self._seconds, is_last=is_last)

    def _judged(self, result: Result) -> tuple[list[str], bool]:
        """What is to be said of the draws, and whether PyMC's checks may say more."""
        messages = list(result.warnings)
        if not result.draws.shape[1]:
            return messages, False
        hierarchy = self._density.layout.is_hierarchy
        messages += diagnose_unless_pressed(
            result, self._tasks[0].target, self._press, is_hierarchy=hierarchy
        )
        if self._quiet or not self._checks or self._delivery.store is not None:
            return messages, False
        with contextlib.suppress(KeyboardInterrupt), self._press.raising():
            unclear = convergence_is_unclear(result.draws, is_warned_of=bool(messages))
            return messages, unclear
        return messages, False

    def _report(self, messages: list[str], asks_pymc: bool) -> None:
        if "sample_stats" in self._data:
            self._data["sample_stats"].attrs["warnings"] = "\n".join(messages)
        if self._quiet:
            return
        for message in messages:
            warn_user(message, SamplingWarning)
        if asks_pymc:
            with contextlib.suppress(KeyboardInterrupt), self._press.raising():
                log_convergence(self._data, self._density.model, only_hints=bool(messages))
