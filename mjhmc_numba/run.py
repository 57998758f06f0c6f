"""Chains on threads or on an executor: seeds, progress, interruption, and what they made."""

from __future__ import annotations

import concurrent.futures as futures
import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mjhmc_numba.density import Target
from mjhmc_numba.diagnostics import closing_line
from mjhmc_numba.errors import MemoryRequestError, SettingsError
from mjhmc_numba.executors import CANCELLED, Calls, Reports, Shipped, reporting
from mjhmc_numba.initial import Region, find_start
from mjhmc_numba.kernel.layout import DENSITY_RAISED, INTERRUPTED, RECORD_FULL
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.process import Process, Visits, random_words
from mjhmc_numba.progress import ChainProgress, Progress
from mjhmc_numba.results import Result
from mjhmc_numba.settings import Settings
from mjhmc_numba.stats import COLUMN, WIDTH, Rows, by_name
from mjhmc_numba.tuned import Tuned, WarmupWindow
from mjhmc_numba.warmup import Tuner
from mjhmc_numba.warmup.first import first_guess, run_untuned

__all__ = [
    "ChainRun",
    "ChainTask",
    "chain_seeds",
    "check_memory",
    "child_seed",
    "longest_rectangle",
    "root_seed",
    "run_tasks",
    "stats_of",
]

POLL_SECONDS = 0.05
GRACE_SECONDS = 5.0  # that chains on an executor have to stop, before they are left to it
RECORD_ROWS = 4096
NUMBERS_AT_ONCE = 1 << 19  # of the draws of a warm-up that are not kept: 4 MB


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


def check_memory(ndim: int, draws: int, warmup: int, chains: int) -> None:
    """Refuse an output that cannot fit, before anything is allocated."""
    size = 8 * chains * (draws + warmup) * (ndim + WIDTH)
    try:
        have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return
    if size > 0.9 * have:
        raise MemoryRequestError(
            f"The draws would take {size / 1e9:.1f} GB; this machine has {have / 1e9:.1f} GB. "
            "Ask for fewer draws or chains."
        )


@dataclass
class ChainTask:
    """All that one chain needs; can be pickled if the target can."""

    target: Target
    settings: Settings
    draws: int
    tune: int
    seed: np.random.SeedSequence
    region: Region
    initial: np.ndarray | None = None  # a start that has been found in it
    keep_warmup: bool = False
    record: bool = False


@dataclass
class ChainOutput:
    """What one chain made: rows that were finished, however it ended."""

    rows: Rows
    warmup: Rows
    acceptance: float = math.nan  # the last that was known in the warm-up
    warmup_gradients: int = 0
    tuned: Tuned | None = None
    jumps: dict[str, np.ndarray] | None = None
    error: BaseException | None = None
    windows: list[WarmupWindow] = field(default_factory=list)
    is_rerun: bool = False  # because the worker died that it ran on first


