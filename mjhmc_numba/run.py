"""Chains on threads or on an executor: seeds, progress, interruption, and what they made."""

from __future__ import annotations

import concurrent.futures as futures
import contextlib
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from mjhmc_numba.density import Target
from mjhmc_numba.diagnostics import cannot_move, closing_line
from mjhmc_numba.errors import CheckpointError, MemoryRequestError, SettingsError, StuckError
from mjhmc_numba.executors import CANCELLED, Calls, Reports, Shipped, reporting
from mjhmc_numba.initial import Region, find_start
from mjhmc_numba.interruption import Press, end_with_process, holding_interrupts
from mjhmc_numba.kernel.layout import DENSITY_RAISED, INTERRUPTED, RECORD_FULL
from mjhmc_numba.kernel.statistics import STAT_NAMES
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.process import Aborted, Process, Snapshot, Visits, random_words
from mjhmc_numba.progress import ChainProgress, Progress
from mjhmc_numba.results import Result
from mjhmc_numba.saving import load, save
from mjhmc_numba.settings import Settings, check_counts
from mjhmc_numba.stats import COLUMN, STATISTICS, WIDTH, Rows, by_name, longest_rectangle
from mjhmc_numba.storage import ChainFiles, ChainStore, Checkpoint, Group, Store, Stream
from mjhmc_numba.tuned import Tuned, WarmupWindow
from mjhmc_numba.warmup import Tuner
from mjhmc_numba.warmup.first import first_guess, run_untuned

__all__ = [
    "ChainRun",
    "ChainState",
    "ChainTask",
    "chain_seeds",
    "check_memory",
    "check_store",
    "child_seed",
    "extend",
    "finish_store",
    "longest_rectangle",
    "root_seed",
    "run_tasks",
    "stats_of",
    "warm_started",
    "with_store",
]

POLL_SECONDS = 0.05
STOP_SECONDS = 0.2  # that chains have to stop, before they are left alone
# That chains on an executor have to stop, before they are left to it; after Ctrl-C.
GRACE_SECONDS, PRESSED_SECONDS = 5.0, 0.4
RECORD_ROWS = 4096
# A chain that writes checkpoints looks at its clock after about so many seconds.
SHORTEST_BLOCK, LONGEST_BLOCK = 0.01, 0.5
ALIKE = 1e-9  # relative difference of two values of one density
NUMBERS_AT_ONCE = 1 << 19  # of the draws of a warm-up that need not be kept: 4 MB
FLUSH_SECONDS = 5.0  # after which what is new goes to a store, or when a chunk is full


def root_seed(seed: Any) -> np.random.SeedSequence:
    """The user's seed as NumPy's."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    try:
        return np.random.SeedSequence(seed)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"seed={seed!r} is none that NumPy takes: {error}") from error


def chain_seeds(root: np.random.SeedSequence, chains: int) -> list[np.random.SeedSequence]:
    """One seed per chain, the same for the first k of any number of chains, run after run."""
    return [child_seed(root, k) for k in range(chains)]


def child_seed(root: np.random.SeedSequence, k: int) -> np.random.SeedSequence:
    """The k-th child, whatever was spawned before."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, k))


def check_memory(
    ndim: int, draws: int, warmup: int, chains: int, *, width: int | None = None
) -> None:
    """Refuse an output that cannot fit, before anything is allocated.

    Counted is all that is there at once when the draws are collected: the rows of the chains, the
    statistics by name, of one chain twice, and what is made of a draw, `width` numbers.
    """
    named = len(STATISTICS) * (chains + 1) / chains
    per_draw = ndim + WIDTH + named + (width or 0)
    size = 8 * chains * (draws + warmup) * per_draw
    try:
        have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return
    if size > 0.9 * have:
        raise MemoryRequestError(
            f"The draws would take {size / 1e9:.1f} GB; this machine has {have / 1e9:.1f} GB. "
            "Ask for fewer draws or chains."
        )


class ChainState(NamedTuple):
    """What a chain needs to go on between two calls of the kernel."""

    process: Snapshot
    tuner: Tuner | None  # in the warm-up
    start: tuple[np.ndarray, float, np.ndarray]  # where it began: x, log density, gradient
    is_warm: bool
    warmup_made: int
    made: int
    acceptance: float
    warmup_gradients: int
    windows: list[WarmupWindow]
    piece: np.ndarray  # statistics of the draws since the tuner was asked last
    stream: Stream | None  # to a store


