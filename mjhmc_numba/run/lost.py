"""Chains that have warmed up where there is next to no mass are run again from where others are.

A chain may burn in near a minor mode or on a plateau and not leave it in the whole of its warm-up.
It cannot know that; the other chains do. Compared are means at the end of each warm-up: of the log
density, and of the log mass (the log density in coordinates in which the target should be standard
normal). A chain that lies lower in both by more than one mode shows is run again, from the first
draw of the chain with the most mass and with a seed of its own. So it comes out the same on any
number of workers, and a chain that is not lost is the same as on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mjhmc_numba.initial import Region, far_below
from mjhmc_numba.progress import ChainProgress, Progress
from mjhmc_numba.run.chain import ChainRun
from mjhmc_numba.run.dispatch import run_chains
from mjhmc_numba.run.elsewhere import RemoteRun
from mjhmc_numba.run.memory import forget
from mjhmc_numba.run.seeds import child_seed
from mjhmc_numba.run.tasks import ChainOutput, ChainTask
from mjhmc_numba.stats import COLUMN

__all__ = ["lost_chains", "run_with_lost"]

LOST_KEY = (1 << 32) + 2  # of the seeds of chains that are run again: no chain has it

Run = ChainRun | RemoteRun


def run_with_lost(
    tasks: list[ChainTask],
    *,
    progress: Progress,
    on_start: Callable[[Sequence[Run]], None] | None = None,
    **how: Any,
) -> tuple[np.ndarray, list[ChainOutput], bool, list[str]]:
    """Run all chains, and those that are lost again; see `run_chains`.

    Returns
    -------
    draws, outputs, interrupted
        As of `run_chains`.
    told : list of str
        A sentence about each chain that was run again.
    """
    runs: list[Run] = []

    def note(started: Sequence[Run]) -> None:
        runs[:] = started
        if on_start is not None:
            on_start(started)

    out, outputs, interrupted = run_chains(tasks, progress=progress, on_start=note, **how)
    lost = {} if interrupted else lost_chains(tasks, outputs)
    if not lost:
        return out, outputs, interrupted, []
    again = [_from_elsewhere(tasks[k], out[best, 0]) for k, best in lost.items()]

    def note_again(started: Sequence[Run]) -> None:
        note([dict(zip(lost, started, strict=True)).get(k, run) for k, run in enumerate(runs)])

    merged = _Merged(progress, list(lost), [run.progress() for run in runs])
    rooms = [out[k] for k in lost]  # what was drawn in vain is not kept
    for room in rooms:
        forget(room)
    _, found, interrupted = run_chains(
        again,
        rooms=rooms,
        progress=merged,  # type: ignore[arg-type]
        on_start=note_again,
        **how,
    )
    told = [_told(tasks, outputs, k, best) for k, best in lost.items()]
    for k, output in zip(lost, found, strict=True):
        output.warmup_gradients += _gradients(outputs[k])
        outputs[k] = output
    return out, outputs, interrupted, told


def lost_chains(tasks: Sequence[ChainTask], outputs: Sequence[ChainOutput]) -> dict[int, int]:
    """Chains that are to be run again, each with the one that has the most mass.

    There are none where chains start once only, where they use what was tuned before or go on from
    somewhere, and where draws have gone to a store already.
    """
    if any(map(_stays, tasks)) or any(o.error is not None for o in outputs):
        return {}
    ends = [o.tuned.starts for o in outputs if o.tuned is not None]
    # None, where a warm-up was too short to tell, becomes NaN.
    level = np.array([end.log_density for end in ends], dtype=float)
    mass = np.array([end.log_mass for end in ends], dtype=float)
    if len(ends) < len(tasks) or not np.isfinite([level, mass]).all():
        return {}
    best, gap = int(mass.argmax()), far_below(tasks[0].target.ndim) / 2
    is_lost = (mass < mass[best] - gap) & (level < level[best] - gap)
    return dict.fromkeys(map(int, np.flatnonzero(is_lost)), best)


def _stays(task: ChainTask) -> bool:
    is_new = task.tuned is None and task.state is None and task.store is None
    return not is_new or task.settings.starts == 1 or task.draws == 0


def _from_elsewhere(task: ChainTask, x: np.ndarray) -> ChainTask:
    """The same chain from x, where it stays: it has no other starts. It writes no checkpoint, as
    it is the same when a run goes on from one.
    """
    return replace(
        task,
        initial=x.copy(),
        region=Region(x.copy(), 0.0),
        seed=child_seed(task.seed, LOST_KEY),
        settings=replace(task.settings, starts=1),
        files=None,
    )


def _gradients(output: ChainOutput) -> int:
    """Of a chain that was run in vain."""
    return int(output.warmup_gradients + output.rows.stats[:, COLUMN["n_gradients"]].sum())


def _told(tasks: Sequence[ChainTask], outputs: Sequence[ChainOutput], k: int, best: int) -> str:
    here, there = (outputs[j].tuned.starts.log_density for j in (k, best))  # type: ignore[union-attr]
    return (
        f"Chain {tasks[k].number} had warmed up where there is next to no mass (log density about "
        f"{here:.5g}, in chain {tasks[best].number} {there:.5g}): it was run again from where "
        f"chain {tasks[best].number} is. If both regions matter, start chains in either with "
        "starts=1."
    )


class _Merged:
    """A display of all chains while some of them are run again."""

    def __init__(self, display: Progress, again: Sequence[int], known: Sequence[ChainProgress]):
        self._display, self._again, self._known = display, again, list(known)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._display, name)

    def update(self, chains: Iterable[ChainProgress]) -> None:
        for k, chain in zip(self._again, chains, strict=True):
            self._known[k] = chain
        self._display.update(self._known)
