"""Waiting for a compiler: Ctrl-C ends it at once, and those who watch are told.

A signal that arrives while LLVM runs waits for it, and an exception that is raised in one of its
callbacks is lost. So the compiler works in a thread of its own, while the main thread waits and
is free to hear of Ctrl-C. The thread then stops at the next function that it would compile.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from mjhmc_numba.kernel.user_warnings import on_behalf_of

__all__ = ["InThread", "announced", "compile_in_thread", "stop_if_cancelled", "watched"]

# What a main thread has on Linux and macOS; others have 0.5 MB on the latter. The kernel compiles
# with 0.25 MB.
STACK_BYTES = 8 * 2**20

_watchers: list[Callable[[str, float | None], None]] = []
_current = threading.local()


class _Cancelled(BaseException):
    """Nobody waits for this compilation any more."""


def stop_if_cancelled() -> None:
    """Leave a compilation for which nobody waits any more."""
    cancelled = getattr(_current, "cancelled", None)
    if cancelled is not None and cancelled.is_set():
        raise _Cancelled


@contextmanager
def watched(watcher: Callable[[str, float | None], None]) -> Iterator[None]:
    """Within it, `watcher(what, seconds)` is told what is compiled.

    Parameters
    ----------
    watcher : Callable
        Called with what is compiled ("sampler", "density", "gradient", "Deterministics", or
        "machine code", a part of the last two) and None when it begins, the seconds that it took
        when it has ended, NaN if it failed. What is loaded from the cache is not compiled, but
        PyTensor rewrites a graph before it knows.
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Tell those who watch that something is compiled within."""
    began, seconds = time.perf_counter(), math.nan
    _tell(what, None)
    try:
        yield
        seconds = time.perf_counter() - began
    finally:
        _tell(what, seconds)


def _tell(what: str, seconds: float | None) -> None:
    for watcher in tuple(_watchers):
        watcher(what, seconds)


def compile_in_thread(what: str, function: Callable[[], Any]) -> Any:
    """What `function`, which compiles, returns; Ctrl-C ends the wait for it."""
    with announced(what):
        if threading.current_thread() is threading.main_thread():
            return InThread(function).wait()
        return function()  # signals are for the main thread alone


class InThread:
    """A function that compiles, at work in a thread of its own from now on."""

    def __init__(self, function: Callable[[], Any]):
        self._cancelled = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        usual = threading.stack_size(STACK_BYTES)
        try:
            self._thread = threading.Thread(
                target=self._work,
                args=(function, sys._getframe(1)),
                name="mjhmc_numba compiler",
            )
            self._thread.start()
        finally:
            threading.stack_size(usual)

    def _work(self, function: Callable[[], Any], caller: FrameType) -> None:
        _current.cancelled = self._cancelled
        on_behalf_of(caller)
        try:
            self._result = function()
        except BaseException as error:  # raised again by the thread that waits
            self._error = error

    def wait(self) -> Any:
        """What the function returns or raises. An exception that ends the wait cancels it."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.1)  # on some systems no signal ends a wait without a limit
        except BaseException:
            self.cancel()
            raise
        if self._error is not None:
            raise self._error
        return self._result

    def cancel(self) -> None:
        """Stop at the next function that would be compiled."""
        self._cancelled.set()
