"""The memory of a process: one record of named numbers, and arrays at addresses it holds.

Python allocates a NumPy array of one `STATE` record; the kernel gets a pointer to it, so passing
a process from function to function costs nothing, no reference is counted, and its numbers are
read by name (`p.step_size`). Vectors and matrices are separate arrays; the record holds their
addresses. What lies at an address is declared in `ARRAYS`: Python checks an array against it before
it writes the address, and the kernel reads it through operations that are made from it
(`vector_of`, `row_of`). Nobody else computes an offset.

All arrays belong to `mjhmc_numba.process.Process`, which keeps them, the density and the balancing
function alive as long as it lives itself.
"""

import math
from collections import namedtuple
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.statistics import COUNTS, STAT_NAMES

# Events of the jump process.
EVENT_L, EVENT_F, EVENT_R = 1, 2, 3

# Why the kernel came back.
FINISHED, DENSITY_RAISED, INTERRUPTED, RECORD_FULL = 0, 1, 2, 3

# Clocks, and ways to simulate.
CLOCK_REGULAR, CLOCK_POISSON = 0, 1
THINNING, COMPETING = 0, 1
STRAIGHT, HARMONIC, ROTATION = 0, 1, 2  # between kicks; the last has none

# Sizes, set by Python.
SIZES = (
    "ndim",
    "capacity",  # rungs that are kept
    "rank",  # directions of the metric, with rows of zeros
    "n_children",  # of the reparametrisation, see reparametrisation.py
    "n_location_parents",
    "n_scale_parents",
    "n_features",  # two for each scale parent
    "record_capacity",
    "kept_capacity",  # draws of a warm-up, see adaptation.py
    "divergence_capacity",  # draws of which it is kept where they diverged, at least 1
)

# A row of a padded matrix begins a cache line, of so many doubles: a wide load that straddles two
# lines takes twice as long.
LINE = 8

# Rows of the scratch memory, and what they are for.
LOGP_ROW = MOMENTUM_ROW = 0  # a log density, or a vector while a momentum is made
POINT_ROWS = 1, 2, 3, 4, 5  # a point of phase space
PULL_ROW = 6  # M (x - m), see integrators.py
ASKED_ROW = 7  # where the density was asked last, if it raised or there is a reparametrisation
CHILD_ROWS = 8, 9, 10, 11  # numbers for each child of a reparametrisation
WORK_ROWS = 12


