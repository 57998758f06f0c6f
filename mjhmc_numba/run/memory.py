"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

__all__ = ["give_back"]

# Bytes that are worth the milliseconds. Once a block of some size was freed, glibc takes the next
# ones of that size (up to 32 MB) from the heap of the thread, and keeps what is freed there: with
# 10,000 dimensions a third of the output was held by threads that had ended their warm-up.
LARGE_BLOCK = 1 << 23


def give_back(size: int) -> None:
    """Return what was freed to the system, where that was about so many bytes."""
    trim = _trim()
    if size >= LARGE_BLOCK and trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """Glibc's function; None with other libraries of C."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
