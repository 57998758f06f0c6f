"""Work on as much at a time as a cache holds."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["blocks"]

# Numbers that are made at a time: with what they are made of, a megabyte or two, the cache of a
# core. Memory that is new costs as much as the sums that are computed in it (73 dimensions: 16,000
# pages, 30 to 60 ms of 190).
AT_A_TIME = 2**16


def blocks(size: int, width: int, start: int = 0) -> Iterator[slice]:
    """Slices of nearly equal length of `size` items from `start`, each item of `width` numbers."""
    count = -(-size * max(width, 1) // AT_A_TIME)
    count = min(max(count, 1), max(size, 1))
    ends = [start + size * k // count for k in range(count + 1)]
    yield from map(slice, ends[:-1], ends[1:])