class Part(NamedTuple):
    """What a chain made between two checkpoints."""

    rows: Rows
    warmup: Rows
    visits: list[Visits]


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
class ChainTask:
    """All that one chain needs; can be pickled if the target can.

    With `tuned` it does not tune: its warm-up is a burn-in. With `state` it goes on from there.
    With `files` it writes checkpoints, and goes on from the last where there is one.
    """

    target: Target
    settings: Settings
    draws: int
    tune: int
    seed: np.random.SeedSequence
    region: Region
    initial: np.ndarray | None = None  # a start that has been found in it
    keep_warmup: bool = False
    record: bool = False
    tuned: Tuned | None = None
    state: ChainState | None = None
    files: ChainFiles | None = None
    number: int = 0  # of the chain
    store_divergences: bool = False
    store: ChainStore | None = None


@dataclass
class ChainOutput:
    """What one chain made: rows that were finished, however it ended.

    With a store, `rows` are some of them, evenly spaced; see `Stream`.
    """

    rows: Rows
    warmup: Rows
    acceptance: float = math.nan  # the last that was known in the warm-up
    warmup_made: int = 0  # draws of the warm-up, kept or not
    warmup_gradients: int = 0
    tuned: Tuned | None = None
    jumps: dict[str, np.ndarray] | None = None
    divergence_start: np.ndarray | None = None  # (draw, d), on request
    error: BaseException | None = None
    windows: list[WarmupWindow] = field(default_factory=list)
    is_rerun: bool = False  # because the worker died that it ran on first
    end: ChainState | None = None  # of a chain that made all its draws
    stream: Stream | None = None  # to a store

    @property
    def made(self) -> int:
        """Draws that there are, here or in a store."""
        return len(self.rows.draws) if self.stream is None else self.stream.stored


