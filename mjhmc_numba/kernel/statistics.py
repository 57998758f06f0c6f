"""The statistics of a draw: one table that all who make, store or explain them read.

It is plain data and imports nothing of ours. It lies beside the kernel because the columns that the
kernel writes are compiled into its machine code: an edit here makes the kernel compile again. To
add a statistic that the kernel counts, add a row here, and the line that counts.

Names are ArviZ's. Types are those of PyMC's NUTS where both have a thing, since PyMC refuses a
trace in which two step methods declare one name with two types: so the number of gradients is a
float64, which is exact up to 2**53.
"""

from typing import NamedTuple

__all__ = ["COUNTS", "STATISTICS", "STAT_NAMES", "Statistic"]

# Where a statistic comes from: counted by the kernel since the last draw, read off by the kernel
# at the draw, a parameter that the draw was made with, computed from the others, or a clock.
COUNTED, READ, TUNED, DERIVED, TIMED = "counted", "read", "tuned", "derived", "timed"


class Statistic(NamedTuple):
    """A row of the table.

    Parameters
    ----------
    name : str
        ArviZ's name.
    dtype : str
        Its type.
    source : str
        Where it comes from.
    meaning : str
        One sentence.
    of : str
        Name of the kernel's column, or of the parameter, where that is another.
    pymc : str
        PyMC's name, where that is another.
    """

    name: str
    dtype: str
    source: str
    meaning: str
    of: str = ""
    pymc: str = ""

    @property
    def origin(self) -> str:
        """The kernel's column, or the parameter."""
        return self.of or self.name

    @property
    def pymc_name(self) -> str:
        return self.pymc or self.name


STATISTICS = (
    Statistic(
        "n_steps",
        "float64",
        COUNTED,
        "gradients spent on the draw",
        of="n_gradients",
        pymc="tree_size",
    ),
    Statistic("n_L", "int64", COUNTED, "moves along the ladder since the last draw"),
    Statistic("n_F", "int64", COUNTED, "flips of the direction that mattered"),
    Statistic("n_R", "int64", COUNTED, "refreshes of the momentum"),
    Statistic(
        "diverging",
        "bool",
        COUNTED,
        "whether an integrator step gained more than 1000 in energy, or left the support",
        of="n_diverging",
    ),
    Statistic("n_capped", "int64", COUNTED, "1 if it was cut short at max_jumps or max_gradients"),
    Statistic("longest_stay", "int64", COUNTED, "most looks at the neighbours without a move"),
    Statistic("n_refined", "int64", COUNTED, "rungs that were computed in halved steps"),
    Statistic("n_blocked", "int64", COUNTED, "of these, rungs without a way back, not entered"),
    Statistic(
        "energy",
        "float64",
        READ,
        "-lp plus the kinetic energy: H at the draw in the coordinates of the model. It hardly "
        "changes between refreshes: with one per draw, as tuned, E-BFMI means what it does for "
        "NUTS; with fewer it is lower",
    ),
    Statistic("energy_error", "float64", READ, "energy gained on the path that led to the draw"),
    Statistic(
        "acceptance_rate",
        "float64",
        READ,
        "mean of min(1, π ahead / π) over the process's time; where nothing was tried since the "
        "last draw, the value before, and NaN before the first",
        pymc="mean_tree_accept",
    ),
    Statistic(
        "step_size", "float64", READ, "of the present ladder: jittered, drawn anew at each refresh"
    ),
    Statistic("lp", "float64", READ, "log density at the draw", pymc="model_logp"),
    Statistic("step_size_bar", "float64", READ, "what the step size is jittered around"),
    Statistic("num_steps", "int64", TUNED, "integrator steps between two rungs of the ladder"),
    Statistic("refresh_rate", "float64", TUNED, "refreshes per unit of system time"),
    Statistic("draw_interval", "float64", TUNED, "system time between two draws"),
    Statistic("n_jumps", "int64", DERIVED, "events since the last draw: n_L + n_F + n_R"),
    Statistic(
        "holding_time",
        "float64",
        DERIVED,
        "mean system time between two events of this draw: draw_interval / n_jumps, or the whole "
        "interval where nothing happened in it",
    ),
    Statistic(
        "divergences", "int", DERIVED, "diverging draws of the chain so far, after its warm-up"
    ),
    Statistic(
        "perf_counter_start",
        "float64",
        TIMED,
        "time.perf_counter() at the beginning of the draw, in seconds. Whole chains in native code "
        "are timed as one block, and the draws share it evenly",
    ),
    Statistic("perf_counter_diff", "float64", TIMED, "seconds that the draw took"),
    Statistic(
        "process_time_diff", "float64", TIMED, "CPU seconds of the chain's thread for the draw"
    ),
)

# What the kernel counts for each draw; and the columns of its rows of statistics.
COUNTS = tuple(row.origin for row in STATISTICS if row.source == COUNTED)
STAT_NAMES = COUNTS + tuple(row.origin for row in STATISTICS if row.source == READ)
