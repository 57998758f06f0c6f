"""Draws on disk as they come, in zarr, for ArviZ and xarray to read at any time.

A store holds the groups that ArviZ knows, with arrays as long as the run will be. Each chain writes
its rows and then, in `sample_stats/valid_draws`, how many there are: what lies beyond is not there
yet. Files are written beside their place and renamed, so that a reader sees whole ones.

Format 2 is written, which both generations of the zarr library read and write. A chunk that is
made at once is written to its file from here: the library takes 2 ms for each, and the format is a
compressed array. Many short chains share chunks (`Batch`): with a file for each of 26 variables, a
thousand of them would spend their time on files.
"""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.errors import StorageError
from mjhmc_numba.stats import longest_rectangle

__all__ = ["ChainStore", "Group", "Store", "open_store"]

NUMBERS_PER_CHUNK = 1 << 19  # of all variables and statistics: 4 MB; zarr asks for 1 MB or more
SHORTEST_CHUNK = 16  # draws: a file for each would be slow to read
MANY_CHAINS = 16  # more than these may share chunks: each chunk of each array is a file
BATCH_SECONDS = 5.0  # after which what chains share goes to the disk: what a crash may cost
VALID = "valid_draws"
DIMENSIONS = "_ARRAY_DIMENSIONS"  # where xarray looks for their names
POSTERIOR, STATS = "posterior", "sample_stats"
GROUPS = (POSTERIOR, STATS)


