"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

__all__ = ["warn_user"]

# Frames of these packages are not the user's.
OURS = ("mjhmc_numba", "pymc", "pytensor", "bambi")


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called into this package, however deep we are.

    Parameters
    ----------
    message : str
        What is wrong, and what to do.
    category : type
        Of the warning.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).split(".")[0] in OURS
