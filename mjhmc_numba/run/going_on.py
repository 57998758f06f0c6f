"""What chains need to go on, in memory or in the files of a checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.density import Target
from mjhmc_numba.errors import CheckpointError
from mjhmc_numba.process import Process, Visits
from mjhmc_numba.run.tasks import ChainState, ChainTask
from mjhmc_numba.run.watched import WatchedChain
from mjhmc_numba.saving import load, save
from mjhmc_numba.settings import Settings
from mjhmc_numba.stats import Rows
from mjhmc_numba.storage import Checkpoint

__all__ = ["go_on", "load_files", "room_of", "save_files", "state_of", "with_files"]

RECORD_ROWS = 4096  # visits from one emptying of the jump record to the next: few calls for many
# Relative difference of two values of one density: sums of 1e6 terms err by 1e-10, and other data
# change them by more.
DENSITY_ALIKE = 1e-9


class Part(NamedTuple):
    """What a chain made between two checkpoints."""

    rows: Rows
    warmup: Rows
    visits: list[Visits]


# ------------------------------------------------------------------ one chain


def state_of(chain: WatchedChain) -> ChainState:
    """What the chain needs to go on from here."""
    assert chain.process is not None
    return ChainState(
        chain.process.snapshot(),
        chain.tuner,
        chain.start,
        chain.is_warm,
        chain.warmup_made,
        chain.made,
        chain.acceptance,
        chain.warmup_gradients,
        list(chain.windows),
        chain.piece,
        chain.stream,
    )


def room_of(task: ChainTask) -> dict[str, int]:
    """What the process is to keep beside its draws."""
    return {
        "record": RECORD_ROWS if task.record else 0,
        "divergences": task.draws if task.store_divergences else 1,
    }


def go_on(chain: WatchedChain, state: ChainState) -> None:
    """Put the chain where it was."""
    task = chain.task
    _check_density(task.target, state.start)
    chain.process = Process.resume(task.target, task.settings, state.process, **room_of(task))
    chain.tuner, chain.start, chain.is_warm = state.tuner, state.start, state.is_warm
    chain.warmup_made, chain.windows = state.warmup_made, list(state.windows)
    chain.piece, chain.stream = state.piece, state.stream
    chain.acceptance, chain.warmup_gradients = state.acceptance, state.warmup_gradients
    chain.has_moved = bool((chain.process.x != chain.start[0]).any())


def _check_density(target: Target, start: tuple[np.ndarray, float, np.ndarray]) -> None:
    """Raise unless the density is what it was where the chain began."""
    x, logp, grad = start
    if x.shape == (target.ndim,):
        logp_now, grad_now = target.logp_and_grad(x)
        # As exact as another processor, with other rounding, allows.
        of_value = DENSITY_ALIKE * (1 + abs(logp))
        of_gradient = DENSITY_ALIKE * max(float(np.abs(grad).max()), 1.0)
        if abs(logp_now - logp) <= of_value and np.abs(grad_now - grad).max() <= of_gradient:
            return
    raise CheckpointError(
        "The density is not the one that the chain began with: at its start the log density or "
        "the gradient is another. Give the same density and data, or another folder."
    )


# ------------------------------------------------------------------ its files


def save_files(chain: WatchedChain) -> None:
    """Write what the chain needs to go on, and what it has made since it wrote last."""
    files = chain.task.files
    assert files is not None
    made, warmup_made, parts = chain.saved if chain.stream is None else (0, chain.saved[1], 0)
    kept = chain.warmup_kept if chain.task.keep_warmup else 0
    part = Part(
        Rows(*(array[made : 0 if chain.stream else chain.made] for array in chain.rows)),
        Rows(*(array[warmup_made:kept] for array in chain.warmup)),
        chain.parts[parts:],
    )
    files.save(save(state_of(chain)), save(part))
    chain.saved = chain.made, kept, len(chain.parts)


def load_files(chain: WatchedChain) -> bool:
    """Put the chain where it wrote last; says whether there was anything."""
    task = chain.task
    saved = None if task.files is None else task.files.load()
    if saved is None:
        return False
    try:
        state = load(ChainState, saved.state, settings=task.settings)
        parts = [load(Part, part) for part in saved.parts]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"What was saved of a chain cannot be gone on from: {error}"
        ) from error
    go_on(chain, state)
    _take_parts(chain, parts, state.made)
    return True


def _take_parts(chain: WatchedChain, parts: list[Part], expected: int) -> None:
    """The draws that were saved, so many."""
    task, made, kept = chain.task, 0, 0
    if expected > task.draws:
        raise CheckpointError(
            f"The chain has made {expected} draws already, more than draws={task.draws}."
        )
    for part in parts:
        for mine, saved in zip(chain.rows, part.rows, strict=True):
            mine[made : made + len(saved)] = saved
        for mine, saved in zip(chain.warmup, part.warmup, strict=True):
            mine[kept : kept + len(saved)] = saved
        made, kept = made + len(part.rows.draws), kept + len(part.warmup.draws)
        chain.parts.extend(part.visits)
    made = made if chain.stream is None else chain.stream.stored
    if made != expected or kept != (chain.warmup_made if task.keep_warmup else 0):
        raise CheckpointError(f"The checkpoint has {made} draws of {expected}: it is damaged.")
    chain.warmup_kept = kept
    chain.made, chain.saved = made, (made, kept, len(chain.parts))


# ------------------------------------------------------------------ the run


@contextlib.contextmanager
def with_files(tasks: list[ChainTask], checkpoint: Checkpoint | None) -> Iterator[list[ChainTask]]:
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