@contextmanager
def _typed(path: Any) -> Iterator[None]:
    """What goes wrong with the disk has one type."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error}. The draws that it says are valid can be read."
        ) from error


class Group(NamedTuple):
    """The form of what is written as it comes, known before the first draw.

    Parameters
    ----------
    variables : mapping of str to (dims, shape, dtype)
        Shapes of one draw, and names of their dimensions.
    rest : xarray.Dataset, optional
        Coordinates, attributes, and variables without draws, written as they are. Numbers are
        the coordinates of other dimensions.
    """

    variables: Mapping[str, tuple[tuple[str, ...], tuple[int, ...], np.dtype]]
    rest: Any = None

    @classmethod
    def of(cls, dataset: Any) -> Group:
        """Of a dataset of any number of draws."""
        drawn = [name for name, values in dataset.data_vars.items() if "draw" in values.dims]
        variables = {
            name: (dataset[name].dims[2:], dataset[name].shape[2:], dataset[name].dtype)
            for name in drawn
        }
        return cls(variables, dataset.drop_vars([*drawn, "chain", "draw"], errors="ignore"))


class Store:
    """A store of several chains.

    Parameters
    ----------
    path : str or path-like
        A folder, which must not be there yet.
    """

    def __init__(self, path: str | os.PathLike):
        try:
            import zarr  # noqa: F401
        except ImportError as error:
            raise StorageError("store= needs zarr: pip install mjhmc_numba[storage]") from error
        if not isinstance(path, (str, os.PathLike)):
            raise StorageError(f"store is the path of a folder, not {path!r}.")
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def create(
        self,
        groups: Mapping[str, Group],
        chains: Sequence[int],
        draws: int,
        *,
        may_share: bool = True,
    ) -> None:
        """Make the store, with room for all draws.

        Parameters
        ----------
        groups : mapping of str to Group
            Of which `posterior` and `sample_stats` are written as draws come.
        chains : sequence of int
            The number of each.
        draws : int
            Of each chain.
        may_share : bool
            Whether many short chains share chunks. They are written together, so that one of
            them cannot go on from a checkpoint alone.
        """
        if self.exists:
            raise StorageError(f"{self.path} exists already; give a path that is not there yet.")
        with _typed(self.path):
            beside = self.path.with_name(self.path.name + ".partial")
            shutil.rmtree(beside, ignore_errors=True)
            most = _chunk(groups)
            chunk, together = min(most, draws), 1
            if may_share and len(chains) > MANY_CHAINS:
                together = min(max(most // max(draws, 1), 1), len(chains))
            for name, group in groups.items():
                _create_group(beside, name, group, chains, draws, (together, chunk))
            _consolidate(beside, groups)
            os.replace(beside, self.path)

    def check(self, chains: int, draws: int, *, is_begun: bool) -> None:
        """Raise unless the store is there, has room for so many draws, and is empty unless the run
        was begun before.
        """
        if not self.exists:
            raise StorageError(f"{self.path}, the store of the checkpoint, is not there.")
        root = _open(self.path)
        shape = root[STATS]["lp"].shape
        if shape != (chains, draws):
            raise StorageError(f"{self.path} is a store of other chains or draws: {shape}.")
        if not is_begun and np.any(root[STATS][VALID][:]):
            raise StorageError(f"{self.path} exists already; give a path that is not there yet.")

    def finish(self, draws: int | None, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        """All chains have ended: note what was tuned, and cut all to so many draws if given."""
        with _typed(self.path):
            root = _open(self.path, "r+")
            for group in GROUPS:
                root[group].attrs.update(dict(attributes[group]))
                for _, array in root[group].arrays():
                    dims = array.attrs.get(DIMENSIONS, [])
                    at = dims.index("draw") if "draw" in dims else None
                    if draws is not None and at is not None and array.shape[at] > draws:
                        array.resize((*array.shape[:at], draws, *array.shape[at + 1 :]))
            _consolidate(self.path, [name for name, _ in root.groups()])

    @property
    def chains(self) -> int:
        """Number of them."""
        return int(_open(self.path)[STATS]["lp"].shape[0])

    def parts(
        self, variables: Callable[[np.ndarray], Mapping[str, np.ndarray]]
    ) -> list[ChainStore]:
        """That of each chain; see there."""
        root = _open(self.path)
        chains, draws = root[STATS]["lp"].shape
        files = {
            (group, name): ChunkFiles.of(self.path / group / name, array)
            for group in GROUPS
            for name, array in root[group].arrays()
        }
        together, chunk = map(int, root[STATS]["lp"].chunks)
        numbers = range(chains)
        parts = range(-(-chains // together))
        batches = [Batch(files, k, numbers[k * together :][:together], draws) for k in parts]
        return [
            ChainStore(
                self.path,
                k,
                chains,
                draws,
                chunk,
                files,
                variables,
                batches[k // together] if together > 1 else None,
            )
            for k in numbers
        ]


class ChunkFiles(NamedTuple):
    """The files of one array, each a chunk."""

    path: Path
    shape: tuple[int, ...]  # of a chunk
    dtype: np.dtype
    fill: Any

    @classmethod
    def of(cls, path: Path, array: Any) -> ChunkFiles:
        """Those of an array as `_create_array` makes them."""
        return cls(path, tuple(array.chunks), array.dtype, array.fill_value)

    def room(self, chains: int) -> np.ndarray:
        """A chunk with nothing in it, of so many chains."""
        return np.full((chains, *self.shape[1:]), self.fill or 0, self.dtype)

    def write(self, at: tuple[int, ...], values: np.ndarray) -> None:
        """Write one chunk; what is missing at its ends is filled up."""
        whole = np.ascontiguousarray(values, self.dtype)
        if whole.shape != self.shape:
            whole = self.room(self.shape[0])
            whole[tuple(map(slice, values.shape))] = values
        inner = (0,) * (len(self.shape) - len(at))
        path = self.path / ".".join(map(str, (*at, *inner)))
        beside = path.with_name(path.name + ".partial")
        beside.write_bytes(_packing().encode(whole))
        os.replace(beside, path)


class Batch:
    """Chains that share chunks. They are held in memory until all are there, and for some seconds.

    Parameters
    ----------
    files : mapping of (str, str) to ChunkFiles
        Of all arrays, by their group and name.
    number : int
        Of the batch.
    chains : range
        Its chains.
    draws : int
        Of each chain.
    """

    def __init__(
        self,
        files: Mapping[tuple[str, str], ChunkFiles],
        number: int,
        chains: range,
        draws: int,
    ):
        self._files, self._number, self._chains, self._draws = files, number, chains, draws
        self._lock = threading.Lock()
        self._made = np.zeros(len(chains), np.int64)
        self._held: dict[tuple[str, str], np.ndarray] = {}
        self._is_new, self._saved = False, time.monotonic()

    def write(self, chain: int, first: int, end: int, values: Mapping) -> None:
        """Take the rows of a chain from the draw `first` on, by group and name of the variable."""
        with self._lock:
            place = chain - self._chains.start
            for key, rows in values.items():
                if key not in self._held:
                    self._held[key] = self._files[key].room(len(self._chains))
                self._held[key][place, first:end] = rows
            self._made[place], self._is_new = end, True
            is_late = time.monotonic() - self._saved >= BATCH_SECONDS
            # A chain that comes in parts takes its time, and readers should see it.
            if end < self._draws or is_late or (self._made == self._draws).all():
                self._save()

    def flush(self) -> None:
        """Write what is held."""
        with self._lock:
            if self._is_new:
                self._save()

    def _save(self) -> None:
        for key, held in self._held.items():
            self._files[key].write((self._number, 0), held)
        self._files[STATS, VALID].write((self._number,), self._made)
        self._is_new, self._saved = False, time.monotonic()
        if (self._made == self._draws).all():
            self._held = {}


@dataclass
class ChainStore:
    """The part of one chain in a store.

    Parameters
    ----------
    path : Path
        Of the store.
    chain : int
        Its place in it.
    chains, draws : int
        All chains, and draws of each.
    chunk : int
        Draws of a chunk.
    files : mapping of (str, str) to ChunkFiles
        Of all arrays, by their group and name.
    variables : callable
        (n, d) draws -> mapping of names to (n, ...) arrays, for the posterior.
    batch : Batch, optional
        Chains that it shares chunks with.
    """

    path: Path
    chain: int
    chains: int
    draws: int
    chunk: int
    files: Mapping[tuple[str, str], ChunkFiles]
    variables: Callable[[np.ndarray], Mapping[str, np.ndarray]]
    batch: Batch | None = None
    _root: Any = field(default=None, repr=False)

    def write(self, first: int, draws: np.ndarray, stats: Mapping[str, np.ndarray]) -> None:
        """Write draws (n, d) and their statistics, each (n,), from the draw `first` on."""
        end = first + len(draws)
        groups = ((POSTERIOR, self.variables(draws)), (STATS, stats))
        values = {
            (group, name): array
            for group, named in groups
            for name, array in named.items()
            if (group, name) in self.files
        }
        with _typed(self.path):
            if self.batch is not None:
                self.batch.write(self.chain, first, end, values)
                return
            is_ended = end == self.draws or len(draws) == self.chunk
            is_chunk = first % self.chunk == 0 and len(draws) <= self.chunk and is_ended
            for key, array in values.items():
                if is_chunk:
                    self.files[key].write((self.chain, first // self.chunk), array[None])
                else:
                    self._array(*key)[self.chain, first:end] = array
            self.files[STATS, VALID].write((self.chain,), np.array([end]))

    def _array(self, group: str, name: str) -> Any:
        if self._root is None:
            self._root = _open(self.path, "r+")
        return self._root[group][name]


def open_store(path: str | os.PathLike) -> dict[str, Any]:
    """The groups of a store as far as the chains have come, also while they run.

    They are cut to as many chains and draws as give most draws in all.

    Parameters
    ----------
    path : str or path-like
        Given as `store=`.

    Returns
    -------
    dict of str to xarray.Dataset
        Read from the disk when they are used.
    """
    import xarray

    if not Path(path).is_dir():
        raise StorageError(f"There is no store at {path}.")
    groups = [name for name, _ in _open(path).groups()]
    found = {
        name: xarray.open_dataset(path, engine="zarr", group=name, consolidated=False)
        for name in groups
    }
    made = found[STATS][VALID].values.tolist()
    kept = longest_rectangle(made)
    valid = slice(min((made[k] for k in kept), default=0))
    return {
        name: group.isel(chain=kept, draw=valid) if "draw" in group.dims else group
        for name, group in found.items()
    }


def _open(path: str | os.PathLike, mode: Any = "r") -> Any:
    import zarr

    options: Any = {"zarr_format": 2} if mode == "a" and _is_newer() else {}
    return zarr.open_group(str(path), mode=mode, **options)


def _create_group(
    path: Path,
    name: str,
    group: Group,
    chains: Sequence[int],
    draws: int,
    chunk: tuple[int, int],
) -> None:
    if group.rest is not None:
        _write_dataset(path, name, group.rest)
    root = _open(path, "a").require_group(name)
    if name not in GROUPS:
        return
    lengths = {"draw": draws}
    for key, (dims, shape, dtype) in group.variables.items():
        lengths |= dict(zip(dims, shape, strict=True))
        whole, part = (len(chains), draws, *shape), (*chunk, *shape)
        _create_array(root, key, whole, part, dtype, ("chain", "draw", *dims))
    for dim, length in lengths.items():
        if dim not in root:
            _write_numbers(root, dim, length)
    _write_array(root, "chain", np.array(chains, np.int64), len(chains))
    if name == STATS:
        _write_array(root, VALID, np.zeros(len(chains), np.int64), chunk[0])


def _write_array(group: Any, name: str, values: np.ndarray, chunk: int) -> None:
    """One number per chain."""
    _create_array(group, name, values.shape, (chunk,), values.dtype, ("chain",))
    group[name][:] = values


def _write_numbers(group: Any, dim: str, length: int, chunk: int = 1 << 17) -> None:
    """0, 1, 2 ... as the coordinates of a dimension, 1 MB at a time."""
    _create_array(group, dim, (length,), (min(length, chunk),), np.dtype(np.int64), (dim,))
    for first in range(0, length, chunk):
        last = min(first + chunk, length)
        group[dim][first:last] = np.arange(first, last)


def _chunk(groups: Mapping[str, Group]) -> int:
    """Draws of a chunk, the same for all arrays."""
    width = sum(
        math.prod(shape) for name in GROUPS for _, shape, _ in groups[name].variables.values()
    )
    return max(NUMBERS_PER_CHUNK // max(width, 1), SHORTEST_CHUNK)


def _write_dataset(path: Path, name: str, dataset: Any) -> None:
    # Of the older library it is the only format.
    options = {"zarr_format": 2} if _is_newer() else {}
    dataset.to_zarr(str(path), group=name, mode="a", consolidated=False, **options)


def _is_newer() -> bool:
    import zarr

    return not zarr.__version__.startswith("2.")


def _create_array(
    group: Any,
    name: str,
    shape: Sequence[int],
    chunks: Sequence[int],
    dtype: np.dtype,
    dims: Sequence[str],
) -> None:
    # xarray takes a fill value for one that is missing; no whole number is.
    options = {
        "fill_value": np.nan if dtype.kind == "f" else None,
        "dtype": dtype,
        "shape": tuple(shape),
        "chunks": tuple(max(n, 1) for n in chunks),
    }
    packed = _packing()
    if _is_newer():
        array = group.create_array(name, compressors=packed, **options)
    else:
        array = group.create_dataset(name, compressor=packed, **options)
    array.attrs[DIMENSIONS] = list(dims)


def _packing() -> Any:
    from numcodecs import Blosc

    return Blosc("lz4", 1)


def _consolidate(path: Path, groups: Any) -> None:
    """One file with the shapes of all arrays, of each group and of all, as readers look for."""
    import zarr

    for name in groups:
        if (path / name).is_dir():
            zarr.consolidate_metadata(str(path), path=name)
    zarr.consolidate_metadata(str(path))
