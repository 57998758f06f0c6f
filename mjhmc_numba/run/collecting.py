"""Chains are run, and what they made becomes a result."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjhmc_numba.diagnostics import closing_line
from mjhmc_numba.errors import MemoryRequestError
from mjhmc_numba.progress import Progress
from mjhmc_numba.results import Result
from mjhmc_numba.run.chain import ChainRun
from mjhmc_numba.run.elsewhere import RemoteRun
from mjhmc_numba.run.going_on import with_files
from mjhmc_numba.run.lost import run_with_lost
from mjhmc_numba.run.stores import flush_stores
from mjhmc_numba.run.tasks import ChainOutput, ChainTask
from mjhmc_numba.settings import Settings
from mjhmc_numba.stats import STATISTICS, WIDTH, Rows, by_name, longest_rectangle
from mjhmc_numba.storage import Checkpoint

__all__ = ["check_memory", "run_tasks", "stats_of"]


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
    if size > 0.9 * have:  # the system takes some of it, at least so much
        raise MemoryRequestError(
            f"The draws would take {size / 1e9:.1f} GB; this machine has {have / 1e9:.1f} GB. "
            "Ask for fewer draws or chains."
        )


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
    closing: bool = True,
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
    closing : bool
        Whether to show what came of it.

    Returns
    -------
    Result
        Without a diagnosis; see `diagnostics.diagnose`.

    Raises what a chain raised, with the draws so far in the attribute `result` of the exception;
    and KeyboardInterrupt if the run was cut short before there was anything to keep.
    """
    began = time.perf_counter()
    with with_files(tasks, checkpoint) as tasks:
        out, outputs, interrupted, told = run_with_lost(
            tasks,
            cores=cores,
            blas_threads=blas_threads,
            progress=progress,
            executor=executor,
            on_start=on_start,
        )
    flush_stores(tasks)
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
    result.warnings += told
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
    if closing and progress.enabled and result.stored is None:
        progress.finish(closing_line(result, time.perf_counter() - began))
    return result


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
        result.warmup_draws = _together([rows.draws for rows in warmup])
        result.warmup_stats = stats_of(warmup, [math.nan] * len(kept), is_warmup=True)
    if task.store_divergences:
        _add_vectors(result, "divergence_start", [outputs[k].divergence_start for k in kept])
    if task.store_gradients:
        _add_vectors(result, "gradient", [outputs[k].gradient for k in kept])
    return result


def _together(chains: Sequence[np.ndarray]) -> np.ndarray:
    """Chains (n, d) in one array: the one that they are the rows of, if there is one."""
    whole = chains[0].base
    if whole is not None and whole.shape == (len(chains), *chains[0].shape):
        at = [row.__array_interface__["data"][0] for row in whole]
        if at == [rows.__array_interface__["data"][0] for rows in chains]:
            return whole
    return np.stack(chains)


def _add_vectors(result: Result, name: str, chains: Sequence[np.ndarray | None]) -> None:
    """A statistic (chain, draw, d) of what was kept of each chain; of a warm-up nothing is."""
    for stats, draws in (
        (result.stats, result.draws),
        (result.warmup_stats, result.warmup_draws),
    ):
        if stats is not None and draws is not None:
            stats[name] = np.full(draws.shape, np.nan)
    for row, kept in zip(result.stats[name], chains, strict=True):
        if kept is not None:
            n = min(len(row), len(kept))
            row[:n] = kept[:n]


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
