"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Any

import numpy as np

__all__ = ["forget", "give_back"]

# Bytes of positions that are worth the 5 ms. Once a block of some size was freed, glibc takes the
# next ones of that size (up to 32 MB) from the heap of the thread, and keeps what is freed there: a
# warm-up with several times its positions. With 10,000 dimensions a third of the output was held by
# threads that had ended their warm-up; with 6 MB of positions per chain, which were less than was
# given back at first, half of the output.
LARGE_BLOCK = 1 << 20


def give_back(size: int) -> None:
    """Return what was freed to the system, where that was about so many bytes."""
    trim = _of_libc("malloc_trim")
    if size >= LARGE_BLOCK and trim is not None:
        trim(0)


def forget(array: np.ndarray) -> None:
    """Give the memory of a contiguous array back that will be written anew, where Linux can: its
    whole pages come back as zeros when they are written.
    """
    first = array.__array_interface__["data"][0]
    start, end = -(-first // mmap.PAGESIZE), (first + array.nbytes) // mmap.PAGESIZE
    discard = _of_libc("madvise") if sys.platform == "linux" else None
    if discard is not None and array.flags.c_contiguous and end > start:
        pages = (
            ctypes.c_size_t(start * mmap.PAGESIZE),
            ctypes.c_size_t((end - start) * mmap.PAGESIZE),
        )
        discard(*pages, mmap.MADV_DONTNEED)


@cache
def _of_libc(name: str) -> Any:
    """A function of glibc; None with other libraries of C."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
