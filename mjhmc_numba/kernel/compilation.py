"""How the kernel is compiled: `@njit(nogil=True)`, cached on disk in a folder of its own.

Numba's stock cache looks at the file of the function it stores and not at the files of the
functions that one calls, so an edit of `rates.py` would leave a stale `chain.py` behind. Here
the stamp of every entry is a hash over all files of `kernel/`: edit any, and all are stale.

A cache index is unpickled when it is read, so whoever can write it can run code as the reader.
The folder is created for its owner alone (0700) and refused when others can write to it.
"""

import hashlib
import os
import stat
import warnings
from functools import cache
from pathlib import Path

from numba import config, njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.registry import CPUDispatcher

from mjhmc_numba.kernel.deferred import can_defer, deferred_libraries

__all__ = ["UnsafeCacheWarning", "cache_folder", "kernel_jit", "sources_stamp"]

# Sums may be reordered and products fused, so that dot products vectorise. NaN and infinity
# keep their meaning: energies rely on them.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}


class UnsafeCacheWarning(UserWarning):
    """The cache folder can be written by others; the kernel is compiled anew instead."""


def _root() -> Path:
    chosen = os.environ.get("MJHMC_NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mjhmc_numba"


def _others_can_write(folder: Path) -> bool:
    info = folder.stat()
    if hasattr(os, "getuid") and info.st_uid != os.getuid():
        return True
    return os.name == "posix" and bool(info.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


@cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels, or None where there is no safe one."""
    root = _root()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        wrong = "can be written by other users" if _others_can_write(root) else None
    except OSError as error:
        wrong = f"cannot be made ({error.strerror})"
    if wrong is None:
        return root
    warnings.warn(
        f"The kernel cache {root} {wrong}, so it is not used and the kernel is compiled in every "
        "process. Give yourself a folder that is yours alone (chmod 700), or set "
        "MJHMC_NUMBA_CACHE_DIR to one.",
        UnsafeCacheWarning,
        stacklevel=2,
    )
    return None


@cache
def sources_stamp() -> str:
    """Hash over the sources of every kernel module."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _KernelLocator(_CacheLocator):
    def __init__(self, py_func, py_file):
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno

    def get_cache_path(self):
        return str(cache_folder())

    def get_source_stamp(self):
        return sources_stamp()

    def get_disambiguator(self):
        # Two checkouts of different sources may share a machine.
        return f"{self._lineno}-{sources_stamp()[:12]}"

    @classmethod
    def from_function(cls, py_func, py_file):
        return cls(py_func, py_file)


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes = [_KernelLocator]


class _KernelCache(FunctionCache):
    _impl_class = _KernelCacheImpl


class _InnerDispatcher(CPUDispatcher):
    """A kernel function as other compiled functions see it: without wrappers for Python and C."""

    def get_call_template(self, args, kws):
        # Numba would compile `row(a, p, 1)` and `row(a, p, 2)` one by one, for the literals.
        return super().get_call_template(tuple(types.unliteral(a) for a in args), kws)

    def compile(self, sig):
        with deferred_libraries():
            return super().compile(sig)


class _KernelDispatcher(CPUDispatcher):
    """A kernel function as Python sees it: an entry point, with machine code of its own."""

    def __init__(self, py_func, types_of_locals=None, targetoptions=None, **kwargs):
        options = dict(targetoptions or {}, no_cfunc_wrapper=True)
        super().__init__(py_func, types_of_locals, options, **kwargs)
        inner_options = options | {"no_cpython_wrapper": True}
        self.inner = _InnerDispatcher(py_func, types_of_locals, inner_options)

    @property
    def _numba_type_(self):
        return types.Dispatcher(self.inner)

    def compile(self, sig):
        with deferred_libraries():
            return super().compile(sig)


def kernel_jit(function):
    """Compile a kernel function lazily, with the GIL released, and cache it on disk."""
    if can_defer() and not config.DISABLE_JIT:
        dispatcher = _KernelDispatcher(function, targetoptions=OPTIONS | {"nopython": True})
    else:
        dispatcher = njit(**OPTIONS)(function)
    if cache_folder() is not None:
        dispatcher._cache = _KernelCache(function)
    return dispatcher
