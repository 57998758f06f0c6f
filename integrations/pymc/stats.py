"""The statistics of a draw, under the names and types that PyMC and ArviZ read.

Names and types are those of NUTS where both have a thing, so that a trace may hold both. ArviZ
renames `tree_size` to `n_steps`, `mean_tree_accept` to `acceptance_rate` and `model_logp` to `lp`.

=================== ==========================================================================
`tree_size`         gradients spent on the draw
`mean_tree_accept`  mean of min(1, pi_ahead / pi) where the process looked ahead; where it did not
                    look since the last draw, the value before
`step_size`         of the present ladder: jittered, drawn anew at each refresh
`step_size_bar`     what it is jittered around
`diverging`         an integrator step gained more than 1000 in energy, or left the support
`divergences`       diverging draws of the chain so far, without those of the tuning
`energy`            of position and momentum at the draw, in the coordinates of the
                    reparametrisation where there is one. It changes at refreshes alone: with
                    one per draw, as tuned, E-BFMI means what it does for NUTS; with fewer it is
                    lower
`energy_error`      energy gained on the path that led to the draw
`model_logp`        log density at the draw
`refresh_rate`      momentum refreshes per unit of system time
`draw_interval`     system time between draws
`num_steps`         integrator steps between two rungs of the ladder
`n_L n_F n_R`       moves along the ladder, flips and refreshes; `n_jumps` is their sum
`holding_time`      mean system time between two jumps of this draw: draw_interval / n_jumps; the
                    whole interval where nothing happened in it
`longest_stay`      most looks at the neighbours without a move
`n_refined`         rungs that were computed in halved steps
`n_capped`          whether the draw was cut short at max_jumps or max_gradients
=================== ==========================================================================
"""

from __future__ import annotations

import numpy as np
from pymc.stats.convergence import SamplerWarning

from mjhmc_numba.kernel.layout import STAT_NAMES

__all__ = ["COLUMN", "STATS"]

COLUMN = {name: k for k, name in enumerate(STAT_NAMES)}

STATS: dict[str, tuple] = {
    "tune": (bool, []),
    "step_size": (np.float64, []),
    "step_size_bar": (np.float64, []),
    "mean_tree_accept": (np.float64, []),
    "tree_size": (np.float64, []),
    "diverging": (bool, []),
    "divergences": (int, []),
    "energy": (np.float64, []),
    "energy_error": (np.float64, []),
    "model_logp": (np.float64, []),
    "process_time_diff": (np.float64, []),
    "perf_counter_diff": (np.float64, []),
    "perf_counter_start": (np.float64, []),
    "refresh_rate": (np.float64, []),
    "draw_interval": (np.float64, []),
    "holding_time": (np.float64, []),
    "num_steps": (np.int64, []),
    "n_jumps": (np.int64, []),
    "n_L": (np.int64, []),
    "n_F": (np.int64, []),
    "n_R": (np.int64, []),
    "longest_stay": (np.int64, []),
    "n_refined": (np.int64, []),
    "n_capped": (np.int64, []),
    "warning": (SamplerWarning, None),
}
