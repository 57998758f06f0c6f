"""Checkpoints: a folder from which a run that was stopped goes on, bit for bit.

| file | what it holds |
|---|---|
| `run` | what was asked for, and a random name of the run |
| `chain-0` | what chain 0 needs to go on, and how many files of draws belong to it |
| `chain-0-000000` | the draws between two checkpoints |

A chain writes its draws first and then what it needs to go on. So each checkpoint costs as much as
is new, and a process that is killed at any moment leaves the last whole one. Files of draws that
`chain-0` does not count are written again.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.errors import CheckpointError, SettingsError
from mjhmc_numba.storage import files

__all__ = ["ChainFiles", "Checkpoint", "SavedChain"]

EVERY = 60.0  # seconds between two checkpoints of a chain: what a crash may cost
RUN = "run"


class SavedChain(NamedTuple):
    """What was saved of a chain: its state, and its draws in parts."""

    state: dict[str, Any]
    parts: list[dict[str, Any]]


@dataclass
class ChainFiles:
    """The files of one chain; sent to its worker with its task.

    Parameters
    ----------
    folder : Path
        Of the checkpoint.
    run : str
        Name of the run, in every file.
    chain : int
        Its number.
    every : float
        Seconds between two checkpoints.
    parts : int
        Files of draws that are written.
    """

    folder: Path
    run: str
    chain: int
    every: float
    parts: int = 0
    _last: float = field(default_factory=time.monotonic)

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self._last >= self.every

    def save(self, state: dict[str, Any], part: dict[str, Any]) -> None:
        """Write a checkpoint: the draws since the last, and what the chain needs to go on."""
        files.write(self._part(self.parts), {"run": self.run, "part": part})
        self.parts += 1
        files.write(self._state, {"run": self.run, "parts": self.parts, "state": state})
        self._last = time.monotonic()

    def load(self) -> SavedChain | None:
        """What was saved last; None if nothing was."""
        if not self._state.exists():
            return None
        saved = self._read(self._state)
        parts = [self._read(self._part(k))["part"] for k in range(saved["parts"])]
        self.parts = saved["parts"]
        return SavedChain(saved["state"], parts)

    @property
    def _state(self) -> Path:
        return self.folder / f"chain-{self.chain}"

    def _part(self, k: int) -> Path:
        return self.folder / f"chain-{self.chain}-{k:06d}"

    def _read(self, path: Path) -> dict[str, Any]:
        saved = files.read(path)
        if saved.get("run") != self.run:
            raise CheckpointError(f"{path} belongs to another run than {self.folder / RUN}.")
        return saved


class Checkpoint:
    """The checkpoint of a run, a folder that is made if it is not there.

    Parameters
    ----------
    path : str or path-like
        The folder.
    every : float
        Seconds between two checkpoints of a chain.
    """

    def __init__(self, path: str | os.PathLike, every: float = EVERY):
        if not isinstance(path, (str, os.PathLike)):
            raise SettingsError(f"checkpoint is the path of a folder, not {path!r}.")
        is_number = isinstance(every, (int, float, np.number)) and not isinstance(every, bool)
        if not (is_number and 0 <= every < math.inf):
            raise SettingsError(f"every is a number of seconds, not {every!r}.")
        self.folder, self.every = Path(path), float(every)
        self._begun = self._read_run()
        begun = self._begun or {"run": uuid.uuid4().hex, "entropy": secrets.randbits(128)}
        self.run, self._entropy = begun["run"], begun["entropy"]

    @property
    def is_begun(self) -> bool:
        """Whether there is a run to go on with."""
        return self._begun is not None

    def _read_run(self) -> dict[str, Any] | None:
        if self.folder.exists() and not self.folder.is_dir():
            raise CheckpointError(f"{self.folder} is a file; a checkpoint is a folder.")
        if not (self.folder / RUN).exists():
            if self.folder.exists() and any(self.folder.iterdir()):
                raise CheckpointError(
                    f"{self.folder} holds other files; give a folder that is empty or new."
                )
            return None
        begun = files.read(self.folder / RUN)
        made_by = begun.get("mjhmc_numba")
        if made_by != version("mjhmc_numba"):
            raise CheckpointError(
                f"{self.folder} was made by mjhmc_numba {made_by}, and this is "
                f"{version('mjhmc_numba')}: it cannot go on bit for bit. Use that version, or "
                "another folder."
            )
        return begun

    def seed(self, given: Any) -> Any:
        """The seed: the given one, or where none is given that of the run so far or a new one."""
        return self._entropy if given is None else given

    @contextlib.contextmanager
    def open(self, asked: dict[str, Any], chains: int) -> Iterator[list[ChainFiles]]:
        """The files of all chains, for this run alone.

        Parameters
        ----------
        asked : dict
            What was asked for, as plain data; it must be what the run was begun with.
        chains : int
            Number of chains.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with _alone(self.folder):
            if self._begun is None:
                made_by = version("mjhmc_numba")
                begun = {"run": self.run, "mjhmc_numba": made_by, "entropy": self._entropy}
                files.write(self.folder / RUN, begun | {"asked": asked})
            else:
                self._check(self._begun["asked"], asked)
            yield [ChainFiles(self.folder, self.run, k, self.every) for k in range(chains)]

    def _check(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        names = [name for name in {**before, **now} if not _same(before.get(name), now.get(name))]
        if names:
            raise CheckpointError(
                f"{self.folder} was begun by another call; what differs: {', '.join(names)}. "
                "Repeat that call to go on, or give another folder."
            )


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Raise if another run uses the folder now. The lock goes with the process that holds it."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CheckpointError(f"Another run is using {folder}.") from error
        yield
    finally:
        os.close(handle)


def _same(one: Any, other: Any) -> bool:
    """Whether plain data agree in every bit."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        return one.dtype == other.dtype and one.shape == other.shape and bytes(one) == bytes(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))
