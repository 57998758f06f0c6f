r"""A Gaussian of the target's own moments as an independence proposal: the rotation about it.

A quarter turn with a fresh momentum is a draw of that Gaussian q, wherever it begins. What the
draws of the warm-up say of :math:`w = \log\pi - \log q` tells how many of such moves are accepted
before one is made (too many, if q is much wider than the draws).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mjhmc_numba.coordinates import Metric
from mjhmc_numba.errors import SettingsError

__all__ = [
    "WIDENED",
    "Proposal",
    "covers_draws",
    "enough",
    "fit",
    "is_rough",
    "must_widen",
    "widening",
]

# All constants were chosen by trial on targets with ripples and on the models of the benchmark.
# Draws that tell a Gaussian: at least the first, and the second per dimension.
FEWEST_DRAWS_OF_PROPOSAL, DRAWS_PER_DIMENSION = 50, 25
# Too wide a Gaussian wastes moves; too narrow a one leaves the chain stuck in the tails. A chain
# that has seen only a part of the target finds the rest with a wide one.
WIDENED = 1.25  # factor of the standard deviations, at least
WIDER_VOLUME = 4.0  # factor of the volume of a Gaussian that is to find more, see `widening`
# Standard deviation of draws, in units of the Gaussian that they were made with: below the first
# it has found all, above the second there is surely more.
COVERED, EXCEEDED = 1.0, 1.1
MANY_TIMES = 4  # as many draws as are enough, by which it may be told more exactly
DISTINCT = 0.35  # share of draws that are not the one before again
# Mean squared gradient in units of the Gaussian, in every direction: 1 if that is the target, so
# many where it has ripples whose slopes hide the large shape. The first is for draws that have seen
# a part of it: those of seven posteriors had 7 at most in 84 warm-ups. The second is for all of it,
# of which curved targets have up to some tens.
MAYBE_ROUGH, ROUGH = 10.0, 100.0


class Proposal(NamedTuple):
    """A Gaussian independence proposal: to rotate about it by a quarter turn.

    Attributes
    ----------
    metric : Metric
        Its covariance and centre.
    acceptance : float
        Average acceptance of a quarter turn.
    """

    metric: Metric
    acceptance: float

    @property
    def moves_per_draw(self) -> int:
        """Moves that are worth an independent draw."""
        return max(1, round((2.0 - self.acceptance) / self.acceptance))


def enough(ndim: int) -> int:
    """Draws that tell a Gaussian; half of them do while it is widened."""
    return max(FEWEST_DRAWS_OF_PROPOSAL, DRAWS_PER_DIMENSION * ndim)


def covers_draws(metric: Metric, x: np.ndarray, *, again: bool = False) -> bool:
    """Whether a Gaussian has found all of the target: in every direction it is wider than the
    draws that were made with it, and these were not stuck. It may be a little narrow if the one
    before it had found all (`again`), or if the draws are many.
    """
    sure = again or len(x) >= MANY_TIMES * enough(x.shape[1])
    return _moves(x) and bool(_widest(metric, x) < (EXCEEDED if sure else COVERED))


def must_widen(metric: Metric, x: np.ndarray) -> bool:
    """Whether draws go beyond the Gaussian that they are made with."""
    return bool(_widest(metric, x) > EXCEEDED)


def _widest(metric: Metric, x: np.ndarray) -> float:
    y = metric.whiten(x - x.mean(axis=0))
    return math.sqrt(np.linalg.eigvalsh(y.T @ y / len(y))[-1])


def _moves(x: np.ndarray) -> bool:
    """Whether most draws differ from the one before."""
    return bool(np.mean(np.any(np.diff(x, axis=0) != 0, axis=1)) > DISTINCT)


def is_rough(metric: Metric, grad: np.ndarray, *, surely: bool) -> bool:
    """Whether, in every direction, gradients say next to nothing of the Gaussian's shape.

    Parameters
    ----------
    metric : Metric
        Covariance of the Gaussian.
    grad : (n, d) array
        Gradients of the log density at draws.
    surely : bool
        Whether the draws have seen all of the target.
    """
    g = metric.whiten_gradient(grad)
    least = np.linalg.eigvalsh(g.T @ g / len(g))[0]
    return bool(least > (ROUGH if surely else MAYBE_ROUGH))


def widening(ndim: int) -> float:
    """The factor by which a Gaussian is widened that is to find more of the target."""
    return max(WIDENED, WIDER_VOLUME ** (1.0 / max(ndim, 2)))


def fit(
    x: np.ndarray, logp: np.ndarray, widened: float = WIDENED, *, diagonal: bool = False
) -> Proposal | None:
    """The Gaussian of the draws' moments, widened, or None where they tell too little.

    Parameters
    ----------
    x : (n, d) array
        Draws.
    logp : (n,) array
        Their log densities.
    widened : float
        Factor of the standard deviations.
    diagonal : bool
        Leave correlations out.
    """
    n, d = x.shape
    if n < enough(d) // 2:
        return None
    centred = x - x.mean(axis=0)
    try:
        if diagonal:
            metric = Metric.diagonal(widened**2 * np.mean(centred**2, axis=0))
        else:
            metric = Metric.dense(widened**2 * (centred.T @ centred) / n)
    except SettingsError:  # draws that do not move in all directions
        return None
    w = logp + 0.5 * np.sum(metric.whiten(centred) ** 2, axis=1)
    inverse = np.exp(-np.maximum(np.sort(w - w.mean()), -500.0))
    if not inverse.any():  # far out: all of w are above their mean, as rounding has made it
        return None
    # Draws are of pi, proposals of q = pi e^-w: acceptance is E min(e^-w, e^-w') / E e^-w over
    # pairs of draws; in this order each is the smaller one of the pairs with all before it.
    pairs = np.arange(n) / (0.5 * n * (n - 1))
    acceptance = float(np.sum(pairs * inverse) / np.mean(inverse))
    return Proposal(metric.centred(x.mean(axis=0)), acceptance)
