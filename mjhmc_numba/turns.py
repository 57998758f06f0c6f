"""Chains of one run take turns with what they do in Python.

Python runs one thread at a time, and lets another one go first whenever NumPy sums a few hundred
numbers. Two small chains that warm up side by side would hand Python to each other some thousand
times in a run, and that took longer than what they gained: a run of four chains took 1.4 times as
long on two cores as on one. So a chain keeps its turn until it calls compiled code for a while, or
waits for a file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

__all__ = ["Turn", "away", "away_for", "has_turn"]

# Seconds of compiled code that are worth a turn. To hand one over takes 12 us, and then caches are
# cold: of 30, 100, 200, 500 us, 1, 2 and 5 ms, 200 us was the best for five small runs together.
WORTH_A_TURN = 2e-4

_here = threading.local()  # the turn that this thread has


class Turn:
    """Within it no other thread has it. Each run has its own, so that a chain that is left alone in
    a density that does not come back keeps none but its own run waiting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple:
        return Turn, ()  # one for all chains of another process

    def __enter__(self) -> None:
        self._lock.acquire()
        _here.turn = self

    def __exit__(self, *exception: object) -> None:
        _here.turn = None
        self._lock.release()


def has_turn() -> bool:
    """Whether it is this thread's turn."""
    return getattr(_here, "turn", None) is not None


@contextmanager
def away() -> Iterator[None]:
    """Within it others may go first, if this thread has its turn."""
    turn = getattr(_here, "turn", None)
    if turn is None:
        yield
        return
    turn.__exit__()
    try:
        yield
    finally:
        turn.__enter__()


class Timed(Protocol):
    """A density of which it is known what a gradient takes."""

    gradient_seconds: float


def away_for(target: Timed, gradients: float) -> AbstractContextManager:
    """`away` while compiled code takes so many gradients, where that is worth it."""
    return away() if gradients * target.gradient_seconds > WORTH_A_TURN else nullcontext()
