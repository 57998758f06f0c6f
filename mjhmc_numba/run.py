"""Chains on threads or on an executor: seeds, progress, interruption, and what they made."""

from __future__ import annotations

import concurrent.futures as futures
import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mjhmc_numba.errors import MemoryRequestError, SettingsError
from mjhmc_numba.initial import Region, find_start
from mjhmc_numba.kernel.layout import DENSITY_RAISED, INTERRUPTED, RECORD_FULL, STAT_NAMES
from mjhmc_numba.process import Process, random_words
from mjhmc_numba.progress import ChainProgress, Progress
from mjhmc_numba.results import Result, stats_from_rows
from mjhmc_numba.settings import Settings, Tuned
from mjhmc_numba.target import Target
from mjhmc_numba.warmup import Tuner
from mjhmc_numba.warmup.tuner import first_guess

__all__ = [
    "ChainRun",
    "ChainTask",
    "chain_seeds",
    "check_memory",
    "child_seed",
    "longest_rectangle",
    "root_seed",
    "run_tasks",
]

POLL_SECONDS = 0.05
RECORD_ROWS = 4096

# What the warm-up changes from draw to draw.
TUNED_NAMES = ("step_size", "refresh_rate", "num_steps", "draw_interval")


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
    size = 8 * chains * (draws + warmup) * (ndim + len(STAT_NAMES))
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
    refresh_probability: float | None = None  # discrete-time HMC instead of the jump process


@dataclass
class ChainOutput:
    """What one chain made: rows that were finished, however it ended."""

    draws: np.ndarray
    stats: np.ndarray
    warmup_draws: np.ndarray
    warmup_stats: np.ndarray
    warmup_tuned: np.ndarray  # (warm-up draw, len(TUNED_NAMES)): what it was made with
    warmup_gradients: int = 0
    tuned: Tuned | None = None
    jumps: dict[str, np.ndarray] | None = None
    error: BaseException | None = None


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
        width = len(STAT_NAMES)
        self.stats = np.empty((task.draws, width))
        kept = task.tune if task.keep_warmup else 0
        self.warmup_draws = np.empty((kept, task.target.ndim))
        self.warmup_stats = np.empty((kept, width))
        self.warmup_tuned = np.empty((kept, len(TUNED_NAMES)))
        self.parts: list[tuple[np.ndarray, ...]] = []
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
            self.out[: self.made],
            self.stats[: self.made],
            self.warmup_draws[:kept],
            self.warmup_stats[:kept],
            self.warmup_tuned[:kept],
            self.warmup_gradients,
            self.process.tuned if self.process else None,
            self._jumps(),
            error,
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
            draw, stats = np.empty((1, x.size)), np.empty((1, len(STAT_NAMES)))
            for k in range(task.tune):
                if task.keep_warmup:
                    self.warmup_tuned[k] = [getattr(self.process.tuned, n) for n in TUNED_NAMES]
                self._fill(draw, stats, 0)
                if self.aborted.is_set():
                    return
                tuner.update(self.process, stats[0])
                self.process.state["recorded"] = 0
                if task.keep_warmup:
                    self.warmup_draws[k], self.warmup_stats[k] = draw[0], stats[0]
                self.warmup_made = k + 1
        self.warmup_gradients = tries + int(self.process["all_gradients"])
        self.process.state["all_divergences"] = 0
        self.process.state["done"] = 0
        self.process.state["n_steps"] = 0

    def _sample(self) -> None:
        self.sampling = True
        try:
            self._fill(self.out, self.stats, 0, count=True)
        finally:
            self._empty_record(keep=True)

    def _fill(self, draws, stats, row: int, count: bool = False) -> None:
        """Fill all rows, emptying the jump record whenever it is full."""
        process = self.process
        assert process is not None
        while row < len(draws):
            if self.task.refresh_probability is not None and count:
                n, status = process.run_control(
                    draws[row:], stats[row:], self.task.refresh_probability
                )
            else:
                n, status = process.run(draws[row:], stats[row:])
            row += n
            if count:
                self.made = row
            if status == RECORD_FULL:
                self._empty_record(keep=count)
            elif status == DENSITY_RAISED:
                raise process.error()
            elif status == INTERRUPTED:
                self.aborted.set()
                return

    def _empty_record(self, keep: bool) -> None:
        process = self.process
        assert process is not None
        n = int(process["recorded"])
        if keep and n:
            arrays = (process.record_x, process.record_holding, process.record_event)
            self.parts.append(tuple(a[:n].copy() for a in arrays))
        process.state["recorded"] = 0

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

    def draws_so_far(self) -> tuple[np.ndarray, np.ndarray]:
        """Draws and rows of statistics that are finished (views); from any thread."""
        if not self.sampling or self.process is None:
            return self.out[:0], np.empty((0, len(STAT_NAMES)))
        made = int(self.process["done"])
        return self.out[:made], self.stats[:made]

    def progress(self) -> ChainProgress:
        """How far the chain is."""
        task, process = self.task, self.process
        total = task.tune + task.draws
        if process is None:
            return ChainProgress(0, total)
        warming = not self.sampling
        done = self.warmup_made if warming else task.tune + int(process["done"])
        phase = "done" if self.finished else "warmup" if warming else "draws"
        return ChainProgress(
            done,
            total,
            phase,
            0 if warming else int(process["all_divergences"]),
            float(process["step_size"]),
            int(process["all_gradients"]),
            done,
        )


