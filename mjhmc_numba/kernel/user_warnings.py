"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import threading
import warnings
from types import FrameType

__all__ = ["on_behalf_of", "warn_user"]

# Frames of these packages are not the user's: those that we call, and that call us.
OURS = ("mjhmc_numba", "pymc", "pytensor", "bambi", "numba", "importlib", "_frozen_importlib")

_waiting = threading.local()


def on_behalf_of(frame: FrameType) -> None:
    """Let what this thread warns of point at the line of a frame of the thread that waits."""
    _waiting.frame = frame


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called into this package, however deep we are.

    Parameters
    ----------
    message : str
        What is wrong, and what to do.
    category : type
        Of the warning.
    """
    frame = _first_of_the_user(sys._getframe(1))
    if _package(frame) == "threading" and hasattr(_waiting, "frame"):
        frame = _first_of_the_user(_waiting.frame)
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _first_of_the_user(frame: FrameType) -> FrameType:
    while frame.f_back is not None and _package(frame) in OURS:
        frame = frame.f_back
    return frame


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).split(".")[0]
