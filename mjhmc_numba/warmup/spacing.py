"""Whether a chain mixes, and how far apart its draws have to be."""

from __future__ import annotations

import numpy as np

from mjhmc_numba.convergence import effective_size, slowest_dimensions

__all__ = [
    "autocorrelation_time",
    "draw_spacing",
    "largest_autocorrelation",
    "lengthening",
]

# Chosen by trial on the models of the benchmark.
ALIKE, LONGEST = 0.6, 2.0  # correlation from which paths are lengthened, and how much at most


def largest_autocorrelation(x: np.ndarray, lag: int) -> float:
    """The largest autocorrelation over the dimensions, at a lag in draws.

    Near a Gaussian it is negative or small: a refresh length time the start. It comes close
    to 1 where the chain mixes slowly.

    Parameters
    ----------
    x : (n, d) array
        Consecutive draws.
    lag : int
        Draws between refreshes.
    """
    if len(x) < 2 * lag + 8:
        return 0.0
    centred = x - x.mean(axis=0)
    variance = np.mean(centred**2, axis=0)
    moving = variance > 0
    if not moving.any():
        return 1.0
    product = np.mean(centred[lag:] * centred[:-lag], axis=0)
    return float(np.max(product[moving] / variance[moving]))


def lengthening(alike: float) -> float:
    """How much longer paths should be where draws a path apart are correlated by so much.

    Their scale was then taken from directions that are not the slowest ones. Twice from 0.8 on.
    """
    return float(np.clip(1.0 + 5.0 * (alike - ALIKE), 1.0, LONGEST))


def autocorrelation_time(x: np.ndarray) -> float:
    """The integrated autocorrelation time of the slowest dimension, in draws.

    Parameters
    ----------
    x : (n, d) array
        Consecutive draws.
    """
    draws = x[None, :, slowest_dimensions(x[None])[0]]
    return float(len(x) / effective_size(draws).min())


def draw_spacing(time: float, ess_per_draw: float, most: int) -> int:
    """How many times as far apart draws with this autocorrelation time should be.

    Parameters
    ----------
    time : float
        In draws.
    ess_per_draw : float
        Effective sample size per draw that is wanted.
    most : int
        Largest factor.
    """
    return max(1, min(int(ess_per_draw * time), most))
