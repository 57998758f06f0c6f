"""Runs that are stopped and go on."""

import math

from numba import njit

from tests.api.densities import FIXED


@njit
def ridge(x, grad):
    """A hierarchy in small: the scale of all others is exp(x[0] / 2), and skew."""
    s, d = math.exp(-x[0]), x.size - 1
    logp = -x[0] * x[0] / 4.5 - 0.5 * d * x[0]
    grad[0] = -x[0] / 2.25 - 0.5 * d
    for j in range(1, x.size):
        logp += x[j] - math.exp(x[j]) - 0.5 * s * x[j] * x[j]
        grad[j] = 1.0 - math.exp(x[j]) - s * x[j]
        grad[0] += 0.5 * s * x[j] * x[j]
    return logp


RUN = {"ndim": 6, "seed": 3, "draws": 400, "tune": 400, "chains": 2, "progress": False}
FROZEN = {**FIXED, "ndim": 3, "seed": 5, "draws": 40, "chains": 2}
