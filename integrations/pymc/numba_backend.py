"""PyTensor's Numba backend, even where the folder that it wants cannot be made.

PyTensor makes its folder of compiled code when the backend is imported, and an OSError there (a
disk that is full or for reading only) would keep this package from being imported. Nothing is read
or written there unless a model is sampled through PyTensor's own function.
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytensor

from mjhmc_numba.kernel.store import CacheWarning
from mjhmc_numba.kernel.user_warnings import warn_user

__all__ = [
    "NUMBA_CACHE_PATH",
    "NumbaLinker",
    "compile_numba_function_src",
    "numba_funcify",
    "numba_funcify_and_cache_key",
]


def _import_cache() -> Any:
    """The module of PyTensor's cache; with a folder that this process removes, if need be."""
    name = "pytensor.link.numba.cache"
    try:
        return importlib.import_module(name)
    except OSError as error:
        folder = tempfile.mkdtemp(prefix="pytensor-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        # PyTensor forbids to set it once it was read, and the import has just read it.
        parameter: Any = pytensor.config._config_var_dict["base_compiledir"]
        parameter.val = Path(folder)
        warn_user(
            f"PyTensor's folder of compiled code cannot be made ({error.strerror}: "
            f"{error.filename}). It has a temporary one until this process ends. Set "
            "PYTENSOR_FLAGS=base_compiledir=... to a folder that can be written.",
            CacheWarning,
        )
        return importlib.import_module(name)


_cache = _import_cache()
_basic = importlib.import_module("pytensor.link.numba.dispatch.basic")

NUMBA_CACHE_PATH: Path = _cache.NUMBA_CACHE_PATH
compile_numba_function_src = _cache.compile_numba_function_src
numba_funcify = _basic.numba_funcify
numba_funcify_and_cache_key = _basic.numba_funcify_and_cache_key
NumbaLinker: Any = importlib.import_module("pytensor.link.numba.linker").NumbaLinker
