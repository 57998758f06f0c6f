"""The memory of a process: one record of named numbers, and vectors at addresses it holds.

Python allocates a NumPy array of one `STATE` record; the kernel gets a pointer to it, so passing
a process from function to function costs nothing, no reference is counted, and its numbers are
read by name (`p.step_size`). Vectors and matrices are separate arrays, owned by Python too; the
record holds their addresses. To save a process is to copy its arrays.
"""

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.statistics import COUNTS, STAT_NAMES

# Events of the jump process.
NO_EVENT, EVENT_L, EVENT_F, EVENT_R = 0, 1, 2, 3

# Why the kernel came back.
FINISHED, DENSITY_RAISED, INTERRUPTED, RECORD_FULL = 0, 1, 2, 3

# Clocks, and ways to simulate.
CLOCK_REGULAR, CLOCK_POISSON = 0, 1
THINNING, COMPETING = 0, 1
STRAIGHT, HARMONIC, ROTATION = 0, 1, 2  # between kicks; the last has none

# Set by Python: sizes, addresses, and the parameters that are frozen during a draw.
SIZES = (
    "ndim",
    "capacity",
    "rank",
    "chart_rows",
    "chart_movers",
    "chart_scalers",
    "record_capacity",
)
ADDRESSES = (
    "density",  # C function of the log density
    "table",  # its last argument
    "g",  # C function of a custom balancing function
    "x",  # (capacity, ndim): positions of the rungs
    "v",  # (capacity, ndim): momenta, as they are when s = +1
    "grad",  # (capacity, ndim): gradients of the log density
    "velocity",  # (capacity, ndim): M^-1 v, where `keeps_velocity`
    "acceleration",  # (capacity, ndim): M^-1 grad, likewise
    "energy",  # (capacity,): H = -logp + kinetic; infinite where nothing can go
    "logp",  # (capacity,)
    "scale",  # (ndim,): metric, see metric.py
    "directions",  # (rank, ndim): times the scale
    "stretch",  # (rank,): eigenvalue - 1
    "root",  # (rank,): eigenvalue**-1/2 - 1
    "shrink",  # (rank,): 1 / eigenvalue - 1
    "centre",  # (ndim,): of the Gaussian that rotations are about
    "chart_row",  # (chart_rows,): dimensions that a chart moves and scales, see chart.py
    "chart_mover",  # (chart_movers,): dimensions that their locations l depend on
    "chart_location",  # (1 + chart_movers, chart_rows): coefficients of l
    "chart_scaler",  # (chart_scalers,): dimensions that their log scales s depend on
    "chart_knots",  # (chart_scalers, 4): low, middle, high, width
    "chart_log_scale",  # (1 + 2 chart_scalers, chart_rows): coefficients of s
    "chart_shift",  # (1 + chart_movers + 2 chart_scalers, chart_rows): coefficients of t
    "chart_features",  # (2, 2 chart_scalers): features and their slopes, scratch
    "rng",  # (4,) words of the random stream
    "work",  # (WORK_ROWS, ndim) scratch
    "record_x",  # (record_capacity, ndim): visited states
    "record_holding",  # (record_capacity, 2): time spent in each, sampled and expected
    "record_event",  # (record_capacity,): what ended the visit
)
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
    "unsettled",
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
    "unsettled_u",  # of a failed move whose flip nobody has asked for yet, see jump.py
    "unsettled_g",
)

# Sums since the last draw; and numbers since the start, for those who watch.
SUMS = ("acceptance", "acceptance_weight")
TOTALS = ("done", "all_gradients", "all_divergences", "recorded", "abort")

STATE = np.dtype(
    [(name, np.int64) for name in SIZES + ADDRESSES + INTEGERS + CURSOR + COUNTS + TOTALS]
    + [(name, np.float64) for name in REALS + TIMES + SUMS]
)
# What a resumed process needs beyond its vectors: all but sizes and addresses.
RESUMABLE = tuple(name for name in STATE.names if name not in SIZES + ADDRESSES)

# Of the scratch memory: 0 a log density, 1 to 5 a point, 6 a pull, 7 where the density was asked
# last if it raised or there is a chart, 8 to 11 for a chart.
WORK_ROWS = 12
ASKED = 7

# A row of a matrix begins a cache line, of so many doubles: a wide load that straddles two lines
# takes twice as long.
LINE = 8

# Columns of the statistics of a draw that are not counts; those are the first, in their order.
ENERGY, ENERGY_ERROR, ACCEPTANCE, STEP_SIZE, LOGP = (
    STAT_NAMES.index(name)
    for name in ("energy", "energy_error", "acceptance_rate", "step_size", "lp")
)


@intrinsic
def as_pointer(typingctx, address):
    """An integer as a void pointer."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), codegen


@kernel_jit
def vector(address, size):
    """The `size` doubles at `address` as an array."""
    return carray(as_pointer(address), (size,), np.float64)


@kernel_jit
def indices(address, size):
    """The `size` integers at `address` as an array."""
    return carray(as_pointer(address), (size,), np.int64)


@kernel_jit
def row_width(ndim):
    """From one row of a matrix to the next, in doubles."""
    return (ndim + LINE - 1) // LINE * LINE


@kernel_jit
def row(address, p, i):
    """Row i of a matrix with p.ndim columns at `address`."""
    return vector(address + 8 * row_width(p.ndim) * i, p.ndim)


@kernel_jit
def scratch(p, i):
    """Row i of the scratch memory."""
    return row(p.work, p, i)


@kernel_jit
def random_stream(p):
    """The words of the random stream."""
    return carray(as_pointer(p.rng), (4,), np.uint64)


@kernel_jit
def keeps_velocity(p):
    """Whether points carry velocity and acceleration along.

    A diagonal metric is applied in passing; one with directions is worth as much as a gradient,
    so it is applied once for each.
    """
    return p.rank > 0 or p.motion != STRAIGHT


@kernel_jit
def scratch_point(p):
    """A point of phase space (see `ladder.rung`) in the scratch memory: its rows 1 to 5."""
    return scratch(p, 1), scratch(p, 2), scratch(p, 3), scratch(p, 4), scratch(p, 5)
