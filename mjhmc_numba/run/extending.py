"""What the chains of one run hand on to the next: where they are, and what was tuned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.initial import Region
from mjhmc_numba.results import Result
from mjhmc_numba.run.collecting import run_tasks
from mjhmc_numba.run.tasks import ChainTask
from mjhmc_numba.settings import check_counts

__all__ = ["extend", "warm_started"]


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