@dataclass
class ChainRun:
    """A chain that is running, watched from another thread."""

    task: ChainTask
    out: np.ndarray  # (draws, d), filled in place
    process: Process | None = None
    warmup_made: int = 0
    made: int = 0
    sampling: bool = False
    finished: bool = False
    aborted: threading.Event = field(default_factory=threading.Event)

    # ---------------------------------------------------------------- the chain

    def run(self) -> ChainOutput:
        """Warm up and sample. Errors are returned with what was made before them."""
        task = self.task
        self.rows = Rows.empty(task.draws, task.target.ndim, self.out)
        self.warmup = Rows.empty(task.tune if task.keep_warmup else 0, task.target.ndim)
        self.acceptance = math.nan
        self.parts: list[Visits] = []
        self.windows: list[WarmupWindow] = []
        self.warmup_gradients = 0
        error: BaseException | None = None
        try:
            if not self.aborted.is_set():
                self._warm_up()
            if not self.aborted.is_set():
                self._sample()
        except BaseException as raised:
            error = raised
        self.finished = True
        kept = self.warmup_made if task.keep_warmup else 0
        return ChainOutput(
            self.rows.until(self.made),
            self.warmup.until(kept),
            self.acceptance,
            self.warmup_gradients,
            self.process.tuned if self.process else None,
            self._jumps(),
            error,
            self.windows,
        )

    def _warm_up(self) -> None:
        task = self.task
        rng = np.random.default_rng(task.seed.spawn(1)[0])
        x, tries = task.initial, 1
        if x is None:
            x, tries = find_start(task.target, task.region, rng)
        self.process = Process(
            task.target,
            task.settings,
            first_guess(task.settings, task.target.ndim),
            random_words(task.seed),
            record=RECORD_ROWS if task.record else 0,
        )
        self.process.start(x)
        if task.tune > 0:
            tuner = Tuner(task.settings, task.target.ndim, task.tune, rng, task.region)
            tuner.begin(self.process)
            self._tune(tuner)
            if self.aborted.is_set():
                return
        else:
            run_untuned(self.process, task.settings)
        self.warmup_gradients = tries + self.process.progress().gradients
        self.process.count_anew()

    def _tune(self, tuner: Tuner) -> None:
        """The draws of the warm-up: whole windows in the kernel, and the tuner between them."""
        task, process = self.task, self.process
        assert process is not None
        most = max(1, NUMBERS_AT_ONCE // task.target.ndim)
        spare = Rows.empty(0 if task.keep_warmup else min(most, task.tune), task.target.ndim)
        while self.warmup_made < task.tune:
            n = min(tuner.draws_ahead, task.tune - self.warmup_made, most)
            first = self.warmup_made if task.keep_warmup else 0
            rows = self.warmup if task.keep_warmup else spare
            part = slice(first, first + n)
            rows.note_tuned(part, process.tuned)
            began, cpu = time.perf_counter(), time.thread_time()
            made = self._fill(rows.draws[part], rows.stats[part])
            self.warmup_made += made
            rates = rows.stats[first : first + made, COLUMN["acceptance_rate"]]
            self.acceptance = float(np.append(self.acceptance, rates[np.isfinite(rates)])[-1])
            rows.note_times(part, began, time.perf_counter() - began, time.thread_time() - cpu)
            if made:
                self._note_window(rows.stats[first : first + made])
            if self.aborted.is_set():
                return
            tuner.update(process, n)
            process.clear_record()

    def _note_window(self, stats: np.ndarray) -> None:
        """Write down what some draws of the warm-up were made with; `stats` are theirs."""
        assert self.process is not None
        rates = stats[:, COLUMN["acceptance_rate"]]
        rates = rates[np.isfinite(rates)]
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
            log_density=float(np.median(stats[:, COLUMN["lp"]])),
            acceptance_rate=float(rates.mean()) if rates.size else math.nan,
        )
        self.windows.append(window)

    def _sample(self) -> None:
        assert self.process is not None
        self.rows.note_tuned(slice(None), self.process.tuned)
        self.block = 0, time.perf_counter()
        self.sampling = True
        try:
            self._fill(self.out, self.rows.stats, count=True)
        finally:
            self._empty_record(keep=True)

    def _fill(self, draws: np.ndarray, stats: np.ndarray, count: bool = False) -> int:
        """Fill all rows, emptying the jump record whenever it is full; returns how many were."""
        process, row = self.process, 0
        assert process is not None
        while row < len(draws):
            cpu = time.thread_time()
            if count:
                self.block = row, time.perf_counter()
            n, status = process.run(draws[row:], stats[row:])
            row += n
            if count:
                self._note_block(row, time.thread_time() - cpu)
                self.made = row
            if status == RECORD_FULL:
                self._empty_record(keep=count)
            elif status == DENSITY_RAISED:
                raise process.error()
            elif status == INTERRUPTED:
                self.aborted.set()
                break
        return row

    def _note_block(self, end: int, cpu_seconds: float) -> None:
        """Times of the draws that one call of the kernel made."""
        first, began = self.block
        seconds = time.perf_counter() - began
        self.rows.note_times(slice(first, end), began, seconds, cpu_seconds)

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

    # ---------------------------------------------------------------- watching

    def abort(self) -> None:
        """Stop at the next event; from any thread."""
        self.aborted.set()
        if self.process is not None:
            self.process.abort()

    def rows_so_far(self) -> Rows:
        """Rows that are finished; from any thread. The draws are views."""
        if not self.sampling or self.process is None:
            return Rows.empty(0, self.out.shape[1])
        made, (first, began) = self.process.progress().draws, self.block
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
            return ChainProgress(0, total)
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


