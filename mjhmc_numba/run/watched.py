"""A chain as other threads see it: what it has made, how far it is, and how to stop it."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field

import numpy as np

from mjhmc_numba.kernel.statistics import STAT_NAMES
from mjhmc_numba.process import Process, Visits
from mjhmc_numba.progress import ChainProgress
from mjhmc_numba.run.tasks import ChainOutput, ChainState, ChainTask
from mjhmc_numba.stats import Rows
from mjhmc_numba.storage import Stream
from mjhmc_numba.tuned import Tuned, WarmupWindow
from mjhmc_numba.warmup import Tuner

__all__ = ["WatchedChain"]

LOOK_SECONDS = 0.05  # from one look at the chains to the next: half of what a person notices
# That chains have to stop, before they are left alone: Ctrl-C is to end a run within 0.5 s, and a
# process looks for it every 0.05 s. Those on an executor get as much and a message's time after
# Ctrl-C, and more where nobody waits.
STOP_SECONDS = 0.2
GRACE_SECONDS, PRESSED_SECONDS = 5.0, 0.4
WARMUP_NUMBERS_AT_ONCE = 1 << 19  # of the draws of a warm-up that need not be kept: 4 MB


@dataclass
class WatchedChain:
    """What a chain has made. Its own thread writes it, and others read it meanwhile."""

    task: ChainTask
    out: np.ndarray  # (draws, d), filled in place; with a store its own, filled again and again
    warmup_out: np.ndarray | None = None  # (tune, d), if all of the warm-up is kept
    process: Process | None = None
    spare: Process | None = None  # that of the chain before, and at the end its own
    warmup_made: int = 0
    warmup_kept: int = 0  # of these, in `warmup` now
    made: int = 0
    has_moved: bool = False  # since the start
    sampling: bool = False
    finished: bool = False
    last: ChainProgress | None = None  # of a chain that has ended
    tuned: Tuned | None = None  # likewise
    aborted: threading.Event = field(default_factory=threading.Event)

    def make_room(self) -> None:
        """Begin with nothing made, and with room for all that is to be kept."""
        task = self.task
        if task.store is not None:
            self.out = np.empty((task.store.chunk, task.target.ndim))
        self.rows = Rows.empty(len(self.out), task.target.ndim, self.out)
        self.base = 0  # the draw of the first row
        self.stream: Stream | None = None
        # Room for all of the warm-up, or for what is reported of it if it fails.
        most = task.tune if task.keep_warmup else max(1, WARMUP_NUMBERS_AT_ONCE // task.target.ndim)
        self.warmup = Rows.empty(min(most, task.tune), task.target.ndim, self.warmup_out)
        self.acceptance = math.nan
        self.parts: list[Visits] = []
        self.windows: list[WarmupWindow] = []
        self.warmup_gradients = 0
        self.tuner: Tuner | None = None
        self.is_warm = False
        self.piece = np.empty((0, len(STAT_NAMES)))  # statistics since the tuner was asked last
        self.start: tuple[np.ndarray, float, np.ndarray]  # x, log density, gradient
        self.block: tuple[int, float]  # first draw and beginning of the kernel's call
        self.gradient: np.ndarray | None = None  # (draw, d), on request, once there are all
        self.saved = 0, 0, 0  # draws, draws of the warm-up and parts of the record

    # ---------------------------------------------------------------- from any thread

    def abort(self) -> None:
        """Stop at the next event."""
        self.aborted.set()
        process = self.process  # the chain may end meanwhile
        if process is not None:
            process.abort()

    def rows_so_far(self) -> Rows:
        """Rows that are finished. The draws are views."""
        process = self.process
        if not self.sampling or self.task.store is not None:
            return Rows.empty(0, self.out.shape[1])
        if process is None:
            return self.rows.until(self.made)
        made, (first, began) = process.progress().draws, self.block
        rows = self.rows.until(made)
        rows = rows._replace(times=rows.times.copy())
        if first < made and self.made <= first:
            # The block is under way: its CPU time is known to its own thread alone.
            seconds = time.perf_counter() - began
            rows.note_times(slice(first, made), began, seconds, math.nan)
        return rows

    def progress(self) -> ChainProgress:
        """How far the chain is."""
        task, process = self.task, self.process
        total = task.tune + task.draws
        if process is None:
            return self.last or ChainProgress(0, total)
        warming = not self.sampling
        now = process.progress()
        done = now.draws if warming else task.tune + now.draws
        phase = "done" if self.finished else "warmup" if warming else "draws"
        return ChainProgress(
            done,
            total,
            phase,
            0 if warming else now.divergences,
            now.step_size,
            now.gradients,
            done,
        )

    def unfinished(self) -> ChainOutput:
        """What a chain has made that is not waited for; it may end at this very moment."""
        nothing = Rows.empty(0, self.out.shape[1])
        process = self.process
        tuned = self.tuned if process is None else process.tuned
        if tuned is None:  # it has not begun
            return ChainOutput(nothing, nothing)
        kept = self.task.keep_warmup
        return ChainOutput(
            self.rows_so_far() if self.task.store is None else self._thinned(),
            self.warmup.until(self.warmup_kept) if kept else nothing,
            self.acceptance,
            self.warmup_made,
            self.warmup_gradients,
            tuned,
            self._jumps(),
            gradient=self._gradients(),
            windows=list(self.windows),
            stream=self.stream,
        )

    # ---------------------------------------------------------------- from its own

    def ended(self, error: BaseException | None, end: ChainState | None) -> ChainOutput:
        """What the chain made, with an error, or with what it needs to go on."""
        task = self.task
        self.finished = True
        self.tuned = self.process.tuned if self.process else None
        if task.keep_warmup or error is not None:
            self.warmup = self.warmup.until(self.warmup_kept)
        else:
            self.warmup = Rows.empty(0, task.target.ndim)
        output = ChainOutput(
            self.rows.until(self.made) if task.store is None else self._thinned(),
            self.warmup,
            self.acceptance,
            self.warmup_made,
            self.warmup_gradients,
            self.tuned,
            self._jumps(),
            self._divergence_start(),
            self._gradients(),
            error,
            self.windows,
            end=end,
            stream=self.stream,
        )
        # The ladder and window of a chain that has ended may be larger than its draws.
        self.spare = None if task.tuned is None else self.process
        self.last, self.process, self.piece = self.progress(), None, self.piece[:0].copy()
        if task.store is not None:  # nor is a chunk of each needed any more
            self.out = np.empty((0, task.target.ndim))
            self.rows = Rows.empty(0, task.target.ndim, self.out)
        return output

    def _thinned(self) -> Rows:
        return self.rows.until(0) if self.stream is None else self.stream.thinned.rows()

    def _jumps(self) -> dict[str, np.ndarray] | None:
        if not self.task.record:
            return None
        none = (np.empty((0, self.task.target.ndim)), np.empty((0, 2)), np.empty(0))
        x, holding, event = (np.concatenate(p) for p in zip(none, *self.parts, strict=True))
        return {
            "x": x,
            "holding_time": holding[:, 0],
            "expected_holding_time": holding[:, 1],
            "event": event.astype(np.int8),
        }

    def _divergence_start(self) -> np.ndarray | None:
        if not self.task.store_divergences or self.process is None:
            return None
        return self.process.divergence_starts[: self.made]

    def _gradients(self) -> np.ndarray | None:
        process = self.process  # the chain may end meanwhile
        if self.gradient is not None or not self.task.store_gradients or process is None:
            return self.gradient
        made = process.progress().draws if self.sampling else 0
        return process.kept_gradients(made)
