"""A warm-up for all chains together: a few of them learn, and all use what the best has learnt.

First some pilots, a few chains however many there are, have a warm-up each and make trial draws.
Pilots that ended in a mode far below the best are left aside. Of the others the one whose draws are
worth most per gradient hands its coordinates and motion to all chains, which start where the
pilots have ended, burn in and sample. Settings are fixed before the burn-in: the draws are exact;
pilots depend on the seed alone, so they are the same on any number of workers.

The chains that start from one pilot are a superchain of the nested R-hat (Margossian et al. 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.convergence import least_effective
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.initial import Region, far_below
from mjhmc_numba.progress import Progress
from mjhmc_numba.results import Result
from mjhmc_numba.run import ChainOutput, ChainTask, child_seed, run_chains, run_tasks
from mjhmc_numba.settings import Settings
from mjhmc_numba.stats import COLUMN

__all__ = ["WARMUPS", "check_warmup", "pool_warmup", "run_with_warmup"]

WARMUPS = ("separate", "pooled")
# Bounds on the cost, chosen and not tuned: docs/many_chains.md has what they come to.
PILOTS = 8  # at most: as many superchains, from which the nested R-hat knows a variance to a half
TRIAL = 0.25  # trial draws per draw of the warm-up: pilots cost a quarter more than a warm-up
BURN_IN = 0.25  # likewise; chains that start from one draw of a pilot must forget it
FEWEST = 50  # trial draws, if the warm-up is not shorter: fewer tell no effective size
POOL_KEY = (1 << 32) + 1  # of the seeds of pilots: no chain has it


class Pool(NamedTuple):
    """What pilots have found.

    Parameters
    ----------
    tasks : list of ChainTask
        Of all chains, with what the best pilot has tuned and where they start.
    gradients : list of int
        Of each pilot.
    best : int
        Its number.
    kept : list of int
        Pilots that chains start from.
    """

    tasks: list[ChainTask]
    gradients: list[int]
    best: int
    kept: list[int]


def check_warmup(warmup: Any, tune: int) -> None:
    """Raise `SettingsError` unless it is a way to warm up."""
    if warmup not in WARMUPS:
        raise SettingsError(f"warmup={warmup!r} is unknown; choose one of {WARMUPS}.")
    if warmup == "pooled" and tune == 0:
        raise SettingsError("warmup='pooled' needs tuning draws: tune=0 leaves nothing to share.")


def run_with_warmup(
    tasks: list[ChainTask],
    settings: Settings,
    seed: Any,
    *,
    warmup: str,
    cores: int | None,
    progress: Progress,
    executor: Any = None,
    **how: Any,
) -> tuple[Result, list[ChainTask]]:
    """Run chains after warm-ups of their own, or after one for all; see `run_tasks`.

    Returns
    -------
    result : Result
    tasks : list of ChainTask
        What the chains were run as.
    """
    where = {"cores": cores, "progress": progress, "executor": executor}
    if warmup == "separate":
        return run_tasks(tasks, settings, seed, **where, **how), tasks
    pool = pool_warmup(tasks, **where)
    result = run_tasks(pool.tasks, settings, seed, **where, **how)
    of_chain = dict(zip([task.number for task in tasks], pool.gradients, strict=False))
    result.warmup_gradients += [of_chain.get(k, 0) for k in result.chains]
    result.superchains = [k % len(pool.kept) for k in result.chains]
    return result, pool.tasks


def pool_warmup(
    tasks: list[ChainTask], *, cores: int | None, progress: Progress, executor: Any = None
) -> Pool:
    """Run the pilots and prepare all chains.

    Parameters
    ----------
    tasks : list of ChainTask
        As for separate warm-ups.
    cores, progress, executor
        See `run_chains`.
    """
    trial = max(round(TRIAL * tasks[0].tune), min(FEWEST, tasks[0].tune))
    pilots = [
        replace(
            task,
            draws=trial,
            seed=child_seed(task.seed, POOL_KEY),
            keep_warmup=False,
            record=False,
            store=None,
        )
        for task in tasks[:PILOTS]
    ]
    draws, outputs, interrupted = run_chains(
        pilots, cores=cores, progress=progress, executor=executor
    )
    for output in outputs:
        if output.error is not None:
            raise output.error
    if interrupted:
        raise KeyboardInterrupt
    kept = _near_the_best(outputs, draws.shape[2])
    best = max(kept, key=lambda p: _worth(draws[p], outputs[p]))
    burn_in = max(round(BURN_IN * tasks[0].tune), 1)
    led = []
    for task in tasks:
        start = Region(draws[kept[task.number % len(kept)], -1].copy(), 0.0)
        led.append(
            replace(task, tuned=outputs[best].tuned, region=start, initial=None, tune=burn_in)
        )
    return Pool(led, [_gradients(output) for output in outputs], best, kept)


def _near_the_best(outputs: Sequence[ChainOutput], ndim: int) -> list[int]:
    """Pilots whose log density is not that of a mode far below another's."""
    level = [float(np.median(o.rows.stats[:, COLUMN["lp"]])) for o in outputs]
    return [p for p, lp in enumerate(level) if max(level) - lp < far_below(ndim)]


def _gradients(output: ChainOutput) -> int:
    return int(output.warmup_gradients + output.rows.stats[:, COLUMN["n_gradients"]].sum())


def _worth(draws: np.ndarray, output: ChainOutput) -> float:
    """Effective draws per gradient of a trial."""
    return least_effective(draws[None])[0] / output.rows.stats[:, COLUMN["n_gradients"]].sum()
