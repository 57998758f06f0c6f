"""Files of plain data that are either whole or refused.

A file is one line of JSON (format, version, length, SHA-256) and an archive of arrays in NumPy's
format, of which the first holds the rest as JSON. Nothing in it is ever executed: there is no
pickle. A file is written beside its place, flushed to the disk and renamed, so that it holds
either what it held before or all that is new, whenever the process or the machine stops.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from mjhmc_numba.errors import CheckpointError

__all__ = ["read", "write"]

FORMAT, VERSION = "mjhmc_numba checkpoint", 1
LONGEST_LINE = 1000  # bytes, of the first line, which has 150: of another file no more is read

# An array, or bytes, of the archive in the place where it was.
ARRAY, BYTES = "__array__", "__bytes__"


def write(path: Path, value: Any) -> None:
    """Write plain data, as `saving.save` returns it."""
    payload = _pack(value)
    line = {
        "format": FORMAT,
        "version": VERSION,
        "length": len(payload),
        "sha256": hashlib.sha256(payload).hexdigest(),
    }
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with open(beside, "xb") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _flush_folder(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise CheckpointError(f"{path} cannot be written: {error}") from error
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def read(path: Path) -> Any:
    """What was written.

    Raises
    ------
    CheckpointError
        If the file is not one of ours, of another version, or damaged.
    """
    try:
        with open(path, "rb") as file:
            line = _first_line(path, file.readline(LONGEST_LINE))
            payload = file.read()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if len(payload) != line["length"] or hashlib.sha256(payload).hexdigest() != line["sha256"]:
        raise CheckpointError(
            f"{path} is damaged: it does not have the checksum that it was written with."
        )
    try:
        return _unpack(payload)
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error


def _first_line(path: Path, text: bytes) -> dict[str, Any]:
    try:
        line = json.loads(text)
        if line["format"] != FORMAT:
            raise ValueError(line["format"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is no checkpoint of mjhmc_numba.") from error
    if line.get("version") != VERSION:
        raise CheckpointError(
            f"{path} is a checkpoint of format {line.get('version')}; this version of mjhmc_numba "
            f"reads format {VERSION}."
        )
    if not {"length", "sha256"} <= line.keys():
        raise CheckpointError(f"{path} is damaged: its first line is not whole.")
    return line


def _flush_folder(folder: Path) -> None:
    """So that a new name outlives a power cut, where the system can open a folder."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _pack(value: Any) -> bytes:
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(_without_arrays(value, arrays)).encode()
    buffer = io.BytesIO()
    np.savez(buffer, **{"header": np.frombuffer(text, np.uint8)}, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpack(payload: bytes) -> Any:
    with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        value = json.loads(archive["header"].tobytes())
        return _with_arrays(value, archive)


def _without_arrays(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    name = f"a{len(arrays)}"
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("An array of objects would be pickled.")
        arrays[name] = value
        return {ARRAY: name}
    if isinstance(value, bytes):
        arrays[name] = np.frombuffer(value, np.uint8)
        return {BYTES: name}
    if isinstance(value, dict):
        return {name: _without_arrays(item, arrays) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_arrays(item, arrays) for item in value]
    return value


def _with_arrays(value: Any, archive: Any) -> Any:
    if isinstance(value, dict):
        if ARRAY in value:
            return archive[value[ARRAY]]
        if BYTES in value:
            return archive[value[BYTES]].tobytes()
        return {name: _with_arrays(item, archive) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_arrays(item, archive) for item in value]
    return value
