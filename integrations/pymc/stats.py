"""The statistics of a draw under the names and types that PyMC reads.

ArviZ renames `tree_size` to `n_steps`, `mean_tree_accept` to `acceptance_rate` and `model_logp` to
`lp`. What each means is in the table of `mjhmc_numba.kernel.statistics`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning

from mjhmc_numba.stats import COLUMN, OF_KERNEL, OF_TUNED, STATISTICS, derive
from mjhmc_numba.tuned import Tuned

__all__ = ["STATS", "of_draw"]

# PyMC compares types by identity: a trace may hold NUTS too.
_TYPES: dict[str, type] = {"float64": np.float64, "int64": np.int64, "int": int, "bool": bool}

STATS: dict[str, tuple] = {
    **{row.pymc_name: (_TYPES[row.dtype], []) for row in STATISTICS},
    "warning": (SamplerWarning, None),
}

# How a draw's statistics are read off the kernel's row: quicker than through arrays.
_CASTS = {"float64": float, "int64": int, "bool": bool}
_READ = [(row.pymc_name, COLUMN[row.origin], _CASTS[row.dtype]) for row in OF_KERNEL]
_TUNED = [(row.pymc_name, row.origin) for row in OF_TUNED]


def of_draw(row: list[float], tuned: Tuned) -> dict[str, Any]:
    """Statistics of one draw by PyMC's names: what the kernel says, and what follows from it.

    Parameters
    ----------
    row : list of float
        The kernel's.
    tuned : Tuned
        What the draw was made with.
    """
    stats = {name: cast(row[k]) for name, k, cast in _READ}
    for name, attribute in _TUNED:
        stats[name] = getattr(tuned, attribute)
    stats |= derive(stats)
    return stats