@dataclass
class ChainRun:
    """A chain that is running, watched from another thread."""

    task: ChainTask
    out: np.ndarray  # (draws, d), filled in place; with a store, again and again
    process: Process | None = None
    warmup_made: int = 0
    warmup_kept: int = 0  # of these, in `warmup` now
    made: int = 0
    has_moved: bool = False  # since the start
    sampling: bool = False
    finished: bool = False
    last: ChainProgress | None = None  # of a chain that has ended
    aborted: threading.Event = field(default_factory=threading.Event)

    # ---------------------------------------------------------------- the chain

    def run(self) -> ChainOutput:
        """Warm up and sample. Errors are returned with what was made before them."""
        task = self.task
        self.rows = Rows.empty(len(self.out), task.target.ndim, self.out)
        self.base = 0  # the draw of the first row
        self.stream: Stream | None = None
        # Room for all of the warm-up, or for what is reported of it if it fails.
        most = task.tune if task.keep_warmup else max(1, NUMBERS_AT_ONCE // task.target.ndim)
        self.warmup = Rows.empty(min(most, task.tune), task.target.ndim)
        self.acceptance = math.nan
        self.parts: list[Visits] = []
        self.windows: list[WarmupWindow] = []
        self.warmup_gradients = 0
        self.tuner: Tuner | None = None
        self.is_warm = False
        self.piece = np.empty((0, len(STAT_NAMES)))
        self.saved = 0, 0, 0  # draws, draws of the warm-up and parts of the record
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
        self.finished = True
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
            self.process.tuned if self.process else None,
            self._jumps(),
            self._divergence_start(),
            error,
            self.windows,
            end=self._state() if error is None and self.made == task.draws else None,
            stream=self.stream,
        )
        # The ladder and window of a chain that has ended may be larger than its draws.
        self.last, self.process, self.piece = self.progress(), None, self.piece[:0].copy()
        return output

    def _begin(self) -> None:
        """Make the process at its start, or where it was."""
        task = self.task
        saved = None if task.files is None else task.files.load()
        if saved is not None:
            try:
                state = load(ChainState, saved.state, settings=task.settings)
                parts = [load(Part, part) for part in saved.parts]
            except (KeyError, TypeError, ValueError) as error:
                raise CheckpointError(
                    f"What was saved of a chain cannot be gone on from: {error}"
                ) from error
            self._go_on(state)
            self._take_parts(parts, state.made)
        elif task.state is not None:
            self._go_on(task.state)
            assert self.process is not None
            self.process.count_anew()
        else:
            self._start()
        if task.store is not None:
            self.pace = Pace(LONGEST_BLOCK)
        if task.files is not None:
            self.pace = Pace(min(max(task.files.every / 4, SHORTEST_BLOCK), LONGEST_BLOCK))

    def _start(self) -> None:
        task = self.task
        rng = np.random.default_rng(task.seed.spawn(1)[0])
        x, tries = task.initial, 1
        if x is None:
            x, tries = find_start(task.target, task.region, rng)
        self.process = Process(
            task.target,
            task.settings,
            task.tuned or first_guess(task.settings, task.target.ndim),
            random_words(task.seed),
            **self._room(),
        )
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

    def _room(self) -> dict[str, int]:
        """What the process is to keep beside its draws."""
        task = self.task
        return {
            "record": RECORD_ROWS if task.record else 0,
            "divergences": task.draws if task.store_divergences else 1,
        }

    def _warm_up(self) -> None:
        assert self.process is not None
        self._tune()
        if self.aborted.is_set():
            return
        self.tuner, self.is_warm = None, True
        self.warmup_gradients += self.process.progress().gradients
        self.process.count_anew()

    def _tune(self) -> None:
        """The draws of the warm-up: whole windows in the kernel, and the tuner between them."""
        task, process, tuner, rows = self.task, self.process, self.tuner, self.warmup
        assert process is not None
        most = max(1, NUMBERS_AT_ONCE // task.target.ndim)
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
        if not len(stats):
            return
        rates = stats[:, COLUMN["acceptance_rate"]]
        rates = rates[np.isfinite(rates)]
        with np.errstate(over="ignore"):  # a density that rises for ever
            log_density = float(np.median(stats[:, COLUMN["lp"]]))
        tuned = self.process.tuned.replace(step_size=float(stats[-1, COLUMN["step_size_bar"]]))
        moved = tuned.reparametrisation
        window = WarmupWindow(
            draws=self.warmup_made,
            gradients=self.process.progress().gradients,
            step_size=tuned.step_size,
            path_length=tuned.path_length,
            integrator=tuned.integrator,
            metric_rank=tuned.metric.rank,
            reparametrised=0 if moved is None else moved.children.size,
            log_density=log_density,
            acceptance_rate=float(rates.mean()) if rates.size else math.nan,
        )
        self.windows.append(window)

    def _sample(self) -> None:
        task = self.task
        assert self.process is not None
        if task.store is not None:
            self.stream = self.stream or Stream(task.target.ndim, self.acceptance)
            self.base, self.flushed = self.made, time.monotonic()
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
            cpu = time.thread_time()
            if count:
                self.block = row, time.perf_counter()
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
                stream.write(store, Rows(*(array[part] for array in self.rows)))
            self.flushed = time.monotonic()
        if is_full:
            self.base = self.made

    def _thinned(self) -> Rows:
        return self.rows.until(0) if self.stream is None else self.stream.thinned.rows()

    def _empty_record(self, keep: bool) -> None:
        process = self.process
        assert process is not None
        if keep:
            self.parts.append(process.visits())
        process.clear_record()

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

    def unfinished(self) -> ChainOutput:
        """What a chain has made that is not waited for; from any thread."""
        nothing = Rows.empty(0, self.out.shape[1])
        if self.process is None:
            return ChainOutput(nothing, nothing)
        kept = self.task.keep_warmup
        return ChainOutput(
            self.rows_so_far() if self.task.store is None else self._thinned(),
            self.warmup.until(self.warmup_kept) if kept else nothing,
            self.acceptance,
            self.warmup_made,
            self.warmup_gradients,
            self.process.tuned,
            self._jumps(),
            windows=list(self.windows),
            stream=self.stream,
        )

    # ---------------------------------------------------------------- going on

    def _state(self) -> ChainState:
        assert self.process is not None
        return ChainState(
            self.process.snapshot(),
            self.tuner,
            self.start,
            self.is_warm,
            self.warmup_made,
            self.made,
            self.acceptance,
            self.warmup_gradients,
            list(self.windows),
            self.piece,
            self.stream,
        )

    def _go_on(self, state: ChainState) -> None:
        task = self.task
        _check_density(task.target, state.start)
        self.process = Process.resume(task.target, task.settings, state.process, **self._room())
        self.tuner, self.start, self.is_warm = state.tuner, state.start, state.is_warm
        self.warmup_made, self.windows = state.warmup_made, list(state.windows)
        self.piece, self.stream = state.piece, state.stream
        self.acceptance, self.warmup_gradients = state.acceptance, state.warmup_gradients
        self.has_moved = bool((self.process.x != self.start[0]).any())

    def _save_if_due(self, is_last: bool = False) -> None:
        files = self.task.files
        if files is None or not (is_last or files.is_due):
            return
        self._empty_record(keep=self.sampling)
        self._flush(is_last=True)
        made, warmup_made, parts = self.saved if self.stream is None else (0, self.saved[1], 0)
        kept = self.warmup_kept if self.task.keep_warmup else 0
        part = Part(
            Rows(*(array[made : 0 if self.stream else self.made] for array in self.rows)),
            Rows(*(array[warmup_made:kept] for array in self.warmup)),
            self.parts[parts:],
        )
        files.save(save(self._state()), save(part))
        self.saved = self.made, kept, len(self.parts)

    def _take_parts(self, parts: list[Part], expected: int) -> None:
        """The draws that were saved, so many."""
        task, made, kept = self.task, 0, 0
        if expected > task.draws:
            raise CheckpointError(
                f"The chain has made {expected} draws already, more than draws={task.draws}."
            )
        for part in parts:
            for mine, saved in zip(self.rows, part.rows, strict=True):
                mine[made : made + len(saved)] = saved
            for mine, saved in zip(self.warmup, part.warmup, strict=True):
                mine[kept : kept + len(saved)] = saved
            made, kept = made + len(part.rows.draws), kept + len(part.warmup.draws)
            self.parts.extend(part.visits)
        made = made if self.stream is None else self.stream.stored
        if made != expected or kept != (self.warmup_made if task.keep_warmup else 0):
            raise CheckpointError(f"The checkpoint has {made} draws of {expected}: it is damaged.")
        self.warmup_kept = kept
        self.made, self.saved = made, (made, kept, len(self.parts))

    # ---------------------------------------------------------------- watching

    def abort(self) -> None:
        """Stop at the next event; from any thread."""
        self.aborted.set()
        process = self.process  # the chain may end meanwhile
        if process is not None:
            process.abort()

    def rows_so_far(self) -> Rows:
        """Rows that are finished; from any thread. The draws are views."""
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


def _check_density(target: Target, start: tuple[np.ndarray, float, np.ndarray]) -> None:
    """Raise unless the density is what it was where the chain began."""
    x, logp, grad = start
    if x.shape == (target.ndim,):
        logp_now, grad_now = target.logp_and_grad(x)
        # As exact as another processor, with other rounding, allows.
        far = ALIKE * max(float(np.abs(grad).max()), 1.0)
        if abs(logp_now - logp) <= ALIKE * (1 + abs(logp)) and np.abs(grad_now - grad).max() <= far:
            return
    raise CheckpointError(
        "The density is not the one that the chain began with: at its start the log density or "
        "the gradient is another. Give the same density and data, or another folder."
    )


def run_chains(
    tasks: list[ChainTask],
    *,
    cores: int | None,
    blas_threads: int | None = 1,
    progress: Progress,
    executor: Any = None,
    on_start: Callable[[Sequence[ChainRun | RemoteRun]], None] | None = None,
    keep_going: bool = False,
) -> tuple[np.ndarray, list[ChainOutput], bool]:
    """Run all chains; returns (draws (chain, draw, d), outputs, interrupted).

    `on_start` gets the chains before they run, to look at them or to abort them from another
    thread. A chain that fails ends the others, unless they are to `keep_going`.
    """
    d, draws = tasks[0].target.ndim, tasks[0].draws
    store = tasks[0].store
    out = np.empty((len(tasks), draws if store is None else store.chunk, d))
    if executor is not None:
        remote = [RemoteRun(task, out[k]) for k, task in enumerate(tasks)]
        if on_start is not None:
            on_start(remote)
        with holding_interrupts() as press:
            interrupted = _run_elsewhere(remote, executor, progress, press, keep_going)
        return out, [run.output for run in remote], interrupted
    with watched(progress.compiling), holding_interrupts() as press, press.raising():
        Process.compile_kernel()  # here, because Ctrl-C reaches the main thread alone
    runs = [ChainRun(task, out[k]) for k, task in enumerate(tasks)]
    if on_start is not None:
        on_start(runs)
    workers = min(len(runs), cores or os.cpu_count() or 1)
    with _blas_limit(blas_threads), holding_interrupts() as press:
        outputs = _run_here(runs, workers, progress, press, keep_going)
    return out, outputs, any(run.aborted.is_set() for run in runs)


def _run_here(
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
                ended.put((k, runs[k].run()))

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
        found = _collect_outputs(runs, ended, display, press, stop, keep_going)
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
    keep_going: bool,
) -> dict[int, ChainOutput]:
    """Show the progress until all chains have ended; one that fails, or Ctrl-C, stops them."""
    found: dict[int, ChainOutput] = {}
    stopped = math.inf
    # What is new must reach a store.
    patience = STOP_SECONDS if runs[0].task.store is None else GRACE_SECONDS
    while len(found) < len(runs) and time.monotonic() < stopped + patience:
        with contextlib.suppress(queue.Empty):
            k, output = ended.get(timeout=POLL_SECONDS)
            found[k] = output
            if output.error is not None and not keep_going:
                runs[k].abort()
        if stopped == math.inf and (press.is_set() or any(r.aborted.is_set() for r in runs)):
            stop()
            stopped = time.monotonic()
        display.update(run.progress() for run in runs)
    return found


class _QuietBlas:
    """One thread per chain for the matrices of its warm-up. More threads than cores wait for each
    other, many times as long as they work; and how a sum is shared out changes its last bits.

    The limit is that of the process: it holds until the last of those who asked for it has ended.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._limits = threading.Lock(), 0, contextlib.ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limits.enter_context(threadpool_limits(1, user_api="blas"))
            self._users += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limits.close()


_quiet_blas = _QuietBlas()


def _blas_limit(threads: int | None) -> contextlib.AbstractContextManager:
    """That many threads for the BLAS of the process while chains run; None: as it is."""
    if threads == 1:
        return _quiet_blas
    return contextlib.nullcontext() if threads is None else threadpool_limits(threads, "blas")


# ------------------------------------------------------------------- on an executor


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
    target, settings = shipped.value
    task = replace(task, target=target, settings=settings)
    run = ChainRun(task, np.empty((task.draws, target.ndim)))
    with _quiet_blas, reporting(link, k, run.progress, run.abort):
        return run.run()


def _run_elsewhere(
    runs: list[RemoteRun], executor: Any, display: Progress, press: Press, keep_going: bool
) -> bool:
    """All chains on an executor; says whether they were interrupted."""
    # What chains share is sent, and compiled there, once per worker.
    shared = {id(r.task.target): Shipped((r.task.target, r.task.settings)) for r in runs}
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
    until = math.inf
    while calls.waiting and time.monotonic() < until:
        for k, output, error in calls.ended(POLL_SECONDS):
            runs[k].end(output, error)
            if output is not None and output.error is not None and not keep_going:
                runs[k].abort()
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


# ------------------------------------------------------------------ collecting


def run_tasks(
    tasks: list[ChainTask],
    settings: Settings,
    seed: Any,
    *,
    cores: int | None,
    blas_threads: int | None = 1,
    progress: Progress,
    executor: Any = None,
    on_start: Callable[[Sequence[ChainRun | RemoteRun]], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Run chains and collect what they made.

    Parameters
    ----------
    tasks : list of ChainTask
        One per chain.
    settings : Settings
        The user's, for the record.
    seed : object
        Likewise.
    progress : Progress
        Shows how far the chains are, and what came of them; closed by its owner.
    cores, executor, on_start
        See `run_chains`.
    blas_threads : int, optional
        Threads of BLAS; None leaves them as they are.
    checkpoint : Checkpoint, optional
        Where the chains write what they need to go on, and go on from.

    Returns
    -------
    Result
        Without a diagnosis; see `diagnostics.diagnose`.

    Raises what a chain raised, with the draws so far in the attribute `result` of the exception;
    and KeyboardInterrupt if the run was cut short before there was anything to keep.
    """
    began = time.perf_counter()
    with _with_files(tasks, checkpoint) as tasks:
        out, outputs, interrupted = run_chains(
            tasks,
            cores=cores,
            blas_threads=blas_threads,
            progress=progress,
            executor=executor,
            on_start=on_start,
        )
    errors = [(k, o.error) for k, o in enumerate(outputs) if o.error is not None]
    kept = longest_rectangle([o.made for o in outputs])
    if not kept:  # then keep the warm-up, where it was asked for or is all that there is to show
        kept = longest_rectangle([len(o.warmup.draws) for o in outputs])
    result = None
    if kept:
        result = _collect(out, outputs, kept, tasks, settings, seed)
        result.interrupted = interrupted
    if errors:
        k, error = errors[0]
        note = f"Raised in chain {tasks[k].number}, {_how_far(outputs[k], tasks[k])}."
        if result is not None:
            note += " What the chains had drawn is in the attribute `result` of this exception."
        error.add_note(note)
        error.result = result  # type: ignore[attr-defined]
        raise error
    if interrupted and result is None:
        raise KeyboardInterrupt
    assert result is not None
    if interrupted:
        made = result.draws.shape[1] if result.stored is None else result.stored
        what = f"{made} draws" if made else f"no draws, but {_warmup_length(result)} of the warm-up"
        result.warnings.append(f"Interrupted: {what}, of {len(kept)} chains, are kept.")
    if result.rerun:
        chains = ", ".join(map(str, result.rerun))
        result.warnings.append(
            f"A worker died: chains that it was at were run again elsewhere, with the same draws "
            f"({chains})."
        )
    if progress.enabled and result.stored is None:
        progress.finish(closing_line(result, time.perf_counter() - began))
    return result


def with_store(
    tasks: list[ChainTask],
    store: Store,
    checkpoint: Checkpoint | None,
    groups: Mapping[str, Group],
    variables: Callable[[np.ndarray], Mapping[str, np.ndarray]],
) -> list[ChainTask]:
    """The tasks with their parts of a store, which is made unless a run goes on.

    Parameters
    ----------
    tasks : list of ChainTask
        One per chain.
    store : Store
        Where to.
    checkpoint : Checkpoint, optional
        Of the run.
    groups : mapping of str to Group
        What is stored.
    variables : callable
        (n, d) draws -> mapping of names to (n, ...) arrays, for the posterior.
    """
    is_begun = checkpoint is not None and checkpoint.is_begun
    if checkpoint is not None and (store.exists or is_begun):
        store.check(len(tasks), tasks[0].draws, is_begun=is_begun)
    else:
        store.create(groups, [task.number for task in tasks], tasks[0].draws)
    chunk = store.chunk
    return [
        replace(task, store=ChainStore(store.path, k, chunk, variables))
        for k, task in enumerate(tasks)
    ]


def check_store(
    store: Any, *, keep_warmup: bool, jumps: Any, executor: Any, store_divergences: bool = False
) -> Store | None:
    """The store that is asked for; raises if something does not go with it."""
    if store is None:
        return None
    given = {"a warm-up that is kept": keep_warmup, "jumps=": jumps, "executor=": executor}
    given["store_divergences="] = store_divergences
    wrong = [name for name, value in given.items() if value is not None and value is not False]
    if wrong:
        raise SettingsError(f"store= does not go with {' or '.join(wrong)}.")
    return Store(store)


def finish_store(store: Store, result: Result) -> None:
    """Note in the store what is known in the end."""
    is_whole = len(result.chains) == store.chains
    whole = result.attributes()
    of_groups = {"posterior": whole, "sample_stats": whole | result.warmup_attributes()}
    store.finish(result.stored if is_whole else None, of_groups)


@contextlib.contextmanager
def _with_files(tasks: list[ChainTask], checkpoint: Checkpoint | None) -> Iterator[list[ChainTask]]:
    """The tasks with the files of a checkpoint, which is theirs alone meanwhile."""
    if checkpoint is None:
        yield tasks
        return
    with checkpoint.open(_asked(tasks), len(tasks)) as files:
        yield [replace(task, files=mine) for task, mine in zip(tasks, files, strict=True)]


def _asked(tasks: list[ChainTask]) -> dict[str, Any]:
    """What a run is asked for, but for the number of draws, as plain data."""
    task = tasks[0]
    return {
        "dimensions": task.target.ndim,
        "names": list(task.target.names),
        "tune": int(task.tune),
        "chains": len(tasks),
        "keep_warmup": bool(task.keep_warmup),
        "jumps": bool(task.record),
        "settings": _plain_settings(task.settings),
        "seed": [save([t.seed.entropy, list(t.seed.spawn_key)]) for t in tasks],
        "start": [save([t.region, t.initial]) for t in tasks],
        "warm_start": [save(t.tuned) for t in tasks],
        "store": task.store is not None,
    }


def _plain_settings(settings: Settings) -> dict[str, Any]:
    values = {f.name: getattr(settings, f.name) for f in fields(settings)}
    if callable(settings.rates):  # told by its values
        values["rates"] = [float(settings.rates(t)) for t in (0.1, 0.5, 1.0, 3.0)]
    return save(values)


def extend(result: Result, tasks: list[ChainTask], draws: int, **how: Any) -> Result:
    """More draws of the same chains, from where they are.

    Parameters
    ----------
    result : Result
        What they made so far.
    tasks : list of ChainTask
        Those of the run.
    draws : int
        More of each chain.
    **how
        See `run_tasks`.

    Returns
    -------
    Result
        All draws, those of a run that was asked for as many at once.
    """
    check_counts(draws=draws)
    if result.stored is not None:
        raise SettingsError("A store has the length that it was made with, and is not extended.")
    if result.ends is None:
        raise RuntimeError(
            "The chains cannot go on: the run was interrupted, or the result was copied or "
            "unpickled. With checkpoint= a run goes on after anything."
        )
    of_chain = {task.number: task for task in tasks}
    more = [
        replace(of_chain[k], draws=draws, state=end._replace(made=0, acceptance=accepted))
        for k, end, accepted in zip(
            result.chains, result.ends, result.stats["acceptance_rate"][:, -1], strict=True
        )
    ]
    try:
        return _joined(result, run_tasks(more, result.settings, result.seed, **how))
    except BaseException as error:
        if getattr(error, "result", None) is not None:
            error.result = _joined(result, error.result)  # type: ignore[attr-defined]
        raise


def warm_started(tasks: list[ChainTask], result: Result, *, move: bool = True) -> list[ChainTask]:
    """The tasks with what the chains of a result ended with, instead of a warm-up of their own.

    Parameters
    ----------
    tasks : list of ChainTask
        Of the new run.
    result : Result
        Of another one.
    move : bool
        Whether they start at its last draws.
    """
    if not isinstance(result, Result):
        raise SettingsError(f"warm_start is a Result, not {type(result).__name__}.")
    if result.draws.shape[1] == 0:
        raise SettingsError("warm_start has no draws: its warm-up did not end.")
    d, ndim = result.draws.shape[2], tasks[0].target.ndim
    if d != ndim:
        raise SettingsError(f"warm_start has {d} dimensions, and the density has {ndim}.")
    started = []
    for task in tasks:
        k = task.number % len(result.tuned)
        task = replace(task, tuned=result.tuned[k])
        if move:
            task = replace(task, region=Region(result.draws[k, -1].copy(), 0.0), initial=None)
        started.append(task)
    return started


def _joined(result: Result, more: Result) -> Result:
    """Both, of the chains that are in the second."""
    at = [result.chains.index(k) for k in more.chains]
    stats = {name: array[at] for name, array in result.stats.items()}
    later = more.stats | {"divergences": more.stats["divergences"] + stats["divergences"][:, -1:]}
    jumps = None
    if result.jumps is not None and more.jumps is not None:
        before = [result.jumps[k] for k in at]
        jumps = [
            {name: np.concatenate([one[name], two[name]]) for name in one}
            for one, two in zip(before, more.jumps, strict=True)
        ]
    return replace(
        result,
        draws=np.concatenate([result.draws[at], more.draws], axis=1),
        stats={name: np.concatenate([stats[name], later[name]], axis=1) for name in stats},
        tuned=more.tuned,
        warmup_gradients=result.warmup_gradients[at],
        chains=more.chains,
        warmup_draws=None if result.warmup_draws is None else result.warmup_draws[at],
        warmup_stats=None
        if result.warmup_stats is None
        else {name: array[at] for name, array in result.warmup_stats.items()},
        jumps=jumps,
        warmup_windows=more.warmup_windows,
        interrupted=more.interrupted,
        rerun=sorted({*result.rerun, *more.rerun}),
        warnings=list(more.warnings),
        ends=more.ends,
    )


def _how_far(output: ChainOutput, task: ChainTask) -> str:
    made = output.made
    if made == 0 and task.tune > 0 and output.warmup_made < task.tune:
        return f"after {output.warmup_made} of {task.tune} draws of its warm-up"
    return f"after {made} of {task.draws} draws"


def _warmup_length(result: Result) -> int:
    return 0 if result.warmup_draws is None else result.warmup_draws.shape[1]


def _collect(out, outputs, kept, tasks: list[ChainTask], settings, seed) -> Result:
    task = tasks[0]
    length = min(len(outputs[k].rows.draws) for k in kept)
    tuned = [outputs[k].tuned for k in kept]
    stored = None if task.store is None else min(outputs[k].made for k in kept)
    if stored is not None:
        draws = np.stack([outputs[k].rows.draws[:length] for k in kept])
    elif len(kept) == len(outputs) and length == out.shape[1]:
        draws = out
    else:
        draws = np.array(out[kept, :length])
    acceptance = [outputs[k].acceptance for k in kept]
    stats = stats_of([outputs[k].rows.until(length) for k in kept], acceptance)
    result = Result(
        draws=draws,
        stats=stats,
        tuned=tuned,
        settings=settings,
        seed=seed,
        names=task.target.names,
        tune=task.tune,
        warmup_gradients=np.array([outputs[k].warmup_gradients for k in kept]),
        chains=[tasks[k].number for k in kept],
        rerun=[tasks[k].number for k, output in enumerate(outputs) if output.is_rerun],
        jumps=[outputs[k].jumps for k in kept] if task.record else None,
        warmup_windows=[outputs[k].windows for k in kept],
        stored=stored,
        ends=None if any(outputs[k].end is None for k in kept) else [outputs[k].end for k in kept],
    )
    length = min(len(outputs[k].warmup.draws) for k in kept)
    if (task.keep_warmup or length) and task.state is None:
        warmup = [outputs[k].warmup.until(length) for k in kept]
        result.warmup_draws = np.stack([rows.draws for rows in warmup])
        result.warmup_stats = stats_of(warmup, [math.nan] * len(kept), is_warmup=True)
    if task.store_divergences:
        _add_divergence_start(result, [outputs[k].divergence_start for k in kept])
    return result


def _add_divergence_start(result: Result, starts: Sequence[np.ndarray | None]) -> None:
    """Where each diverging step began, as a statistic (chain, draw, d); that of a warm-up is not
    known.
    """
    for stats, draws in (
        (result.stats, result.draws),
        (result.warmup_stats, result.warmup_draws),
    ):
        if stats is not None and draws is not None:
            stats["divergence_start"] = np.full(draws.shape, np.nan)
    for row, start in zip(result.stats["divergence_start"], starts, strict=True):
        if start is not None:
            row[...] = start[: len(row)]


def stats_of(
    chains: Sequence[Rows], acceptance: Sequence[float], *, is_warmup: bool = False
) -> dict[str, np.ndarray]:
    """Statistics by name, each (chain, draw), of chains of one length; see `stats.by_name`."""
    named: dict[str, np.ndarray] = {}
    for k, (rows, known) in enumerate(zip(chains, acceptance, strict=True)):
        # One chain at a time: they take more memory than the draws in few dimensions.
        columns = (array[None] for array in (rows.stats, rows.tuned, rows.times))
        mine = by_name(*columns, acceptance=np.array([known]), is_warmup=is_warmup)
        for name, values in mine.items():
            if name not in named:
                named[name] = np.empty((len(chains), values.shape[1]), values.dtype)
            named[name][k] = values[0]
    return named