def _run_task(task: ChainTask) -> ChainOutput:
    """One chain in another process."""
    with _quiet_blas():
        return ChainRun(task, np.empty((task.draws, task.target.ndim))).run()


def run_chains(
    tasks: list[ChainTask],
    *,
    cores: int | None,
    progress: bool,
    executor: Any = None,
    on_start: Callable[[list[ChainRun]], None] | None = None,
) -> tuple[np.ndarray, list[ChainOutput], bool]:
    """Run all chains; returns (draws (chain, draw, d), outputs, interrupted).

    `on_start` gets the chains before they run, to look at them or to abort them from another
    thread.
    """
    d, draws = tasks[0].target.ndim, tasks[0].draws
    out = np.empty((len(tasks), draws, d))
    if executor is not None:
        outputs = _run_elsewhere(tasks, executor)
        for k, output in enumerate(outputs):
            out[k, : len(output.draws)] = output.draws
        return out, outputs, False
    runs = [ChainRun(task, out[k]) for k, task in enumerate(tasks)]
    if on_start is not None:
        on_start(runs)
    workers = min(len(runs), cores or os.cpu_count() or 1)
    waiting: list[futures.Future] = []
    with (
        _quiet_blas(),
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


def _quiet_blas() -> contextlib.AbstractContextManager:
    """One thread per chain for the matrices of its warm-up. More threads than cores wait for each
    other, many times as long as they work; and how a sum is shared out changes its last bits.
    """
    return threadpool_limits(1, user_api="blas")


def _run_elsewhere(tasks: list[ChainTask], executor: Any) -> list[ChainOutput]:
    """All chains on an executor. One that is lost with its worker leaves the others alone."""
    waiting = [executor.submit(_run_task, task) for task in tasks]
    outputs = []
    for task, future in zip(tasks, waiting, strict=True):
        try:
            outputs.append(future.result())
        except Exception as error:
            nothing, no_stats = np.empty((0, task.target.ndim)), np.empty((0, len(STAT_NAMES)))
            no_tuned = np.empty((0, len(TUNED_NAMES)))
            outputs.append(ChainOutput(nothing, no_stats, nothing, no_stats, no_tuned, error=error))
    return outputs


def _watch(runs, waiting, enabled: bool) -> None:
    """Show the progress until all chains have ended, or one has failed."""
    total = runs[0].task.tune + runs[0].task.draws
    with Progress(len(runs), total, enabled=enabled) as display:
        pending = set(waiting)
        while pending:
            ended, pending = futures.wait(pending, POLL_SECONDS, futures.FIRST_COMPLETED)
            display.update([run.progress() for run in runs])
            if any(f.result().error is not None for f in ended):
                for run in runs:
                    run.abort()


# ------------------------------------------------------------------ collecting


def run_tasks(
    tasks: list[ChainTask],
    settings: Settings,
    seed: Any,
    *,
    cores: int | None,
    progress: bool,
    executor: Any = None,
    on_start: Callable[[list[ChainRun]], None] | None = None,
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
    cores, progress, executor, on_start
        See `run_chains`.

    Returns
    -------
    Result
        Without a diagnosis; see `diagnostics.diagnose`.

    Raises what a chain raised, with the draws so far in the attribute `result` of the exception;
    and KeyboardInterrupt if the run was cut short before there was anything to keep.
    """
    out, outputs, interrupted = run_chains(
        tasks, cores=cores, progress=progress, executor=executor, on_start=on_start
    )
    errors = [(k, o.error) for k, o in enumerate(outputs) if o.error is not None]
    kept = longest_rectangle([len(o.draws) for o in outputs])
    if not kept:  # then keep the warm-up, where it was asked for
        kept = longest_rectangle([len(o.warmup_draws) for o in outputs])
    result = None
    if kept:
        result = _collect(out, outputs, kept, tasks[0], settings, seed)
        result.interrupted = interrupted
    if errors:
        k, error = errors[0]
        note = f"Raised in chain {k}, after {len(outputs[k].draws)} of {tasks[k].draws} draws."
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
    length = min(len(outputs[k].draws) for k in kept)
    tuned = [outputs[k].tuned for k in kept]
    whole = len(kept) == len(outputs) and length == out.shape[1]
    draws = out if whole else np.array(out[kept, :length])
    rows = np.stack([outputs[k].stats[:length] for k in kept])
    result = Result(
        draws=draws,
        stats=stats_from_rows(rows, tuned),
        tuned=tuned,
        settings=settings,
        seed=seed,
        names=task.target.names,
        tune=task.tune,
        warmup_gradients=np.array([outputs[k].warmup_gradients for k in kept]),
        chains=kept,
        jumps=[outputs[k].jumps for k in kept] if task.record else None,
    )
    if task.keep_warmup:
        length = min(len(outputs[k].warmup_draws) for k in kept)
        result.warmup_draws = np.stack([outputs[k].warmup_draws[:length] for k in kept])
        warm = np.stack([outputs[k].warmup_stats[:length] for k in kept])
        result.warmup_stats = stats_from_rows(warm, tuned)
        made_with = np.stack([outputs[k].warmup_tuned[:length] for k in kept])
        for j, name in enumerate(TUNED_NAMES):
            name = "step_size_bar" if name == "step_size" else name
            dtype = result.warmup_stats[name].dtype
            result.warmup_stats[name] = made_with[..., j].astype(dtype)
    return result