class Array(NamedTuple):
    """How an array lies in memory.

    Attributes
    ----------
    dtype : type
        Of its elements.
    shape : tuple
        A dimension is a number, the name of a size, or a tuple of such, which is their sum. The
        last is no sum.
    is_padded : bool
        Whether its rows begin cache lines; else it is contiguous.
    """

    dtype: type
    shape: tuple
    is_padded: bool = False

    def lengths(self, sizes):
        """The shape in numbers, for sizes by name."""
        return tuple(_length(dimension, sizes) for dimension in self.shape)

    @property
    def sizes(self):
        """The names of the sizes that its shape depends on."""
        return frozenset(_names(self.shape))

    def row_width(self, length):
        """From one row to the next, in elements, if rows have `length` of them."""
        return -(-length // LINE) * LINE if self.is_padded else length


def _names(dimension):
    if isinstance(dimension, tuple):
        return [name for part in dimension for name in _names(part)]
    return [dimension] if isinstance(dimension, str) else []


def _length(dimension, sizes):
    if isinstance(dimension, tuple):
        return sum(_length(part, sizes) for part in dimension)
    return dimension if isinstance(dimension, int) else int(sizes[dimension])


_RUNGS = Array(np.float64, ("capacity", "ndim"), is_padded=True)
_LEVELS = Array(np.float64, ("capacity",))
_FACTORS = Array(np.float64, ("rank",))

# All arrays that the kernel reads by their addresses.
ARRAYS = {
    # The ladder.
    "x": _RUNGS,  # positions of the rungs
    "v": _RUNGS,  # momenta, as they are when s = +1
    "grad": _RUNGS,  # gradients of the log density
    "velocity": _RUNGS,  # M^-1 v, where `keeps_velocity`
    "acceleration": _RUNGS,  # M^-1 grad, likewise
    "energy": _LEVELS,  # H = -logp + kinetic; infinite where nothing can go
    "logp": _LEVELS,
    # The metric, see metric.py.
    "scale": Array(np.float64, ("ndim",)),
    "directions": Array(np.float64, ("rank", "ndim"), is_padded=True),  # times the scale
    "inverse_mass_factors": _FACTORS,  # eigenvalue - 1
    "root_mass_factors": _FACTORS,  # eigenvalue**-1/2 - 1
    "mass_factors": _FACTORS,  # 1 / eigenvalue - 1
    "centre": Array(np.float64, ("ndim",)),  # of the Gaussian that rotations are about
    # The reparametrisation: dimensions, and coefficients that lie by parent, each for all children.
    "children": Array(np.int64, ("n_children",)),
    "location_parents": Array(np.int64, ("n_location_parents",)),
    "scale_parents": Array(np.int64, ("n_scale_parents",)),
    "knots": Array(np.float64, ("n_scale_parents", 4)),  # low, middle, high, width
    "location_coefficients": Array(np.float64, ((1, "n_location_parents"), "n_children")),
    "log_scale_coefficients": Array(np.float64, ((1, "n_features"), "n_children")),
    "shift_coefficients": Array(
        np.float64, ((1, "n_location_parents", "n_features"), "n_children")
    ),
    "features": Array(np.float64, (2, "n_features")),  # and their slopes; scratch
    # The random stream, scratch memory, and the jump record.
    "rng": Array(np.uint64, (4,)),
    "work": Array(np.float64, (WORK_ROWS, "ndim"), is_padded=True),
    "record_x": Array(np.float64, ("record_capacity", "ndim"), is_padded=True),
    "record_holding": Array(np.float64, ("record_capacity", 2)),  # time spent, sampled and expected
    "record_event": Array(np.float64, ("record_capacity",)),  # what ended the visit
    # Draws of the warm-up since they were taken.
    "kept_x": Array(np.float64, ("kept_capacity", "ndim")),
    "kept_grad": Array(np.float64, ("kept_capacity", "ndim")),
    "kept_logp": Array(np.float64, ("kept_capacity",)),
    # Where the last step began that diverged: a row for each draw, the last for all others.
    "divergence_x": Array(np.float64, ("divergence_capacity", "ndim")),
}
# The names of the sizes that the shape of each depends on.
SIZES_OF = {name: array.sizes for name, array in ARRAYS.items()}
ADDRESSES = (
    "density",  # C function of the log density
    "table",  # its last argument
    "g",  # C function of a custom balancing function
    "poll",  # C function that is called now and then, see density.py
    *ARRAYS,
)

# Parameters that are frozen during a draw, set by Python.
INTEGERS = (
    "num_steps",
    "stages",
    "motion",
    "rates",
    "clock",
    "method",
    "refine_levels",
    "max_jumps",
    "max_gradients",
    "adapts",  # whether the step size does, see adaptation.py
)
REALS = (
    "step_size",
    "step_jitter",
    "refresh_rate",
    "refresh_jitter",
    "refresh_alpha",
    "draw_interval",
    "g_max",
    "refine_threshold",
    "target_accept",
    "shortest_step",
    "longest_step",
)

# Where on the ladder the process is, and what comes next.
CURSOR = (
    "here",
    "direction",
    "low",
    "high",
    "scheduled",
    "next_event",
    "stay",
    "in_tick",
    "pending_flip",
)
TIMES = (
    "now",
    "next_ring",
    "next_refresh",
    "tick_end",
    "entered",  # when the present state was entered
    "total_rate",  # of leaving it (competing exponentials)
    "ladder_step",  # the step size of the present ladder
    "origin_energy",  # energy where it began
    "path_error",  # energy gained on the ladder before it
    "pending_u",  # of a failed move whose flip is pending, see jump.py
    "pending_g",
)

# Of the adaptation: updates of the step size, draws tried and kept since the last one; and sums.
UPDATES = ("updates", "tried", "kept")
AVERAGES = ("accepted", "deficit", "log_average", "log_centre")

# Sums since the last draw; and numbers since the start, for those who watch.
SUMS = ("acceptance", "acceptance_weight")
TOTALS = ("done", "all_gradients", "all_divergences", "recorded")

# Written while the kernel runs: whether to come back, and the number of gradients at the next poll.
CONTROL = ("abort", "poll_at")
NEVER = 1 << 62  # a number of gradients that no chain reaches

_WHOLE = INTEGERS + CURSOR + COUNTS + TOTALS + UPDATES
_REAL = REALS + TIMES + SUMS + AVERAGES
STATE = np.dtype(
    [(name, np.int64) for name in SIZES + ADDRESSES + CONTROL + _WHOLE]
    + [(name, np.float64) for name in _REAL]
)
OFFSETS = {name: place for name, (_, place, *_) in (STATE.fields or {}).items()}  # in bytes
# What a resumed process needs beyond its arrays: all but sizes, addresses and control.
RESUMABLE = _WHOLE + _REAL

# Columns of the statistics of a draw: their numbers by name.
COLUMN = namedtuple("Column", STAT_NAMES)(*range(len(STAT_NAMES)))


def aligned_zeros(*shape):
    """Zeros (..., d) whose rows begin cache lines."""
    width = -(-shape[-1] // LINE) * LINE
    size = math.prod(shape[:-1]) * width
    memory = np.zeros(size + LINE)
    begin = -(memory.ctypes.data // memory.itemsize) % LINE
    return memory[begin : begin + size].reshape(*shape[:-1], width)[..., : shape[-1]]


def check_array(name, array, sizes):
    """Raise unless an array lies in memory as `ARRAYS` says of that name.

    Parameters
    ----------
    name : str
        Of the array.
    array : numpy.ndarray
        The array.
    sizes : mapping
        The sizes of the process, by the names of `SIZES`.
    """
    wanted, dtype = ARRAYS[name], np.dtype(ARRAYS[name].dtype)
    shape = wanted.lengths(sizes)
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"{name} of the kernel is an array of {dtype} with shape {shape}, not of {array.dtype} "
            f"with shape {array.shape}."
        )
    if array.size == 0:
        return
    unit = LINE * dtype.itemsize if wanted.is_padded else dtype.itemsize
    if array.ctypes.data % unit:
        raise ValueError(f"{name} of the kernel must begin at a multiple of {unit} bytes.")
    strides = (wanted.row_width(shape[-1]) * dtype.itemsize, dtype.itemsize)[-array.ndim :]
    if any(n > 1 and a != b for n, a, b in zip(shape, array.strides, strides, strict=True)):
        raise ValueError(f"{name} of the kernel has strides {strides}, not {array.strides}.")


@intrinsic
def as_pointer(typingctx, address):
    """An integer as a void pointer."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), codegen


def _number(context, builder, record, name):
    """A whole number of a record, as `p.name` in a function."""
    at = cgutils.get_record_member(builder, record, OFFSETS[name], ir.IntType(64))
    return context.unpack_value(builder, types.int64, at, align=1)  # records are not aligned


def _view(context, builder, array_type, address, length):
    """An array of one dimension that begins at an address."""
    array = arrayobj.make_array(array_type)(context, builder)
    data = builder.inttoptr(address, array.data.type)
    itemsize = ir.IntType(64)(array_type.dtype.bitwidth // 8)
    arrayobj.populate_array(array, data, [length], [itemsize], itemsize, meminfo=None)
    return array._getvalue()


# What follows makes operations and not functions: there are 31 of them, and to compile as many
# functions takes a second.


def vector_of(name):
    """An operation p -> the vector of that name in `ARRAYS`, as an array."""
    (length,), dtype = ARRAYS[name].shape, ARRAYS[name].dtype
    array_type = types.Array(from_dtype(np.dtype(dtype)), 1, "C")

    @intrinsic
    def vector(typingctx, p):
        def codegen(context, builder, signature, args):
            address = _number(context, builder, args[0], name)
            n = _size(context, builder, args[0], length)
            return _view(context, builder, array_type, address, n)

        return array_type(p), codegen

    return vector


def row_of(name, part=None):
    """An operation (p, i) -> row i of the matrix of that name in `ARRAYS`, as an array.

    `part` is the name of a smaller size, where that much of a row is wanted.
    """
    array = ARRAYS[name]
    _, length = array.shape
    array_type = types.Array(from_dtype(np.dtype(array.dtype)), 1, "C")
    itemsize, unit = np.dtype(array.dtype).itemsize, LINE if array.is_padded else 1

    @intrinsic
    def row(typingctx, p, i):
        def codegen(context, builder, signature, args):
            word, (p, i) = ir.IntType(64), args
            n = _size(context, builder, p, length)
            # Rounded up to a multiple of the unit, which is a power of 2.
            width = builder.and_(builder.add(n, word(unit - 1)), word(-unit))
            begin = builder.mul(builder.mul(width, word(itemsize)), i)
            address = builder.add(_number(context, builder, p, name), begin)
            n = n if part is None else _size(context, builder, p, part)
            return _view(context, builder, array_type, address, n)

        return array_type(p, types.int64), codegen

    return row


def _size(context, builder, record, size):
    """A size, which is a number or the name of one."""
    if isinstance(size, int):
        return ir.IntType(64)(size)
    return _number(context, builder, record, size)


@intrinsic
def counts_of(typingctx, p):
    """The counts of the present draw, in the order of `COUNTS`, as an array."""
    array_type = types.Array(types.int64, 1, "C")

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        begin = builder.add(builder.ptrtoint(args[0], word), word(OFFSETS[COUNTS[0]]))
        return _view(context, builder, array_type, begin, word(len(COUNTS)))

    return array_type(p), codegen


scratch = row_of("work")
random_stream = vector_of("rng")


@kernel_jit
def keeps_velocity(p):
    """Whether points carry velocity and acceleration along.

    A diagonal metric is applied in passing; one with directions is worth as much as a gradient,
    so it is applied once for each.
    """
    return p.rank > 0 or p.motion != STRAIGHT


@kernel_jit
def scratch_point(p):
    """A point of phase space (see `ladder.rung`) in the scratch memory."""
    return (
        scratch(p, POINT_ROWS[0]),
        scratch(p, POINT_ROWS[1]),
        scratch(p, POINT_ROWS[2]),
        scratch(p, POINT_ROWS[3]),
        scratch(p, POINT_ROWS[4]),
    )
