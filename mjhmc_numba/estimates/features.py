r"""Functions with mean zero, made of draws and gradients.

For every smooth f whose boundary term vanishes (Stein's identity)

.. math:: E[\Delta f(y) + \nabla f(y) \cdot \nabla\log\pi(y)] = 0 .

With polynomials as f these are the control variates of zero-variance estimators (Assaraf and
Caffarel 1999; Mira, Solgi and Imparato 2013). Here y are coordinates in which the target is nearly
standard normal, and u is the gradient by y: then the features of degree k span nearly all
polynomials of degree k, and a ridge treats all directions alike.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from mjhmc_numba.coordinates.metric import geometric_mean
from mjhmc_numba.estimates.blocks import blocks

__all__ = ["Whitening", "monomials", "stein_features"]

# Dimensions up to which correlations are taken out, at a cost of d^3 (2.5 CPU seconds for
# 4000 draws in 512); beyond, scales alone.
DENSE = 512
EXTREME_VARIANCE = 1e100  # of a variance: a quotient of two is a float64, below 1.8e308


class Whitening(NamedTuple):
    """Affine coordinates y = root (x - centre) / scale; `inverse` is that of `root`.

    The roots are symmetric, so that y_j is nearly x_j where correlations are weak.
    """

    centre: np.ndarray
    scale: np.ndarray
    root: np.ndarray | None
    inverse: np.ndarray | None

    @classmethod
    def fit(cls, x: np.ndarray, grad: np.ndarray) -> Whitening:
        """From draws and gradients (n, d): their covariances and the inverse of the other's.

        The scale is (var x / var grad)**(1/4), and the covariance of what is scaled the geometric
        mean of both estimates, each with a ridge against the noise of few draws.
        """
        n, d = x.shape
        centre = x.mean(axis=0)
        spread, steepness = x.var(axis=0), grad.var(axis=0)
        spread = np.clip(spread, 1 / EXTREME_VARIANCE, EXTREME_VARIANCE)
        scale = (spread / np.clip(steepness, 1 / EXTREME_VARIANCE, EXTREME_VARIANCE)) ** 0.25
        if d == 1 or d > DENSE:
            return cls(centre, scale, None, None)
        # A stiff direction keeps its own scale only if the ridge is small against it. On 14 models
        # a tenth or ten times as much changes gains by 1 % at most (stoch_vol by 2 %).
        ridge = min(1.0, d / n) * 0.01
        z = np.subtract(x, centre, order="F")
        z /= scale
        of_draws = _ridged(z.T @ z / n, ridge)
        q = np.subtract(grad, grad.mean(axis=0), out=z)
        q *= scale
        covariance = geometric_mean(of_draws, _ridged(q.T @ q / n, ridge))
        values, vectors = np.linalg.eigh(covariance)
        values = np.sqrt(np.clip(values, 1e-12 * values[-1], None))
        return cls(centre, scale, (vectors / values) @ vectors.T, (vectors * values) @ vectors.T)

    def apply(self, x: np.ndarray, grad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whitened draws y and gradients u by them, each (n, d), with each dimension in one piece
        of memory, as features want them.
        """
        y, u = (np.array(a, dtype=float, order="F") for a in (x, grad))
        self.apply_in_place(y, u)
        return y, u

    def apply_in_place(self, x: np.ndarray, grad: np.ndarray) -> None:
        """The same, written over the draws and gradients."""
        x -= self.centre
        x /= self.scale
        grad *= self.scale
        if self.root is not None and self.inverse is not None:
            _turn(self.root, x)
            _turn(self.inverse, grad)

    def unwhiten(self, y: np.ndarray) -> np.ndarray:
        """Positions x of whitened y (..., d)."""
        z = y if self.inverse is None else y @ self.inverse
        return self.centre + self.scale * z

    def log_volume(self) -> float:
        """Log determinant of dx / dy."""
        total = float(np.log(self.scale).sum())
        if self.inverse is not None:
            total += float(np.linalg.slogdet(self.inverse)[1])
        return total


def _turn(matrix: np.ndarray, values: np.ndarray) -> None:
    """Rows of (n, d) values times a matrix, in their place."""
    for some in blocks(*values.shape):
        values[some] = values[some] @ matrix


def _ridged(matrix: np.ndarray, ridge: float) -> np.ndarray:
    return matrix + (ridge + 1e-13) * np.diag(np.diag(matrix) + 1e-300)


def monomials(d: int, degree: int) -> np.ndarray:
    """(m, degree) indices of all monomials of that degree."""
    return np.array(list(combinations_with_replacement(range(d), degree)), np.int64)


def stein_features(y: np.ndarray, u: np.ndarray, terms: np.ndarray) -> np.ndarray:
    r""":math:`\Delta f + \nabla f \cdot u` for monomials f of one degree, up to 3.

    Parameters
    ----------
    y, u : (d, n) array
        Whitened draws and gradients, a row for each dimension.
    terms : (m, degree) array
        The indices of each monomial.

    Returns
    -------
    (m, n) array
    """
    if terms.shape[1] == 1:
        return u[terms[:, 0]]
    if terms.shape[1] == 2:
        i, j = terms.T
        out = _slopes_of_products(y, u, i, j)
        out[i == j] += 2.0
        return out
    i, j, k = terms.T
    out = _slopes_of_products(y, u, j, k)
    out *= y[i]
    out += y[j] * y[k] * u[i]
    for one, other, rest in ((i, j, k), (i, k, j), (j, k, i)):
        same = one == other
        out[same] += 2.0 * y[rest[same]]
    return out


def _slopes_of_products(y, u, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """(m, n): the gradients of y_i y_j times u."""
    out, other = y[i], y[j]
    out *= u[j]
    other *= u[i]
    out += other
    return out
