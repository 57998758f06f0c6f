"""The arrays beside x that a compiled density reads: owned here, listed in a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mjhmc_numba.pymc.errors import ModelChangedError

__all__ = ["ArrayTable"]


class ArrayTable:
    """Copies of arrays, and an int64 table of their addresses and shapes.

    A value of the same shape is written in place; another shape gets a new array and a new
    address. The table itself never moves, so machine code may hold on to it.

    Attributes
    ----------
    arrays : list of ndarray
        contiguous, of the dtypes and numbers of dimensions that were compiled
    table : int64 array
        for each array its address and then its shape
    """

    def __init__(self, arrays: Sequence[np.ndarray]):
        # np.array keeps 0-d arrays 0-d, which np.ascontiguousarray does not.
        self.arrays = [np.array(a, order="C") for a in arrays]
        self._starts = np.cumsum([0, *(1 + a.ndim for a in self.arrays)]).tolist()
        self.table = np.zeros(max(1, self._starts[-1]), np.int64)
        for k in range(len(self.arrays)):
            self._enter(k)

    def _enter(self, k: int) -> None:
        array, at = self.arrays[k], self._starts[k]
        self.table[at] = array.ctypes.data
        self.table[at + 1 : at + 1 + array.ndim] = array.shape

    @property
    def used(self) -> int:
        """Number of entries of the table that mean something."""
        return self._starts[-1]

    def copy(self) -> ArrayTable:
        return ArrayTable(self.arrays)

    def set(self, k: int, value, name: str) -> bool:
        """Give array k a new value; says whether it differs from the old one."""
        old = self.arrays[k]
        value = np.asarray(value)
        if value.ndim != old.ndim:
            raise ModelChangedError(
                f"{name} has {value.ndim} dimensions and had {old.ndim} when the model was "
                "compiled. Compile the model again."
            )
        if value.dtype != old.dtype:
            value = _cast(value, old.dtype, name)
        if value.shape == old.shape:
            if np.array_equal(value, old, equal_nan=old.dtype.kind == "f"):
                return False
            old[...] = value
        else:
            self.arrays[k] = np.array(value, order="C")
            self._enter(k)
        return True

    def __getstate__(self):
        return {"arrays": self.arrays}

    def __setstate__(self, state):
        self.__init__(state["arrays"])


def _cast(value, dtype, name):
    cast = value.astype(dtype)
    if not np.can_cast(value.dtype, dtype, "same_kind") and not np.array_equal(cast, value):
        raise ModelChangedError(
            f"{name} is {value.dtype} and was {dtype} when the model was compiled; the new values "
            f"do not fit into {dtype}. Compile the model again."
        )
    return cast
