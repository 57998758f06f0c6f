"""Ctrl-C while there is something to lose, and threads that end with the process.

An exception that may come between any two instructions leaves nothing sure. So while chains run and
while their draws are collected, a press of Ctrl-C is noted and does not raise; those who wait look
at the note. A second press raises as ever.

Before chains run, while a model is compiled, there is nothing to lose, and a press raises at once
(`prompt`). But an exception that is raised in a callback of the garbage collector, or of a C
library, is ignored: Python only reports it. Then it is raised again.
"""

from __future__ import annotations

import _thread
import atexit
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

__all__ = ["Press", "end_with_process", "holding_interrupts", "prompt"]

# Until an exception that Python has ignored is raised again: longer than a callback takes that has
# swallowed it, and short of the 0.1 s that a person takes for "at once" (Nielsen 1993).
AGAIN_SECONDS = 0.02
# That threads have to end, when the process does: they look for signals every 0.05 s, so that only
# one gradient that takes longer is left alone.
END_SECONDS = 2.0


class Press:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self._pressed = threading.Event()
        self._raises = False
        self._unheard = False

    def is_set(self) -> bool:
        return self._pressed.is_set() or _main_was_interrupted()

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Within it a press raises `KeyboardInterrupt`, one before it too: for work that is not
        worth waiting for. One that was caught on its way, or lost, is raised at its end.
        """
        if self.is_set():
            raise KeyboardInterrupt
        with self._switched(True):
            yield
            if self._unheard:
                raise KeyboardInterrupt

    @contextmanager
    def _switched(self, raises: bool) -> Iterator[None]:
        before, self._raises = self._raises, raises
        try:
            yield
        finally:
            self._raises = before

    def note(self) -> bool:
        """Note a press; says whether it is to raise."""
        again = self._pressed.is_set()
        self._pressed.set()
        self._unheard |= self._raises
        return again or self._raises

    def raise_again(self) -> None:
        """In the main thread, if it is still at what may be interrupted."""
        if not self._raises:
            return
        main = threading.main_thread().ident
        if hasattr(signal, "pthread_kill") and main is not None:  # a sleep hears of it too
            signal.pthread_kill(main, signal.SIGINT)
        else:
            _thread.interrupt_main()

    def is_lost(self, ignored: Any) -> bool:
        """Whether what Python ignored (as `sys.unraisablehook` gets it) is a press."""
        return self._raises and ignored.exc_type is KeyboardInterrupt


def _main_was_interrupted() -> bool:
    """Whether Ctrl-C has ended the main thread: other threads hear of it in no other way."""
    last = getattr(sys, "last_type", None)
    return last is KeyboardInterrupt and not threading.main_thread().is_alive()


_held: Press | None = None


@contextmanager
def holding_interrupts() -> Iterator[Press]:
    """Within it Ctrl-C is noted. One within another shares its note.

    In another thread than the main one there is nothing to hold: there, a press that has ended the
    main thread counts.
    """
    global _held
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield Press()
        return
    if _held is not None:
        with _held._switched(False):
            yield _held
        return
    press, report = Press(), sys.unraisablehook

    def handle(number: int, frame: FrameType | None) -> None:
        if press.note():
            usual(number, frame)

    def raise_again(ignored: Any) -> None:
        if press.is_lost(ignored):  # from a thread: here it would be ignored too
            threading.Timer(AGAIN_SECONDS, press.raise_again).start()
        else:
            report(ignored)

    _held = press
    signal.signal(signal.SIGINT, handle)
    sys.unraisablehook = raise_again
    try:
        yield press
    finally:
        signal.signal(signal.SIGINT, usual)
        sys.unraisablehook = report
        _held = None


P = ParamSpec("P")
T = TypeVar("T")


def prompt(function: Callable[P, T]) -> Callable[P, T]:
    """A function that Ctrl-C ends at once, but for what it does within `holding_interrupts`."""

    @wraps(function)
    def heard(*arguments: P.args, **options: P.kwargs) -> T:
        with holding_interrupts() as press, press.raising():
            return function(*arguments, **options)

    return heard


_ending: dict[threading.Thread, Callable[[], None]] = {}


def end_with_process(thread: threading.Thread, stop: Callable[[], None]) -> None:
    """When the process ends, stop a daemon thread and wait for it for a moment.

    One that is left alone might be in the middle of compiled code, or of writing to the screen.
    """
    for one in list(_ending):  # a copy: runs of other threads write here too
        if not one.is_alive() and one is not thread:
            _ending.pop(one, None)
    _ending[thread] = stop


@atexit.register
def _end_threads() -> None:
    until = time.monotonic() + END_SECONDS
    alive = {thread: stop for thread, stop in list(_ending.items()) if thread.is_alive()}
    for stop in alive.values():
        stop()
    for thread in alive:
        thread.join(max(until - time.monotonic(), 0.0))