def run_chains(
    tasks: list[ChainTask],
    *,
    cores: int | None,
    progress: Progress,
    executor: Any = None,
    on_start: Callable[[Sequence[ChainRun | RemoteRun]], None] | None = None,
) -> tuple[np.ndarray, list[ChainOutput], bool]:
    """Run all chains; returns (draws (chain, draw, d), outputs, interrupted).

    `on_start` gets the chains before they run, to look at them or to abort them from another
    thread.
    """
    d, draws = tasks[0].target.ndim, tasks[0].draws
    out = np.empty((len(tasks), draws, d))
    if executor is not None:
        remote = [RemoteRun(task, out[k]) for k, task in enumerate(tasks)]
        if on_start is not None:
            on_start(remote)
        interrupted = _run_elsewhere(remote, executor, progress)
        return out, [run.output for run in remote], interrupted
    with watched(progress.compiling):
        Process.compile_kernel()  # here, because Ctrl-C reaches the main thread alone
    runs = [ChainRun(task, out[k]) for k, task in enumerate(tasks)]
    if on_start is not None:
        on_start(runs)
    workers = min(len(runs), cores or os.cpu_count() or 1)
    waiting: list[futures.Future] = []
    with (
        _quiet_blas,
        futures.ThreadPoolExecutor(workers, thread_name_prefix="mjhmc") as pool,
    ):
        try:
            waiting.extend(pool.submit(run.run) for run in runs)
            _watch(runs, waiting, progress)
        except BaseException as error:  # the pool waits for its threads, so they must end
            for run in runs:
                run.abort()
            if not isinstance(error, KeyboardInterrupt):
                raise
    # Chains that an interrupt kept from being submitted are aborted, so they end at once.
    outputs = [f.result() for f in waiting] + [run.run() for run in runs[len(waiting) :]]
    return out, outputs, any(run.aborted.is_set() for run in runs)


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


def _watch(runs, waiting, display: Progress) -> None:
    """Show the progress until all chains have ended, or one has failed."""
    pending = set(waiting)
    while pending:
        ended, pending = futures.wait(pending, POLL_SECONDS, futures.FIRST_COMPLETED)
        display.update([run.progress() for run in runs])
        if any(f.result().error is not None for f in ended):
            for run in runs:
                run.abort()


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
            is_cancelled = isinstance(error, CANCELLED) and self.aborted.is_set()
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


def _run_elsewhere(runs: list[RemoteRun], executor: Any, display: Progress) -> bool:
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
            _watch_elsewhere(runs, calls, reports, display)
        except KeyboardInterrupt:
            for run in runs:
                run.abort()
            _watch_elsewhere(runs, calls, reports, display)
        finally:
            calls.close()
    for k in calls.rerun | reports.started_again:
        runs[k].output.is_rerun = True
    return any(run.aborted.is_set() for run in runs)


def _without_target(task: ChainTask) -> ChainTask:
    return replace(task, target=None, settings=None)  # type: ignore[arg-type]


def _watch_elsewhere(
    runs: list[RemoteRun], calls: Calls, reports: Reports, display: Progress
) -> None:
    """Collect the chains as they end, and show how far they are. One that raises ends the others;
    one that is lost with its worker does not.
    """
    stopped = math.inf
    while calls.waiting and time.monotonic() < stopped + GRACE_SECONDS:
        for k, output, error in calls.ended(POLL_SECONDS):
            runs[k].end(output, error)
            if output is not None and output.error is not None:
                runs[k].abort()
        if stopped == math.inf and any(run.aborted.is_set() for run in runs):
            stopped = time.monotonic()
            for run in runs:
                run.abort()
            calls.cancel()
            reports.stop()
        reports.read()
        for k, run in enumerate(runs):
            run.report = reports.progress(k)
        display.update([run.progress() for run in runs])


