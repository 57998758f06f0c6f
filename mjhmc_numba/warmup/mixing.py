"""Whether a chain mixes: correlation of draws that are one refresh apart."""

from __future__ import annotations

import numpy as np

__all__ = ["lengthening", "slowness"]

ALIKE, LONGEST = 0.7, 3.0


def slowness(x: np.ndarray, lag: int) -> float:
    """The largest autocorrelation over the dimensions, at a lag in draws.

    Near a Gaussian it is negative or small: a refresh length forgets the start. It comes close
    to 1 where the chain creeps.

    Parameters
    ----------
    x : (n, d), consecutive draws
    lag : draws between refreshes
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

    Their scale was then taken from directions that are not the slowest ones. Twice at 0.8.
    """
    return float(np.clip(1.0 + 10.0 * (alike - ALIKE), 1.0, LONGEST))
