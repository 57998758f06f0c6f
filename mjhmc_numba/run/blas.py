"""Threads of BLAS while chains run."""

from __future__ import annotations

import contextlib
import threading

from threadpoolctl import threadpool_limits

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
                self._limits.enter_context(threadpool_limits(1, user_api="blas"))
            self._users += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limits.close()


quiet_blas = QuietBlas()


def blas_limit(threads: int | None) -> contextlib.AbstractContextManager:
    """That many threads for the BLAS of the process while chains run; None: as it is."""
    if threads == 1:
        return quiet_blas
    return contextlib.nullcontext() if threads is None else threadpool_limits(threads, "blas")
