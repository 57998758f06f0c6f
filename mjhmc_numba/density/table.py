"""The table of arrays that a density reads beside x: one record per array.

The C function gets the address of the first record. Record 0 describes x itself, whose address
comes with each call; the arrays follow, and after them what an expansion writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from mjhmc_numba.errors import TargetError

__all__ = ["ENTRY", "MAX_NDIM", "ArrayField", "ArrayTable", "array_of"]

# As many as NumPy 1 allows.
MAX_NDIM = 32

# A record of the table, as C code sees it. Only the first `ndim` numbers of `shape` count.
ENTRY = np.dtype([("address", np.int64), ("ndim", np.int64), ("shape", np.int64, (MAX_NDIM,))])

# In bytes from the beginning of a record.
_OFFSETS = {name: field[1] for name, field in (ENTRY.fields or {}).items()}


class ArrayField(NamedTuple):
    """What machine code was compiled for: an array of this name, dtype and number of dimensions.

    Arrays are contiguous, in C order; a number is an array of no dimensions.
    """

    name: str
    dtype: np.dtype
    ndim: int

    @classmethod
    def of(cls, name: str, array: np.ndarray) -> ArrayField:
        if array.ndim > MAX_NDIM:
            raise TargetError(f"{name} has {array.ndim} dimensions; at most {MAX_NDIM} can be.")
        return cls(name, array.dtype, array.ndim)

    def take(self, value) -> np.ndarray:
        """The value as an array of this field; raises `TargetError` if it does not fit."""
        value = np.asarray(value)
        if value.ndim != self.ndim:
            raise TargetError(
                f"{self.name} has {value.ndim} dimensions and had {self.ndim} when the density "
                "was compiled."
            )
        if value.dtype == self.dtype:
            return value
        cast = value.astype(self.dtype)
        if not np.can_cast(value.dtype, self.dtype, "same_kind") and not np.array_equal(
            cast, value
        ):
            raise TargetError(
                f"{self.name} is {value.dtype} and was {self.dtype} when the density was "
                f"compiled; the new values do not fit into {self.dtype}."
            )
        return cast


class ArrayTable:
    """Arrays, and the records that tell machine code where they are.

    The table owns its records, which never move, and holds a reference to each array. The arrays
    are copies of what it was given and are not written again: `set` puts another in the place.
    Copies of a table share the arrays and have records of their own.

    Parameters
    ----------
    ndim : int
        length of x
    arrays : sequence
        values to be copied
    names : sequence of str, optional
        one for each array, for messages
    outputs : sequence of ArrayField
        arrays that are written per draw; see `connect`

    Attributes
    ----------
    entries : ndarray of ENTRY
        the last argument of the C function
    fields : tuple of ArrayField
        what each array must be
    arrays : list of ndarray
        to be read only
    """

    def __init__(
        self,
        ndim: int,
        arrays: Sequence = (),
        names: Sequence[str] | None = None,
        outputs: Sequence[ArrayField] = (),
    ):
        # np.array keeps 0-d arrays 0-d, which np.ascontiguousarray does not.
        self._fill(ndim, [np.array(a, order="C") for a in arrays], names, outputs)

    def _fill(self, ndim, arrays, names, outputs) -> None:
        if names is None:
            names = [f"array {k}" for k in range(len(arrays))]
        self.ndim, self.arrays, self.outputs = int(ndim), arrays, tuple(outputs)
        self.fields = tuple(ArrayField.of(n, a) for n, a in zip(names, arrays, strict=True))
        self.entries = np.zeros(1 + len(self.fields) + len(self.outputs), ENTRY)
        self.entries[0]["ndim"] = 1
        self.entries[0]["shape"][0] = self.ndim
        for k in range(len(arrays)):
            self._enter(k)
        for entry, field in zip(self.entries[1 + len(arrays) :], self.outputs, strict=True):
            entry["ndim"] = field.ndim

    def _enter(self, k: int) -> None:
        entry, array = self.entries[1 + k], self.arrays[k]
        entry["ndim"] = array.ndim
        entry["shape"][: array.ndim] = array.shape
        entry["address"] = array.ctypes.data

    def copy(self) -> ArrayTable:
        """A table of the same arrays that can be changed without this one."""
        new = object.__new__(ArrayTable)
        new._fill(self.ndim, list(self.arrays), [f.name for f in self.fields], self.outputs)
        return new

    __copy__ = copy

    def __reduce__(self):
        # In another process, or in a deep copy, the arrays are elsewhere.
        return ArrayTable, (self.ndim, self.arrays, [f.name for f in self.fields], self.outputs)

    def set(self, k: int, value) -> bool:
        """Give array k a new value, of any lengths; says whether it differs from the old one.

        Raises `TargetError` if dtype or number of dimensions are not those that were compiled.
        """
        field, old = self.fields[k], self.arrays[k]
        value = field.take(value)
        if value.shape == old.shape and np.array_equal(value, old, equal_nan=old.dtype.kind == "f"):
            return False
        self.arrays[k] = np.array(value, order="C")
        self._enter(k)
        return True

    # ------------------------------------------------------------------- outputs

    def output_shape(self, k: int) -> tuple[int, ...]:
        """Shape of output k per draw, once the C function has written it."""
        entry = self.entries[1 + len(self.fields) + k]
        return tuple(entry["shape"][: entry["ndim"]].tolist())

    def connect(self, k: int, array: np.ndarray) -> None:
        """Let output k be written into `array`, (draw, *shape); the caller keeps it alive."""
        field, shape = self.outputs[k], self.output_shape(k)
        if (
            array.dtype != field.dtype
            or array.shape[1:] != shape
            or not (array.flags.c_contiguous and array.flags.writeable)
        ):
            raise TargetError(
                f"{field.name} is written as {field.dtype} of shape (draw, *{shape}) in C order, "
                f"not into {array.dtype} of shape {array.shape}."
            )
        self.entries[1 + len(self.fields) + k]["address"] = array.ctypes.data


@intrinsic
def array_of(typingctx, table, position, dtype, ndim):
    """The array that record `position` of a table tells of; for compiled code.

    As `carray` on the record's address and shape, in one operation: a density of 20 arrays compiles
    in 0.70 instead of 0.96 CPU seconds, one of two in 0.24 instead of 0.27. Position and number of
    dimensions are literals.
    """
    if not isinstance(position, types.IntegerLiteral) or not isinstance(ndim, types.IntegerLiteral):
        return None
    array_type = types.Array(dtype.dtype, ndim.literal_value, "C", aligned=True)

    def codegen(context, builder, signature, args):
        word = context.get_value_type(types.int64)
        begin = position.literal_value * ENTRY.itemsize

        def number(offset):
            at = cgutils.pointer_add(builder, args[0], begin + offset, word.as_pointer())
            return builder.load(at)

        array = arrayobj.make_array(array_type)(context, builder)
        at_shape, word_size = _OFFSETS["shape"], ENTRY["shape"].base.itemsize
        shape = [number(at_shape + word_size * d) for d in range(array_type.ndim)]
        itemsize = context.get_constant(
            types.intp, context.get_abi_sizeof(context.get_data_type(array_type.dtype))
        )
        strides: list = []
        stride = itemsize
        for length in reversed(shape):
            strides.insert(0, stride)
            stride = builder.mul(stride, length)
        data = builder.inttoptr(number(_OFFSETS["address"]), array.data.type)
        arrayobj.populate_array(array, data, shape, strides, itemsize, meminfo=None)
        return array._getvalue()

    return array_type(table, position, dtype, ndim), codegen
