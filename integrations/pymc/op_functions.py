"""PyTensor's functions of single operations, while we compile a whole graph.

PyTensor keeps each of them in a cache on disk, which means that each is optimised and emitted on
its own, and again where it is called. What is kept of a model is the C function around the whole
graph, in our own store, so here they stay in memory: one that occurs twice is compiled once, and
nothing of PyTensor's cache is read or written. The first process and all later ones then run the
same machine code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numba.core.caching import Cache
from numba.core.compiler_lock import global_compiler_lock
from pytensor.link.numba.cache import NUMBA_CACHE_PATH

from mjhmc_numba.kernel.deferred import can_defer, deferred_libraries
from mjhmc_numba.kernel.shortcuts import shortcuts
from mjhmc_numba.kernel.store import UnsafeCacheWarning, others_can_write
from mjhmc_numba.kernel.user_warnings import warn_user

__all__ = ["compiled_in_one_go"]


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
def compiled_in_one_go(*, inlining: bool = False) -> Iterator[None]:
    """Within it, Numba emits machine code for what has an address alone, and caches in memory.

    Numba inlines nothing unless `inlining` is true; LLVM does. Where Numba's inside is not as
    expected it does as usual; but nothing is unpickled from a cache that other users can write.
    """
    if not can_defer() and not _others_can_write_pytensors_cache():
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

    with global_compiler_lock, deferred_libraries(), shortcuts(inlining=inlining):
        usual = Cache.load_overload, Cache.save_overload
        Cache.load_overload, Cache.save_overload = load, save
        try:
            yield
        finally:
            Cache.load_overload, Cache.save_overload = usual
