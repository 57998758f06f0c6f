"""One chain: it begins, warms up, samples, and writes down what it made on the way."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from mjhmc_numba.diagnostics import cannot_move
from mjhmc_numba.errors import StuckError
from mjhmc_numba.initial import find_start
from mjhmc_numba.kernel.layout import DENSITY_RAISED, INTERRUPTED, RECORD_FULL
from mjhmc_numba.process import Aborted, Process, random_words
from mjhmc_numba.run.going_on import go_on, load_files, room_of, save_files, state_of
from mjhmc_numba.run.memory import give_back
from mjhmc_numba.run.tasks import ChainOutput
from mjhmc_numba.run.watched import WARMUP_NUMBERS_AT_ONCE, WatchedChain
from mjhmc_numba.stats import COLUMN, Rows
from mjhmc_numba.storage import Stream
from mjhmc_numba.tuned import WarmupWindow
from mjhmc_numba.turns import away, away_for
from mjhmc_numba.warmup import Tuner
from mjhmc_numba.warmup.first import first_guess, run_untuned

__all__ = ["ChainRun"]

# A chain that writes checkpoints looks at its clock after about so many seconds: a quarter of the
# time from one checkpoint to the next, within bounds; as long as a person waits at most.
SHORTEST_BLOCK, LONGEST_BLOCK = 0.01, 0.5
# After which what is new goes to a store, or when a chunk is full: what a crash may cost.
FLUSH_SECONDS = 5.0


@dataclass
class Pace:
    """How many draws to make in one call, so that a chain looks at its clock in time."""

    seconds: float
    draws: int = 8

    def note(self, draws: int, seconds: float) -> None:
        """Take in how long so many draws took."""
        wanted = self.seconds * draws / max(seconds, 1e-9)
        self.draws = int(min(max(wanted, 1), 2 * self.draws))


@dataclass
class ChainRun(WatchedChain):
    """A chain that runs, in the thread that calls `run`."""

    def run(self) -> ChainOutput:
        """Warm up and sample. Errors are returned with what was made before them."""
        task = self.task
        self.make_room()
        self.pace = Pace(math.inf, task.draws + task.tune)
        error: BaseException | None = None
        try:
            if not self.aborted.is_set():
                self._begin()
            if not self.aborted.is_set() and not self.is_warm:
                self._warm_up()
            if not self.aborted.is_set():
                self._sample()
        except (Aborted, KeyboardInterrupt):
            self.aborted.set()
            return self.unfinished()
        except BaseException as raised:
            error = raised
        is_whole = error is None and self.made == task.draws
        # A store is not extended: what its chains need to go on is more than what is kept of them.
        goes_on = is_whole and task.store is None
        return self.ended(error, state_of(self) if goes_on else None)

    def _begin(self) -> None:
        """Make the process at its start, or where it was."""
        task = self.task
        if not load_files(self):
            if task.state is None:
                self._start()
            else:
                go_on(self, task.state)
                assert self.process is not None
                self.process.count_anew()
        if task.store is not None:
            self.pace = Pace(LONGEST_BLOCK)
        if task.files is not None:
            self.pace = Pace(min(max(task.files.every / 4, SHORTEST_BLOCK), LONGEST_BLOCK))

    def _start(self) -> None:
        task = self.task
        rng = np.random.default_rng(task.seed.spawn(1)[0])
        x, tries = task.initial, 1
        if x is None:
            with away_for(task.target, 1):
                x, tries = find_start(task.target, task.region, rng)
        self.process = self._new_process()
        self.process.start(x)
        here = self.process.here.to(None)
        self.start = here.x.copy(), float(here.logp), here.grad.copy()
        self.warmup_gradients = tries
        if task.tuned is not None:
            return
        if task.tune > 0:
            self.tuner = Tuner(task.settings, task.target.ndim, task.tune, rng, task.region)
            self.tuner.begin(self.process)
        else:
            run_untuned(self.process, task.settings)

    def _new_process(self) -> Process:
        """A process for this chain: that of the chain before it on this thread, if it will do."""
        task, words = self.task, random_words(self.task.seed)
        tuned = task.tuned or first_guess(task.settings, task.target.ndim)
        spare, self.spare = self.spare, None
        if spare is not None and spare.begin_again(task.target, task.settings, tuned, words):
            return spare
        return Process(task.target, task.settings, tuned, words, **room_of(task))

    def _warm_up(self) -> None:
        assert self.process is not None
        self._tune()
        if self.aborted.is_set():
            return
        self.tuner, self.is_warm = None, True
        give_back(8 * self.task.target.ndim * self.task.tune)
        self.warmup_gradients += self.process.progress().gradients
        self.process.count_anew()

    def _tune(self) -> None:
        """The draws of the warm-up: whole windows in the kernel, and the tuner between them."""
        task, process, tuner, rows = self.task, self.process, self.tuner, self.warmup
        assert process is not None
        most = max(1, WARMUP_NUMBERS_AT_ONCE // task.target.ndim)
        while self.warmup_made < task.tune:
            asked = task.tune - self.warmup_made + len(self.piece)
            if tuner is not None:
                asked = min(asked, tuner.draws_ahead)
            n = min(min(asked, most) - len(self.piece), self.pace.draws)
            if self.warmup_kept + n > len(rows.draws):  # not all are to be kept: begin anew
                self.warmup_kept = 0
            part = slice(self.warmup_kept, self.warmup_kept + n)
            rows.note_tuned(part, process.tuned)
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                self._fill(rows, part)
            finally:
                seconds = time.perf_counter() - began
                rows.note_times(part, began, seconds, time.thread_time() - cpu)
                self._note_draws(slice(part.start, self.warmup_kept))
            if self.aborted.is_set():
                self._note_window()
                return
            self.pace.note(n, seconds)
            if len(self.piece) == min(asked, most):
                draws = len(self.piece)
                self._note_window()
                if tuner is not None:
                    tuner.update(process, draws)
            process.clear_record()
            self._save_if_due()
        self._check_moves()

    def _note_draws(self, part: slice) -> None:
        """Note what draws of the warm-up say of it."""
        rates = self.warmup.stats[part, COLUMN["acceptance_rate"]]
        self.acceptance = float(np.append(self.acceptance, rates[np.isfinite(rates)])[-1])
        self.piece = np.concatenate([self.piece, self.warmup.stats[part]])
        self._note_moves(self.warmup.draws[part])

    def _note_window(self) -> None:
        """Write down what the draws since the tuner was asked last were made with."""
        assert self.process is not None
        stats, self.piece = self.piece, self.piece[:0]
        if len(stats):
            self.windows.append(_window(self.process, stats, self.warmup_made))

    def _sample(self) -> None:
        task = self.task
        assert self.process is not None
        if task.store is not None:
            self.stream = self.stream or Stream(
                task.target.ndim, self.acceptance, task.store.chains
            )
            self.base, self.flushed = self.made, time.monotonic()
        if task.store_gradients:
            self.process.keep_draws(task.draws)
        self.rows.note_tuned(slice(self.made - self.base, None), self.process.tuned)
        self.block = self.made, time.perf_counter()
        self.sampling = True
        try:
            while self.made < task.draws and not self.aborted.is_set():
                first, began = self.made - self.base, time.perf_counter()
                n = min(self.pace.draws, task.draws - self.made, self._rows_ahead() - first)
                self._fill(self.rows, slice(first, first + n), count=True)
                self.pace.note(n, time.perf_counter() - began)
                self._flush()
                self._save_if_due()
        finally:
            self._empty_record(keep=True)
            self._flush(is_last=True)
        if task.store_gradients:
            self.gradient = self.process.kept_gradients(self.made)
            self.process.keep_draws(0)
        self._note_moves(self.out[: self.made])  # of a store, those that were last written over
        self._check_moves()
        if self.made == self.task.draws:
            self._save_if_due(is_last=True)

    def _note_moves(self, draws: np.ndarray) -> None:
        if not self.has_moved and len(draws):
            here, origin = draws[-1], self.start[0]
            # Most chains are elsewhere at last, and not all draws need to be looked at.
            self.has_moved = bool((here != origin).any() or (draws != origin).any())

    def _check_moves(self) -> None:
        trouble = cannot_move(self.has_moved, self.warmup_made + self.made)
        if trouble is not None:
            raise StuckError(trouble)

    def _fill(self, rows: Rows, part: slice, count: bool = False) -> None:
        """Fill rows, emptying the jump record whenever it is full."""
        process, row = self.process, part.start
        assert process is not None
        while row < part.stop:
            cpu = 0.0
            if count:
                self.block, cpu = (row, time.perf_counter()), time.thread_time()
            n, status = process.run(rows.draws[row : part.stop], rows.stats[row : part.stop])
            row += n
            if count:
                self._note_block(row, time.thread_time() - cpu)
                self.made = self.base + row
            else:
                self.warmup_made += n
                self.warmup_kept += n
            if status == RECORD_FULL:
                self._empty_record(keep=count)
            elif status == DENSITY_RAISED:
                raise process.error()
            elif status == INTERRUPTED:
                self.aborted.set()
                break

    def _note_block(self, end: int, cpu_seconds: float) -> None:
        """Times of the draws that one call of the kernel made."""
        first, began = self.block
        seconds = time.perf_counter() - began
        self.rows.note_times(slice(first, end), began, seconds, cpu_seconds)

    def _rows_ahead(self) -> int:
        """Rows that can be filled: with a store, up to the end of a chunk."""
        store = self.task.store
        return len(self.out) if store is None else store.chunk - self.base % store.chunk

    def _flush(self, is_last: bool = False) -> None:
        """Write what is new to the store, once a chunk is full and every now and then."""
        store, stream = self.task.store, self.stream
        if store is None or stream is None:
            return
        is_full = self.made - self.base == self._rows_ahead()
        if is_last or is_full or time.monotonic() - self.flushed >= FLUSH_SECONDS:
            part = slice(stream.stored - self.base, self.made - self.base)
            if part.start < part.stop:
                with away():
                    stream.write(store, Rows(*(array[part] for array in self.rows)))
            self.flushed = time.monotonic()
        if is_full:
            self.base = self.made

    def _empty_record(self, keep: bool) -> None:
        process = self.process
        assert process is not None
        if keep:
            self.parts.append(process.visits())
        process.clear_record()

    def _save_if_due(self, is_last: bool = False) -> None:
        files = self.task.files
        if files is not None and (is_last or files.is_due):
            self._empty_record(keep=self.sampling)
            self._flush(is_last=True)
            with away():
                save_files(self)


def _window(process: Process, stats: np.ndarray, draws: int) -> WarmupWindow:
    """What draws of the warm-up with these statistics were made with; `draws` there are by now."""
    rates = stats[:, COLUMN["acceptance_rate"]]
    rates = rates[np.isfinite(rates)]
    with np.errstate(over="ignore"):  # a density that rises for ever
        log_density = _median(stats[:, COLUMN["lp"]])
    tuned = process.tuned.replace(step_size=float(stats[-1, COLUMN["step_size_bar"]]))
    moved = tuned.reparametrisation
    return WarmupWindow(
        draws=draws,
        gradients=process.progress().gradients,
        step_size=tuned.step_size,
        path_length=tuned.path_length,
        integrator=tuned.integrator,
        metric_rank=tuned.metric.rank,
        reparametrised=0 if moved is None else moved.children.size,
        log_density=log_density,
        acceptance_rate=float(rates.mean()) if rates.size else math.nan,
    )


def _median(values: np.ndarray) -> float:
    """NumPy's median, which takes a tenth of the time of a short chain."""
    ordered, n = np.sort(values), len(values)  # NaN comes last
    if np.isnan(ordered[-1]):
        return math.nan
    return float(0.5 * ordered[(n - 1) // 2] + 0.5 * ordered[n // 2])
