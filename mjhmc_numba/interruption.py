"""Ctrl-C while there is something to lose, and threads that end with the process.

An exception that may come between any two instructions leaves nothing sure. So while chains run and
while their draws are collected, a press of Ctrl-C is noted and does not raise; those who wait look
at the note. A second press raises as ever.
"""

from __future__ import annotations

import atexit
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Press", "end_with_process", "holding_interrupts"]

END_SECONDS = 2.0  # that threads have to end, when the process does


class Press:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self._pressed = threading.Event()
        self._raises = False

    def is_set(self) -> bool:
        return self._pressed.is_set() or _main_was_interrupted()

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Within it a press raises `KeyboardInterrupt`, one before it too: for work that is not
        worth waiting for.
        """
        self._raises = True
        try:
            if self.is_set():
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = False

    def note(self) -> bool:
        """Note a press; says whether it is to raise."""
        again = self._pressed.is_set()
        self._pressed.set()
        return again or self._raises


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
        yield _held
        return
    press = Press()

    def handle(number: int, frame: FrameType | None) -> None:
        if press.note():
            usual(number, frame)

    _held = press
    signal.signal(signal.SIGINT, handle)
    try:
        yield press
    finally:
        signal.signal(signal.SIGINT, usual)
        _held = None


_ending: dict[threading.Thread, Callable[[], None]] = {}


def end_with_process(thread: threading.Thread, stop: Callable[[], None]) -> None:
    """When the process ends, stop a daemon thread and wait for it for a moment.

    One that is left alone might be in the middle of compiled code, or of writing to the screen.
    """
    for one in [one for one in _ending if not one.is_alive() and one is not thread]:
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
