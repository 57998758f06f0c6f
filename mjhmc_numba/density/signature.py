"""The C signature of a density as Numba and ctypes write it, and a call from Python.

The codes that it returns are the kernel's (`mjhmc_numba.kernel.density`), which knows no other
room and whose cache must become stale when they change.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
from numba import types
from numba.np.numpy_support import from_dtype

from mjhmc_numba.density.table import ENTRY
from mjhmc_numba.kernel.density import NOT_FINITE, RAISED, SUCCESS, UNWRITTEN

__all__ = [
    "C_FUNCTION",
    "DENSITY",
    "EXPANSION",
    "NOT_FINITE",
    "RAISED",
    "SUCCESS",
    "Evaluation",
    "evaluate",
]

_doubles = types.CPointer(types.float64)
_table = types.CPointer(from_dtype(ENTRY))

# int64 density(double *x, double *grad, double *logp, entry *table)
DENSITY = types.int64(_doubles, _doubles, _doubles, _table)

# int64 expansion(double *draws, int64 start, int64 stop, entry *table)
EXPANSION = types.int64(_doubles, types.int64, types.int64, _table)

# A density for ctypes, as a type to call and to make callbacks of.
C_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)


class Evaluation(NamedTuple):
    """What a density says at a point.

    Attributes
    ----------
    code : int
        SUCCESS, NOT_FINITE or RAISED
    logp : float
        what it wrote as log density; NaN if it wrote nothing
    grad : ndarray
        what it wrote as gradient; NaN where it wrote nothing
    """

    code: int
    logp: float
    grad: np.ndarray


def evaluate(address: int, x: np.ndarray, table: np.ndarray) -> Evaluation:
    """Call the density at `address`, with the rules by which the kernel calls it.

    Parameters
    ----------
    address : int
        of the C function
    x : ndarray of float64
        the point, of as many dimensions as the density has
    table : ndarray
        entries of its table
    """
    grad, logp = np.full(x.size, np.nan), np.empty(1)
    mark = logp.view(np.int64)
    mark[0] = UNWRITTEN
    code = C_FUNCTION(address)(*(a.ctypes.data for a in (x, grad, logp, table)))
    if mark[0] == UNWRITTEN or code not in (SUCCESS, NOT_FINITE):
        code = RAISED
    return Evaluation(code, float(logp[0]), grad)
