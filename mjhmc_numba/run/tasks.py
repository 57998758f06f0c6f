"""What a chain is asked for, what it needs to go on, and what it made."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mjhmc_numba.density import Target
from mjhmc_numba.initial import Region
from mjhmc_numba.process import Snapshot
from mjhmc_numba.settings import Settings
from mjhmc_numba.stats import Rows
from mjhmc_numba.storage import ChainFiles, ChainStore, Stream
from mjhmc_numba.tuned import Tuned, WarmupWindow
from mjhmc_numba.turns import Turn
from mjhmc_numba.warmup import Tuner

__all__ = ["ChainOutput", "ChainState", "ChainTask", "in_turn"]

# Dimensions up to which chains take turns in Python. In more NumPy works for longer than it takes
# to hand a turn on: beta-binomial hierarchies take 0.96 of their time on one core in turn and 1.07
# not (50 dimensions), 0.91 and 0.93 (70), 0.92 and 0.82 (100).
LARGEST_IN_TURN = 64


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
    store_gradients: bool = False
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
    gradient: np.ndarray | None = None  # likewise
    error: BaseException | None = None
    windows: list[WarmupWindow] = field(default_factory=list)
    is_rerun: bool = False  # because the worker died that it ran on first
    end: ChainState | None = None  # of a chain that made all its draws
    stream: Stream | None = None  # to a store

    @property
    def made(self) -> int:
        """Draws that there are, here or in a store."""
        return len(self.rows.draws) if self.stream is None else self.stream.stored


def in_turn(turn: Turn, target: Target) -> contextlib.AbstractContextManager:
    """The turn to do something in Python, where chains of that density take turns."""
    return turn if target.ndim <= LARGEST_IN_TURN else contextlib.nullcontext()
