"""Whether a chain mixes, and how far apart its draws have to be."""

from __future__ import annotations

import math

import numpy as np

from mjhmc_numba.convergence import effective_size, slowest_dimensions

__all__ = [
    "agreed",
    "autocorrelation_time",
    "draw_spacing",
    "largest_autocorrelation",
    "lengthening",
]

# Chosen by trial on the models of the benchmark.
ALIKE, LONGEST = 0.6, 2.0  # correlation from which paths are lengthened, and how much at most
# The share of an independent draw that a draw should be worth. Where it is worth less, draws are
# made further apart, such that it is worth the second share, but by no more than the last factor.
WORTH = 1 / 3
MADE_WORTH, MOST = 0.5, 4.0
# In more than a few dimensions both are larger, by so much for ten times as many: the largest R-hat
# tells whether chains agree, and it grows with the number of dimensions.
FEW_DIMENSIONS, MADE_WORTH_MORE, MOST_MORE = 50, 0.1, 1.0


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


def _tenfold(ndim: int) -> float:
    """How many times ten times as many dimensions as a few."""
    return math.log10(max(ndim / FEW_DIMENSIONS, 1.0))


def agreed(one: float, other: float, ndim: int) -> float:
    """The autocorrelation time by two estimates: the smaller, as few draws easily look alike. In
    many dimensions their geometric mean, as there draws too close together cost more than apart.
    """
    low, high = sorted((one, other))
    share = min(0.5 * _tenfold(ndim), 0.5)
    return low ** (1.0 - share) * high**share


def draw_spacing(time: float, ndim: int) -> int:
    """How many times as far apart draws with this autocorrelation time should be.

    A draw that is not worth a third of an independent one in the slowest dimension should be worth
    half of one, or more in many dimensions; it may cost several times the gradients for it.
    """
    if WORTH * time < 1.0:
        return 1
    tenfold = _tenfold(ndim)
    wanted = (MADE_WORTH + MADE_WORTH_MORE * tenfold) * time
    return round(min(max(wanted, 1.0), MOST + MOST_MORE * tenfold))
