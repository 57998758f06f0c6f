"""PyTensor's functions of single operations, while we compile a whole graph.

PyTensor keeps each of them in a cache on disk, which means that each is optimised and emitted on
its own, and again where it is called. What is kept of a model is the C function around the whole
graph, in our own store, so here they stay in memory: one that occurs twice is compiled once, and
nothing of PyTensor's cache is read or written. The first process and all later ones then run the
same machine code. PyTensor's own function, by which a model without native code is sampled, does
use its cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from numba.core.caching import Cache
from numba.core.compiler_lock import global_compiler_lock

from mjhmc_numba.kernel.deferred import can_defer, deferred_libraries
from mjhmc_numba.kernel.shortcuts import shortcuts
from mjhmc_numba.kernel.store import CacheWarning, UnsafeCacheWarning, others_can_write
from mjhmc_numba.kernel.user_warnings import warn_user
from mjhmc_numba.pymc.numba_backend import NUMBA_CACHE_PATH

__all__ = ["compiled_in_one_go", "with_safe_cache"]


def _others_can_write_pytensors_cache() -> bool:
    unsafe = others_can_write(NUMBA_CACHE_PATH)
    if unsafe:
        warn_user(
            f"PyTensor's cache {NUMBA_CACHE_PATH} can be written by other users, so it is not "
            "used. Give yourself a folder that is yours alone (chmod 700).",
            UnsafeCacheWarning,
        )
    return unsafe


@contextmanager
def _cached_by(load: Callable, save: Callable) -> Iterator[None]:
    """Within it, Numba's caches on disk are asked in this way."""
    with global_compiler_lock:  # other threads wait for it before they compile anything
        usual = Cache.load_overload, Cache.save_overload
        Cache.load_overload, Cache.save_overload = load, save
        try:
            yield
        finally:
            Cache.load_overload, Cache.save_overload = usual


@contextmanager
def _safe_cache() -> Iterator[None]:
    """Within it, no trouble with PyTensor's cache stops anybody: one warning says why.

    What other users can write is neither read nor written.
    """
    unsafe = _others_can_write_pytensors_cache()
    usual_load, usual_save = Cache.load_overload, Cache.save_overload
    told: list[str] = []

    def tell(doing: str, error: Exception) -> None:
        if not told:
            told.append(doing)
            warn_user(
                f"PyTensor's cache {NUMBA_CACHE_PATH} cannot be {doing} ({type(error).__name__}: "
                f"{error}). Machine code is compiled in every process instead. Remove the "
                "folder, or set PYTENSOR_FLAGS=base_compiledir=... to another one.",
                CacheWarning,
            )

    def load(self, sig, target_context):
        try:
            return None if unsafe else usual_load(self, sig, target_context)
        except Exception as error:  # a pickle may raise anything
            tell("read", error)
            return None

    def save(self, sig, result):
        try:
            if not unsafe:
                usual_save(self, sig, result)
        except Exception as error:  # a full disk; or an index that cannot be read
            tell("written", error)

    with _cached_by(load, save):
        yield


def with_safe_cache(function: Callable) -> Callable:
    """PyTensor's own function, which Numba compiles in its first call: see `_safe_cache`."""
    compiled = threading.Event()

    def call(*arguments):
        with nullcontext() if compiled.is_set() else _safe_cache():
            result = function(*arguments)
        compiled.set()
        return result

    return call


@contextmanager
def compiled_in_one_go(*, inlining: bool = False) -> Iterator[None]:
    """Within it, Numba emits machine code for what has an address alone, and caches in memory.

    Numba inlines nothing unless `inlining` is true; LLVM does. Where Numba's inside is not as
    expected it does as usual, with PyTensor's cache where that is safe.
    """
    if not can_defer():
        with _safe_cache():
            yield
        return
    compiled: dict = {}

    def load(self, sig, target_context):
        key = self._impl.filename_base, self._index_key(sig, target_context.codegen())
        found = compiled.get(key)
        # Numba writes times into the metadata, once.
        return None if found is None else found._replace(metadata=None)

    def save(self, sig, result):
        compiled[self._impl.filename_base, self._index_key(sig, result.codegen)] = result

    with _cached_by(load, save), deferred_libraries(), shortcuts(inlining=inlining):
        yield
