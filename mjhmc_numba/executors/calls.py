"""Calls of one function on an executor. A call that is lost with its worker is made again.

Dask and Ray run a call again by themselves when its worker dies. A process pool breaks instead, and
with it all of its calls. Those that it was at, the first in line, then get a process each: if one
of them ends that process too, it was the one. The others go on in a new pool.
"""

from __future__ import annotations

import asyncio
import concurrent.futures as futures
import functools
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from mjhmc_numba.errors import SettingsError

__all__ = ["CANCELLED", "Calls", "check_executor", "is_dask"]

# Dask has one of asyncio's, which is no `Exception`.
CANCELLED = (futures.CancelledError, asyncio.CancelledError)

# Times that a call may end a process that it has for itself: once may be the machine's doing.
TRIES_ALONE = 2


def check_executor(executor: Any) -> None:
    """Raise `SettingsError` unless calls can be submitted to it."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise SettingsError(
            f"executor={executor!r} has no method `submit`: give a concurrent.futures.Executor, a "
            "dask.distributed.Client, or anything else that takes calls as they do."
        )


def is_dask(executor: Any) -> bool:
    """Whether it is a client of Dask, whose futures are its own."""
    return type(executor).__module__.startswith("distributed.") and hasattr(executor, "scheduler")


@dataclass(eq=False)
class _Pool:
    """An executor and the calls that it has not answered."""

    executor: Any
    waiting: dict[int, Any] = field(default_factory=dict)  # their futures
    broken: dict[int, BaseException] = field(default_factory=dict)
    is_for_one: bool = False


class Calls:
    """Calls of one function, on an executor that others own.

    Parameters
    ----------
    executor : concurrent.futures.Executor or dask.distributed.Client
        Where to.
    function : callable
        Can be pickled.
    arguments : sequence of tuple
        One for each call.

    Attributes
    ----------
    rerun : set of int
        Calls that were made again because their worker died.
    """

    def __init__(self, executor: Any, function: Callable, arguments: Sequence[tuple]):
        self._executor, self._function, self._arguments = executor, function, arguments
        self._workers = getattr(executor, "_max_workers", 1)
        # Dask takes equal calls for one, and would answer a second try with the first one's error.
        self._keywords = {"pure": False} if is_dask(executor) else {}
        self._ended: queue.SimpleQueue = queue.SimpleQueue()
        self._pools = [_Pool(executor)]
        self._later: list[int] = []  # until those that may have broken the pool have ended
        self._deaths = dict.fromkeys(range(len(arguments)), 0)
        self._cancelled = False
        self.rerun: set[int] = set()
        self._submit(self._pools[0], range(len(arguments)))

    @property
    def waiting(self) -> int:
        """How many have not ended."""
        return sum(len(pool.waiting) for pool in self._pools) + len(self._later)

    def ended(self, timeout: float) -> Iterator[tuple[int, Any, BaseException | None]]:
        """Calls that have ended since: (number, what it returned, what it raised).

        Waits for the first of them at most `timeout` seconds.
        """
        while True:
            try:
                pool, k, future = self._ended.get(timeout=timeout)
            except queue.Empty:
                return
            timeout = 0.0
            if pool.waiting.get(k) is future:
                yield from self._take(pool, k, future)

    def cancel(self) -> None:
        """Cancel the calls that have not begun; no call is made again from now on."""
        self._cancelled = True
        for pool in self._pools:
            for future in list(pool.waiting.values()):
                future.cancel()

    def close(self) -> None:
        """End the pools that were made here."""
        for pool in self._pools:
            if pool.executor is not self._executor:
                pool.executor.shutdown(wait=False)

    # ------------------------------------------------------------------ one by one

    def _submit(self, pool: _Pool, calls: Sequence[int]) -> None:
        for k in calls:
            try:
                future = pool.executor.submit(self._function, *self._arguments[k], **self._keywords)
            except futures.BrokenExecutor as error:
                future = futures.Future()
                future.set_exception(error)
            pool.waiting[k] = future
        for k in calls:  # not before all are noted: a broken pool is known by its last call
            pool.waiting[k].add_done_callback(functools.partial(self._note, pool, k))

    def _note(self, pool: _Pool, k: int, future: Any) -> None:
        self._ended.put((pool, k, future))

    def _take(self, pool: _Pool, k: int, future: Any) -> Iterator[tuple]:
        value, error = None, None  # type: Any, BaseException | None
        try:
            value = future.result()
        except futures.BrokenExecutor as broken:
            if not self._cancelled:
                pool.broken[k] = broken
                if len(pool.broken) == len(pool.waiting):
                    yield from self._replace(pool)
                return
            error = broken
        except (Exception, *CANCELLED) as raised:
            error = raised
        del pool.waiting[k]
        yield k, value, error
        if pool.is_for_one:
            pool.executor.shutdown(wait=False)
            self._pools.remove(pool)
            yield from self._go_on({})

    # ----------------------------------------------------------------- broken pools

    def _replace(self, pool: _Pool) -> Iterator[tuple]:
        """Make the calls of a broken pool again. It was at the first of them when it broke."""
        self._pools.remove(pool)
        lost = sorted(pool.waiting)
        suspects = lost if pool.is_for_one else lost[: self._workers]
        self._later += lost[len(suspects) :]
        for k in suspects:
            self._deaths[k] += pool.is_for_one
            alone = None if self._deaths[k] >= TRIES_ALONE else _like(self._executor, 1)
            if alone is None:
                yield k, None, pool.broken[k]
                continue
            self.rerun.add(k)
            self._pools.append(_Pool(alone, is_for_one=True))
            self._submit(self._pools[-1], [k])
        if pool.executor is not self._executor:
            pool.executor.shutdown(wait=False)
        yield from self._go_on(pool.broken)

    def _go_on(self, broken: dict[int, BaseException]) -> Iterator[tuple]:
        """Make the calls that stood in line, once those that may have broken a pool have ended."""
        if not self._later or any(pool.is_for_one and pool.waiting for pool in self._pools):
            return
        calls, self._later = self._later, []
        new = None if self._cancelled else _like(self._executor, self._workers)
        if new is None:
            error = futures.CancelledError()
            yield from ((k, None, broken.get(k, error)) for k in calls)
            return
        self._pools.append(_Pool(new))
        self._submit(self._pools[-1], calls)


def _like(executor: Any, workers: int) -> Any:
    """A pool of the same kind; None if it is not known how to make one."""
    if not hasattr(executor, "_initializer"):
        return None
    begin = {"initializer": executor._initializer, "initargs": executor._initargs}
    if type(executor) is ProcessPoolExecutor:
        return ProcessPoolExecutor(workers, executor._mp_context, **begin)
    if type(executor).__module__.startswith("loky."):
        import loky

        return loky.ProcessPoolExecutor(workers, context=executor._context, **begin)
    return None
