"""Threads of BLAS while chains run."""

from __future__ import annotations

import contextlib
import sys
import threading
from functools import lru_cache

from threadpoolctl import ThreadpoolController

__all__ = ["blas_limit", "quiet_blas"]


class QuietBlas:
    """One thread per chain for the matrices of its warm-up. More threads than cores wait for each
    other, many times as long as they work; and how a sum is shared out changes its last bits.

    The limit is that of the process: it holds until the last of those who asked for it has ended.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._limits = threading.Lock(), 0, contextlib.ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limits.enter_context(_limit(1))
            self._users += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limits.close()


quiet_blas = QuietBlas()


def _limit(threads: int) -> contextlib.AbstractContextManager:
    return _libraries(len(sys.modules)).limit(limits=threads, user_api="blas")


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Of those that are loaded. To find them takes 2 ms, as long as some chains do: they are looked
    for again where more modules are imported than last time.
    """
    return ThreadpoolController()


def blas_limit(threads: int | None) -> contextlib.AbstractContextManager:
    """That many threads for the BLAS of the process while chains run; None: as it is."""
    if threads == 1:
        return quiet_blas
    return contextlib.nullcontext() if threads is None else _limit(threads)
