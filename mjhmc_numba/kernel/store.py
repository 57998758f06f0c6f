"""Machine code on disk: what one process has compiled, the next one loads.

There is a folder for each environment (Python, Numba, LLVM, the processor, our own sources), so
that several live side by side; the ones that were not used for longest are removed. A file is a
checksum and a pickle. Anyone who can write it can run code as its reader, so the folder is made for
its owner alone and is refused when others can write to it. No trouble with the disk stops
anybody: the code is compiled again, and one warning says why.
"""

import hashlib
import os
import pickle
import re
import stat
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import config
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from mjhmc_numba.kernel.deferred import can_defer
from mjhmc_numba.kernel.user_warnings import warn_user

__all__ = [
    "CacheWarning",
    "UnsafeCacheWarning",
    "cache_folder",
    "holds",
    "load",
    "save",
    "sources_stamp",
]

FORMAT = 1
# So many environments are kept, and so many files of each (a model has one or two, of 0.2 MB): 0.6
# GB of the disk at most. The oldest go first.
MOST_ENVIRONMENTS, MOST_FILES = 8, 400


class CacheWarning(UserWarning):
    """The cache cannot be read or written; code is compiled in every process instead."""


class UnsafeCacheWarning(CacheWarning):
    """The cache folder can be written by others."""


_told: list[str] = []  # the trouble that this process has warned of: one is enough


def _warn(category: type[Warning], trouble: str) -> None:
    if not _told:
        _told.append(trouble)
        warn_user(
            f"{trouble} Machine code is compiled in every process instead. Give yourself a folder "
            "that is yours alone (chmod 700) and has room, or set MJHMC_NUMBA_CACHE_DIR to one.",
            category,
        )


def _trouble(doing: str, error: BaseException) -> None:
    reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
    _warn(CacheWarning, f"The cache of compiled code cannot be {doing} ({reason}).")


def _root() -> Path:
    chosen = os.environ.get("MJHMC_NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mjhmc_numba"


def others_can_write(folder: Path) -> bool:
    """Whether another user could have put something into a folder.

    The superuser could anywhere: a folder of an image that they built is as good as our own.
    """
    info = folder.stat()
    if hasattr(os, "getuid") and info.st_uid not in (os.getuid(), 0):
        return True
    return os.name == "posix" and bool(info.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _make(folder: Path) -> None:
    """Make a folder for its owner alone, and its parents as well, whatever the umask."""
    if not folder.exists():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


@cache
def cache_folder() -> Path | None:
    """The folder of compiled code, or None where there is no safe one."""
    try:
        root = _root()
        _make(root)
        unsafe = others_can_write(root)
    except (OSError, RuntimeError) as error:  # no home, no user of that number
        _trouble("made", error)
        return None
    if unsafe:
        text = f"The cache of compiled code {root} can be written by other users."
        _warn(UnsafeCacheWarning, text)
        return None
    return root


@cache
def sources_stamp(*places: Path) -> str:
    """Hash over sources: of every module in a folder, and of single files.

    Parameters
    ----------
    *places : Path
        Folders and files; the kernel by default.
    """
    digest = hashlib.sha256()
    for place in places or (Path(__file__).parent,):
        for path in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def environment() -> tuple:
    """All that machine code depends on beside the function that it is of."""
    return (
        FORMAT,
        sys.implementation.cache_tag,
        sys.version_info[:3],
        numba.__version__,
        llvmlite.__version__,
        np.__version__,
        cpu_target.target_context.codegen().magic_tuple(),
        (int(config.OPT), config.LOOP_VECTORIZE, config.SLP_VECTORIZE, config.BOUNDSCHECK),
        can_defer(),
        sources_stamp(),
    )


@cache
def environment_folder() -> Path | None:
    """The folder of this environment; others that were not used for long are removed."""
    root = cache_folder()
    if root is None:
        return None
    folder = root / hashlib.sha256(repr(environment()).encode()).hexdigest()[:20]
    try:
        _make(folder)
        if others_can_write(folder):
            raise PermissionError(None, "other users can write to it")
    except OSError as error:
        _trouble("made", error)
        return None
    with suppress(OSError):  # a folder for reading only is read
        os.utime(folder)
        _keep_newest_folders(root, MOST_ENVIRONMENTS)
    return folder


def _newest_first(paths: Iterable[Path]) -> list[Path]:
    """What another process has removed meanwhile comes last."""

    def age(path):
        try:
            return -path.stat().st_mtime
        except OSError:
            return 0.0

    return sorted(paths, key=age)


def _keep_newest_files(folder: Path, number: int) -> None:
    for path in _newest_first(p for p in folder.iterdir() if p.suffix in (".bin", ".part"))[
        number:
    ]:
        path.unlink(missing_ok=True)


def _keep_newest_folders(root: Path, number: int) -> None:
    """Remove the environments that were not used for longest; nothing else that is in the root."""
    ours = [path for path in root.iterdir() if re.fullmatch("[0-9a-f]{20}", path.name)]
    for folder in _newest_first(ours)[number:]:
        try:
            _keep_newest_files(folder, 0)
            folder.rmdir()
        except OSError:
            continue


def holds(name: str) -> bool:
    """Whether something was saved under a name."""
    folder = environment_folder()
    return folder is not None and (folder / f"{name}.bin").exists()


def load(name: str) -> Any:
    """What was saved under a name; None if there is nothing, or nothing that can be read."""
    folder = environment_folder()
    if folder is None:
        return None
    path = folder / f"{name}.bin"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _trouble("read", error)
        return None
    checksum, data = content[:32], content[32:]
    try:
        if hashlib.sha256(data).digest() != checksum:
            raise ValueError("a file is damaged")
        found = pickle.loads(data)
        os.utime(path)
    except OSError:  # a folder for reading only
        return found
    except Exception as error:  # a pickle may raise anything
        _trouble("read", error)
        return None
    return found


def save(name: str, value: Any) -> None:
    """Save a value under a name, all of it or nothing."""
    folder = environment_folder()
    if folder is None:
        return
    part = None
    try:
        data = dumps(value)
        handle, part = tempfile.mkstemp(dir=folder, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(part, folder / f"{name}.bin")
        part = None
        _keep_newest_files(folder, MOST_FILES)
    except Exception as error:  # a full disk; or something that no pickle can hold
        _trouble("written", error)
    finally:
        if part is not None:
            Path(part).unlink(missing_ok=True)