# ------------------------------------------------------------------ collecting


def run_tasks(
    tasks: list[ChainTask],
    settings: Settings,
    seed: Any,
    *,
    cores: int | None,
    progress: Progress,
    executor: Any = None,
    on_start: Callable[[Sequence[ChainRun | RemoteRun]], None] | None = None,
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

    Returns
    -------
    Result
        Without a diagnosis; see `diagnostics.diagnose`.

    Raises what a chain raised, with the draws so far in the attribute `result` of the exception;
    and KeyboardInterrupt if the run was cut short before there was anything to keep.
    """
    began = time.perf_counter()
    out, outputs, interrupted = run_chains(
        tasks, cores=cores, progress=progress, executor=executor, on_start=on_start
    )
    errors = [(k, o.error) for k, o in enumerate(outputs) if o.error is not None]
    kept = longest_rectangle([len(o.rows.draws) for o in outputs])
    if not kept:  # then keep the warm-up, where it was asked for
        kept = longest_rectangle([len(o.warmup.draws) for o in outputs])
    result = None
    if kept:
        result = _collect(out, outputs, kept, tasks[0], settings, seed)
        result.interrupted = interrupted
    if errors:
        k, error = errors[0]
        note = f"Raised in chain {k}, after {len(outputs[k].rows.draws)} of {tasks[k].draws} draws."
        if result is not None:
            note += " What the chains had drawn is in the attribute `result` of this exception."
        error.add_note(note)
        error.result = result  # type: ignore[attr-defined]
        raise error
    if interrupted and result is None:
        raise KeyboardInterrupt
    assert result is not None
    if interrupted:
        made = result.draws.shape[1]
        what = f"{made} draws" if made else f"no draws, but {_warmup_length(result)} of the warm-up"
        result.warnings.append(f"Interrupted: {what}, of {len(kept)} chains, are kept.")
    if result.rerun:
        chains = ", ".join(map(str, result.rerun))
        result.warnings.append(
            f"A worker died: chains that it was at were run again elsewhere, with the same draws "
            f"({chains})."
        )
    if progress.enabled:
        progress.finish(closing_line(result, time.perf_counter() - began))
    return result


def longest_rectangle(lengths: list[int]) -> list[int]:
    """The chains to keep of a run that was cut short: as many draws in all as can be had with
    equal lengths.
    """
    order = sorted(range(len(lengths)), key=lambda k: -lengths[k])
    sizes = [lengths[k] * (place + 1) for place, k in enumerate(order)]
    if not sizes or max(sizes) == 0:
        return []
    return sorted(order[: int(np.argmax(sizes)) + 1])


def _warmup_length(result: Result) -> int:
    return 0 if result.warmup_draws is None else result.warmup_draws.shape[1]


def _collect(out, outputs, kept, task: ChainTask, settings, seed) -> Result:
    length = min(len(outputs[k].rows.draws) for k in kept)
    tuned = [outputs[k].tuned for k in kept]
    whole = len(kept) == len(outputs) and length == out.shape[1]
    draws = out if whole else np.array(out[kept, :length])
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
        chains=kept,
        rerun=[k for k, output in enumerate(outputs) if output.is_rerun],
        jumps=[outputs[k].jumps for k in kept] if task.record else None,
        warmup_windows=[outputs[k].windows for k in kept],
    )
    if task.keep_warmup:
        length = min(len(outputs[k].warmup.draws) for k in kept)
        warmup = [outputs[k].warmup.until(length) for k in kept]
        result.warmup_draws = np.stack([rows.draws for rows in warmup])
        result.warmup_stats = stats_of(warmup, [math.nan] * len(kept), is_warmup=True)
    return result


def stats_of(
    chains: Sequence[Rows], acceptance: Sequence[float], *, is_warmup: bool = False
) -> dict[str, np.ndarray]:
    """Statistics by name, each (chain, draw), of chains of one length; see `stats.by_name`."""
    columns = [np.stack([rows[j] for rows in chains]) for j in (1, 2, 3)]
    return by_name(*columns, acceptance=np.array(acceptance), is_warmup=is_warmup)
