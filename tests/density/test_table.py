"""The table of arrays tells machine code where they are, and keeps what others read."""

import copy
import ctypes
import pickle

import numpy as np
import pytest
from numba import cfunc, types
from numba.np.numpy_support import from_dtype

from mjhmc_numba.density.table import ENTRY, MAX_NDIM, ArrayField, ArrayTable, array_of
from mjhmc_numba.errors import TargetError


def read(entry, dtype):
    """The array of a record, by its address."""
    shape = tuple(entry["shape"][: entry["ndim"]])
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = (ctypes.c_ubyte * size).from_address(int(entry["address"]))
    return np.frombuffer(memory, dtype).reshape(shape)


def table_of_two():
    return ArrayTable(4, [np.arange(6.0).reshape(2, 3), np.int32(7)], ["matrix", "number"])


def test_the_first_record_is_that_of_x():
    first = table_of_two().entries[0]
    assert (first["address"], first["ndim"], first["shape"][0]) == (0, 1, 4)


def test_records_tell_address_and_shape_of_each_array():
    table = table_of_two()
    np.testing.assert_array_equal(read(table.entries[1], np.float64), np.arange(6.0).reshape(2, 3))
    assert read(table.entries[2], np.int32) == 7
    assert table.fields == (
        ArrayField("matrix", np.dtype(float), 2),
        ArrayField("number", np.dtype(np.int32), 0),
    )


def test_compiled_code_finds_the_same_arrays():
    table = table_of_two()
    pointer = types.CPointer(from_dtype(ENTRY))

    @cfunc(types.float64(pointer))
    def read_all(entries):
        matrix = array_of(entries, 1, types.float64, 2)
        number = array_of(entries, 2, types.int32, 0)
        return matrix[1, 0] + 10 * matrix.shape[1] + 100 * matrix.strides[0] + 1e4 * number[()]

    call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)(read_all.address)
    assert call(table.entries.ctypes.data) == 3 + 10 * 3 + 100 * 24 + 1e4 * 7


def test_what_was_given_is_copied():
    given = np.zeros(3)
    table = ArrayTable(1, [given])
    given[:] = 1.0
    assert not read(table.entries[1], float).any()


def test_a_new_value_leaves_the_old_array_to_those_who_read_it():
    table = table_of_two()
    before, entry = table.copy(), table.entries.ctypes.data
    assert table.set(0, np.ones((2, 3)))
    assert not table.set(0, np.ones((2, 3)))
    assert table.set(0, np.ones((5, 1)))
    assert table.entries.ctypes.data == entry
    np.testing.assert_array_equal(read(table.entries[1], float), np.ones((5, 1)))
    np.testing.assert_array_equal(read(before.entries[1], float), np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_a_copy_has_records_of_its_own(duplicate):
    table = table_of_two()
    other = duplicate(table)
    table.set(1, 9)
    assert read(other.entries[2], np.int32) == 7
    assert other.fields == table.fields
    del table
    np.testing.assert_array_equal(read(other.entries[1], np.float64), np.arange(6.0).reshape(2, 3))


def test_values_that_were_not_compiled_for_are_refused_by_name():
    table = table_of_two()
    with pytest.raises(TargetError, match="matrix has 1 dimensions and had 2"):
        table.set(0, np.zeros(3))
    with pytest.raises(TargetError, match="number is float64 and was int32"):
        table.set(1, 7.5)
    assert table.set(1, 8.0)  # fits
    assert read(table.entries[2], np.int32) == 8
    with pytest.raises(TargetError, match=f"at most {MAX_NDIM}"):
        ArrayField.of("deep", np.zeros((1,) * (MAX_NDIM + 1)))


def test_an_output_is_connected_only_if_it_can_be_written():
    table = ArrayTable(2, outputs=[ArrayField("y", np.dtype(float), 1)])
    table.entries[1]["shape"][0] = 3  # as the C function does
    assert table.output_shape(0) == (3,)
    for wrong in (np.empty((5, 3), np.float32), np.empty((5, 2)), np.empty((3, 5)).T):
        with pytest.raises(TargetError, match="y is written as float64"):
            table.connect(0, wrong)
    right = np.empty((5, 3))
    table.connect(0, right)
    assert table.entries[1]["address"] == right.ctypes.data
