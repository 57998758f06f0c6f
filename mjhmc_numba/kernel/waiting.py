"""Waiting for a compiler: Ctrl-C ends it at once, and those who watch are told.

A signal that arrives while LLVM runs waits for it, and an exception that is raised in one of its
callbacks is lost. So the compiler works in a thread of its own, while the main thread waits and
is free to hear of Ctrl-C. The thread then stops at the next function that it would compile.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["compile_in_thread", "stop_if_cancelled", "watched"]

# A compiler recurses deeply, and some systems give threads little room.
STACK_BYTES = 64 * 2**20

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
        Called with "sampler" or "model" and None when a compilation begins, and with the seconds
        that it took when it has ended. What is loaded from the cache is not compiled.
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def compile_in_thread(what: str, function: Callable[[], Any]) -> Any:
    """What `function`, which compiles, returns; Ctrl-C ends the wait for it."""
    for watcher in _watchers:
        watcher(what, None)
    began = time.perf_counter()
    if threading.current_thread() is threading.main_thread():
        result = _in_thread(function)
    else:  # signals are for the main thread alone
        result = function()
    for watcher in _watchers:
        watcher(what, time.perf_counter() - began)
    return result


def _in_thread(function: Callable[[], Any]) -> Any:
    cancelled, outcome = threading.Event(), {}

    def work():
        _current.cancelled = cancelled
        try:
            outcome["result"] = function()
        except BaseException as error:  # raised again by the thread that waits
            outcome["error"] = error

    usual = threading.stack_size(STACK_BYTES)
    try:
        thread = threading.Thread(target=work, name="mjhmc_numba compiler")
        thread.start()
    finally:
        threading.stack_size(usual)
    try:
        while thread.is_alive():
            thread.join(0.1)  # on some systems no signal ends a wait without a limit
    except BaseException:
        cancelled.set()
        raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]
