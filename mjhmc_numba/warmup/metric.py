r"""The metric from draws and gradients.

For a Gaussian with precision P the gradient is -P (x - m), so draws tell the covariance and
gradients its inverse; together they tell it from far fewer draws than either alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mjhmc_numba.metric import Metric

__all__ = [
    "COARSE",
    "FINE",
    "Detail",
    "centre",
    "diagonal",
    "differ",
    "first",
    "low_rank",
    "slowest_scale",
]

RIDGE, SMALL_RIDGE = 1e-5, 1e-10
MANY_DIMENSIONS, ENOUGH_DRAWS = 600, 256
EXTREME = 1e30  # variances are taken within [1/EXTREME, EXTREME]


class Detail(NamedTuple):
    """Eigenvalues within [1/cutoff, cutoff] are left to the diagonal, and all but `max_rank`."""

    cutoff: float
    max_rank: int


# More directions would be noise where draws are few, and each costs time with every gradient.
COARSE = Detail(cutoff=1.5, max_rank=64)
# For the harmonic integrator, whose kicks have all that is left over.
FINE = Detail(cutoff=1.05, max_rank=128)


def first(grad: np.ndarray) -> Metric:
    """A first guess from one gradient: variance 1 / |grad|, or 1 where it tells nothing."""
    steepness = np.abs(grad)
    tells = (steepness > 1e-8 * steepness.max()) & (steepness > 1 / EXTREME)
    return Metric.diagonal(1.0 / np.where(tells, steepness, 1.0))


def differ(one: Metric, other: Metric, factor: float = 3.0) -> bool:
    """Whether the scales differ so much that a step size in one says little in the other."""
    ratio = np.abs(np.log(one.scale / other.scale))
    return bool(ratio.max() > math.log(factor))


def diagonal(x: np.ndarray, grad: np.ndarray) -> Metric:
    """Scale (var x / var grad)**(1/4) in each dimension.

    Parameters
    ----------
    x, grad : (n, d) draws and gradients of the log density there
    """
    spread = np.clip(x.var(axis=0), 1 / EXTREME, EXTREME)
    steepness = np.clip(grad.var(axis=0), 1 / EXTREME, EXTREME)
    return Metric.diagonal(np.sqrt(spread / steepness))


def _geometric_mean(spread: np.ndarray, precision: np.ndarray) -> np.ndarray:
    r"""The solution of :math:`\Sigma\, precision\, \Sigma = spread`, all positive definite."""
    values, vectors = np.linalg.eigh(precision)
    values = np.maximum(values, 1e-12)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse_root = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(root @ spread @ root)
    middle = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return inverse_root @ middle @ inverse_root


def _row_space(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the span of few long rows, through their small Gram matrix."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = values > 1e-10 * values[-1]
    return (vectors[:, kept] / np.sqrt(values[kept])).T @ rows


def _longest_direction(y: np.ndarray) -> np.ndarray:
    """The unit vector along which the centred rows of y spread most."""
    if len(y) >= y.shape[1]:
        return np.linalg.eigh(y.T @ y)[1][:, -1]
    direction = np.linalg.eigh(y @ y.T)[1][:, -1] @ y
    return direction / max(np.linalg.norm(direction), 1e-300)


def low_rank(x: np.ndarray, grad: np.ndarray, detail: Detail = COARSE) -> Metric:
    """The diagonal, and the directions in which the scaled target is far from isotropic.

    In the space scaled by the diagonal, the covariance is estimated by the geometric mean of
    the draws' covariance and the gradients' inverse covariance; its eigenvectors with
    eigenvalues far from 1 are kept.
    """
    base = diagonal(x, grad)
    if x.shape[1] > MANY_DIMENSIONS and len(x) > ENOUGH_DRAWS:  # cubic in the smaller of the two
        rows = np.linspace(0, len(x) - 1, ENOUGH_DRAWS).astype(int)
        x, grad = x[rows], grad[rows]
    n, d = x.shape
    z = (x - x.mean(axis=0)) / base.scale
    q = (grad - grad.mean(axis=0)) * base.scale
    # The estimate acts in the span of the data; where that is all of space, use it as it is.
    basis = _row_space(np.concatenate([z, q])) if 2 * n < d else None
    if basis is not None:
        z, q = z @ basis.T, q @ basis.T
    # Fewer draws than dimensions leave directions that they do not tell about.
    ridge = (RIDGE if n < 2 * d else SMALL_RIDGE) * np.eye(z.shape[1])
    sigma = _geometric_mean(z.T @ z / n + ridge, q.T @ q / n + ridge)
    eigenvalues, vectors = np.linalg.eigh((sigma + sigma.T) / 2)
    eigenvalues = np.clip(eigenvalues, 1e-6, 1e8)
    strength = np.abs(np.log(eigenvalues))
    kept = np.flatnonzero(strength > math.log(detail.cutoff))
    kept = kept[np.argsort(-strength[kept])[: detail.max_rank]]
    directions = vectors[:, kept].T
    if basis is not None:
        directions = directions @ basis
    return Metric(base.scale, np.ascontiguousarray(directions), eigenvalues[kept])


def centre(metric: Metric, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
    r"""The centre m of the Gaussian whose gradient :math:`-M (x - m)` fits the gradients best.

    On a Gaussian every single draw tells it: :math:`m = x + M^{-1} \nabla\log\pi(x)`.
    """
    step = metric.unwhiten(metric.whiten_gradient(grad.mean(axis=0)))
    return x.mean(axis=0) + step


def _excess(along: np.ndarray, slope: np.ndarray) -> float:
    """How many times too large the variance of a few draws surely is, by their gradients.

    The mean of -x d(log pi)/dx is 1 for any target (Stein's identity).
    """
    product = -along * slope
    return max(1.0, float(product.mean() - 2.0 * product.std() / math.sqrt(len(product))))


def slowest_scale(metric: Metric, x: np.ndarray, grad: np.ndarray) -> float:
    """Standard deviation along the longest whitened direction: found on one half of the draws
    and measured on the other, both ways, so that noise does not lengthen it. Draws that creep
    may still go too far in both halves; their gradients tell.
    """
    y = metric.whiten(x)
    g = metric.whiten_gradient(grad)
    y = y - y.mean(axis=0)
    g = g - g.mean(axis=0)
    half = len(y) // 2
    spreads, scales = [], []
    first, second = slice(0, half), slice(half, None)
    for found, measured in ((first, second), (second, first)):
        direction = _longest_direction(y[found])
        along, slope = y[measured] @ direction, g[measured] @ direction
        spread, steepness = np.mean(along**2), np.mean(slope**2)
        spreads.append(spread / _excess(along, slope))
        # A flat direction tells nothing by its gradient.
        scales.append(math.sqrt(spread / steepness) if steepness > 1e-30 * spread else spread)
    by_draws, by_both = math.sqrt(np.mean(spreads)), math.sqrt(np.mean(scales))
    return max(by_draws, min(by_both, 4 * by_draws))
