"""A run that goes on in rounds, until errors are small enough."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mjhmc_numba.diagnostics import closing_line
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.estimates import Until, refine
from mjhmc_numba.estimates.rounds import Quantities
from mjhmc_numba.interruption import holding_interrupts
from mjhmc_numba.progress import Progress
from mjhmc_numba.results import Result, Round
from mjhmc_numba.run.extending import extend
from mjhmc_numba.run.tasks import ChainTask

__all__ = ["check_gradients_kept", "check_until", "run_until"]


def check_until(until: Any, draws: int, *, checkpoint: Any, chain: int | None) -> None:
    """Raise unless a run of so many draws in its first round can go on until then."""
    if until is None:
        return
    if not isinstance(until, Until):
        raise SettingsError(f"until is a mjhmc_numba.Until, not {type(until).__name__}.")
    until.check_draws(draws)
    if checkpoint is not None:
        raise SettingsError("until= does not go with checkpoint=, which has its number of draws.")
    if chain is not None:
        raise SettingsError("until= does not go with chain=: all chains together say when to end.")


def check_gradients_kept(store_gradients: bool, checkpoint: Any) -> None:
    """Raise if gradients cannot be kept."""
    if store_gradients and checkpoint is not None:
        raise SettingsError("store_gradients= does not go with checkpoint=, which has none.")


def run_until(
    result: Result,
    tasks: list[ChainTask],
    until: Until,
    quantities: Quantities,
    store_gradients: bool,
    **how: Any,
) -> tuple[Result, list[ChainTask]]:
    """More draws of the same chains in rounds, until errors are small enough.

    Parameters
    ----------
    result : Result
        The first round, with gradients.
    tasks : list of ChainTask
        Those of the run.
    until : Until
        When to end.
    quantities : callable
        Draws (chain, draw, d) -> what `until` names.
    store_gradients : bool
        Whether to leave the gradients in the result.
    **how
        See `run_tasks`. `began` is when, by `time.perf_counter`; `on_round` is told of the draws so
        far, before more are made.

    Returns
    -------
    result : Result
        All draws, those of a run that was asked for as many at once. A function of the user's that
        raises has them in the attribute `result` of the exception.
    tasks : list of ChainTask
        Those of the run, for a further extension.
    """
    if not result.interrupted:
        result = _in_rounds(result, tasks, until, quantities, **how)
    if not store_gradients:
        for stats in (result.stats, result.warmup_stats or {}):
            stats.pop("gradient", None)
    return result, [replace(task, store_gradients=store_gradients) for task in tasks]


def _in_rounds(
    result: Result,
    tasks: list[ChainTask],
    until: Until,
    quantities: Quantities,
    *,
    progress: Progress,
    cores: int | None,
    began: float,
    on_round: Callable[[Result], None] = lambda result: None,
    **how: Any,
) -> Result:
    rounds: list[Round] = []

    def note(last: Round) -> None:
        rounds.append(last)
        progress.say(f"Round {len(rounds)}, {last}")

    with holding_interrupts() as press:

        def more(n: int) -> tuple[np.ndarray, np.ndarray]:
            nonlocal result
            before = result
            on_round(before)
            with contextlib.suppress(KeyboardInterrupt):  # before any new draw
                if not press.is_set():  # while errors were computed
                    shown = {"progress": progress, "closing": False}
                    result = extend(before, tasks, n, cores=cores, **shown, **how)
            if result is before or result.interrupted:
                result = _kept(before, result)
            return result.draws, result.stats["gradient"]

        try:
            found = refine(
                result.draws,
                result.stats["gradient"],
                until,
                more,
                quantities=quantities,
                report=note,
                names=result.names,
                density=tasks[0].target,
                reparametrisation=result.tuned[0].reparametrisation,
                cores=cores,
            )
        except Exception as error:
            if getattr(error, "result", None) is None:
                error.result = result  # type: ignore[attr-defined]
            raise
    if progress.enabled:
        progress.finish(closing_line(result, time.perf_counter() - began))
    result.rounds = rounds
    if found.trouble and not result.interrupted:
        result.warnings.append(found.trouble)
    return result


def _kept(before: Result, after: Result) -> Result:
    """What is kept of an interrupted round: as many draws in all as can be had."""
    result = after if after.draws.size > before.draws.size else before
    chains, made, _ = result.draws.shape
    told = [f"Interrupted: {made} draws, of {chains} chains, are kept."]
    return replace(result, interrupted=True, warnings=told)
