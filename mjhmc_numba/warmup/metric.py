r"""The metric from draws and gradients.

For a Gaussian with precision P the gradient is -P (x - m), so draws tell the covariance and
gradients its inverse; together they tell it from far fewer draws than either alone. That the
geometric mean of both minimises the Fisher divergence is taken from nuts-rs and nutpie (Seyboldt,
Carlson and Carpenter 2026, "Preconditioning Hamiltonian Monte Carlo by minimizing Fisher
divergence", arXiv:2603.18845).
"""

from __future__ import annotations

import math

import numpy as np

from mjhmc_numba.coordinates import Metric

__all__ = [
    "FEWEST_DRAWS_OF_METRIC",
    "STRONGEST",
    "centre",
    "diagonal",
    "differ",
    "first",
    "gradients",
    "row_space",
    "scales",
    "slowest_scale",
    "strong_space",
]

EXTREME = 1e30  # variances are taken within [1/EXTREME, EXTREME], so that ratios are finite
# The variance of fewer draws is off by half and more (its relative error is sqrt(2 / (n - 1))).
FEWEST_DRAWS_OF_METRIC = 8
# A wall, see `gradients`: the variances of draws and gradients have a product below the first, and
# the centre that gradients point to lies beyond so many of its standard deviations.
WALLED, BEYOND_WALL = 0.01, 3.0
# In more dimensions than twice the first number so many of the strongest directions are looked for,
# half of them in draws and half in gradients where both count, with so many iterations: where a
# metric is compared and not used, and for the longest direction. Parents are chosen as with all
# directions, in a quarter of the time of such a metric in 175 dimensions.
STRONGEST, ITERATIONS = 32, 3
ROUNDING = 1e-10  # relative change of a gradient that says nothing: sums of 1e6 terms err by that


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
    """The metric of the `scales` alone."""
    return Metric.diagonal(scales(x, grad) ** 2)


def scales(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """(var x / var grad)**(1/4) in each dimension.

    Parameters
    ----------
    x, grad : (n, d) arrays
        Draws and gradients of the log density there.
    """
    spread = np.clip(x.var(axis=0), 1 / EXTREME, EXTREME)
    steepness = np.clip(gradients(x, grad).var(axis=0), 1 / EXTREME, EXTREME)
    return np.sqrt(np.sqrt(spread / steepness))


def gradients(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """The gradients; where the density ends at a wall, those of a Gaussian like the draws.

    The product of the variances of a coordinate and of its gradient is 1 on a Gaussian and more on
    any other density that falls to 0 (Cramer and Rao). Where draws that do not drift have a
    hundredth of it, a hard wall ends the density, as that of an exponential or a uniform variable
    without a transform, and gradients say nothing of its width. The scale from both would then be 3
    times too long or more (the fourth root). Draws that have seen a part of their range only have
    such products too. But their gradients are not constant; and they drift, so that their halves
    lie a standard deviation apart and more, or are where the centre is that gradients point to.

    Parameters
    ----------
    x, grad : (n, d) arrays
        Draws and gradients of the log density there.
    """
    spread, steepness, mean = x.var(axis=0), grad.var(axis=0), grad.mean(axis=0)
    walls = (spread > 0) & (spread * steepness < WALLED)
    if not walls.any():
        return grad
    half = len(x) // 2
    stays = (x[:half].mean(axis=0) - x[half:].mean(axis=0)) ** 2 < spread
    is_beyond = mean**2 * np.sqrt(spread) > BEYOND_WALL**2 * np.sqrt(steepness)
    is_constant = steepness <= ROUNDING**2 * mean**2
    walls &= (stays & is_beyond) | is_constant
    grad = grad.copy()
    grad[:, walls] = -(x[:, walls] - x[:, walls].mean(axis=0)) / spread[walls]
    return grad


def row_space(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the span of few long rows, through their small Gram matrix."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = values > 1e-10 * values[-1]
    return (vectors[:, kept] / np.sqrt(values[kept])).T @ rows


def strong_space(rows: np.ndarray, most: int = STRONGEST // 2) -> np.ndarray:
    """An orthonormal basis of the `most` directions along which rows (n, d) spread most, by
    subspace iteration from some of them, in some n d operations for each.
    """
    basis = rows[np.linspace(0, len(rows) - 1, most).astype(int)]
    for _ in range(ITERATIONS):
        basis = row_space(basis @ rows.T @ rows)
    return basis


def _longest_direction(y: np.ndarray) -> np.ndarray:
    """The unit vector along which the centred rows of y spread most."""
    if min(y.shape) > 2 * STRONGEST:
        basis = strong_space(y)
        return _longest_direction(y @ basis.T) @ basis
    if len(y) >= y.shape[1]:
        return np.linalg.eigh(y.T @ y)[1][:, -1]
    direction = np.linalg.eigh(y @ y.T)[1][:, -1] @ y
    return direction / max(np.linalg.norm(direction), 1e-300)


def centre(metric: Metric, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
    r"""The centre m of the Gaussian whose gradient :math:`-M (x - m)` fits the gradients best.

    On a Gaussian every single draw tells it: :math:`m = x + M^{-1} \nabla\log\pi(x)`.
    """
    step = metric.unwhiten(metric.whiten_gradient(grad.mean(axis=0)))
    return x.mean(axis=0) + step


def _excess(along: np.ndarray, slope: np.ndarray) -> float:
    """How many times too large the variance of a few draws surely is, by their gradients.

    The mean of -x d(log pi)/dx is 1 for any target (Stein 1981, Annals of Statistics 9, 1135).
    """
    product = -along * slope
    return max(1.0, float(product.mean() - 2.0 * product.std() / math.sqrt(len(product))))


def slowest_scale(metric: Metric, x: np.ndarray, grad: np.ndarray) -> float:
    """Standard deviation along the longest whitened direction: found on one half of the draws
    and measured on the other, both ways, so that noise does not lengthen it. Draws that mix
    slowly may still go too far in both halves; their gradients tell.
    """
    y = metric.whiten(x)
    g = metric.whiten_gradient(gradients(x, grad))
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
