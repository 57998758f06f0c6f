"""The metric as Python sees it: the inverse mass matrix, diagonal, low-rank or dense.

A diagonal with few directions beside it, from draws and gradients, follows nuts-rs and nutpie
(Seyboldt, Carlson and Carpenter 2026, "Preconditioning Hamiltonian Monte Carlo by minimizing Fisher
divergence", arXiv:2603.18845).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mjhmc_numba.errors import SettingsError

__all__ = ["Metric", "geometric_mean"]


@dataclass(frozen=True, eq=False)
class Metric:
    r"""Inverse mass :math:`S (I + U^\top \mathrm{diag}(\lambda - 1) U) S`, S = diag(scale).

    It should resemble the covariance of the target, and the centre its mean, which only the
    harmonic integrator and the rotation use. `whiten` maps a position into the space where the
    kinetic energy is isotropic.

    Parameters
    ----------
    scale : (d,) array
        Positive and finite.
    directions : (k, d) array
        With orthonormal rows; k = 0 is a diagonal metric.
    eigenvalues : (k,) array
        Positive and finite.
    centre : (d,) array
        The origin by default.

    Raises
    ------
    SettingsError
        If a shape or a value is wrong. The kernel reads these arrays by address.
    """

    scale: np.ndarray
    directions: np.ndarray
    eigenvalues: np.ndarray
    centre: Any = None

    def __post_init__(self) -> None:
        if self.centre is None:
            object.__setattr__(self, "centre", np.zeros(np.size(self.scale)))
        for name in ("scale", "directions", "eigenvalues", "centre"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))
        d, k = self.scale.size, self.eigenvalues.size
        for name, shape in (
            ("scale", (d,)),
            ("directions", (k, d)),
            ("eigenvalues", (k,)),
            ("centre", (d,)),
        ):
            array = getattr(self, name)
            if array.shape != shape:
                raise SettingsError(
                    f"The {name} of a metric of {d} dimensions and {k} directions has shape "
                    f"{shape}, not {array.shape}."
                )
            if array.size and not np.isfinite(array).all():
                raise SettingsError(f"The {name} of a metric must be finite.")
        if not (self.scale > 0).all() or not (self.eigenvalues > 0).all():
            raise SettingsError("The scale and the eigenvalues of a metric must be positive.")

    def centred(self, centre: ArrayLike) -> Metric:
        """The same metric about another centre."""
        return dataclasses.replace(self, centre=np.array(centre, dtype=float))

    @classmethod
    def diagonal(cls, variance: ArrayLike) -> Metric:
        """A diagonal metric from the variances of the target."""
        variance = np.array(variance, dtype=float, ndmin=1)
        if variance.ndim != 1 or not np.all(np.isfinite(variance) & (variance > 0)):
            raise SettingsError(
                "A diagonal metric needs one positive finite variance per dimension."
            )
        return cls(np.sqrt(variance), np.zeros((0, variance.size)), np.zeros(0))

    @classmethod
    def dense(cls, covariance: ArrayLike) -> Metric:
        """A dense metric from the covariance of the target (all its directions are kept)."""
        covariance = np.array(covariance, dtype=float)
        if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
            raise SettingsError(
                f"A dense metric is a square matrix, not of shape {covariance.shape}."
            )
        if not np.allclose(covariance, covariance.T, rtol=1e-8, atol=0):  # as printed
            raise SettingsError("A dense metric must be symmetric.")
        scale = np.sqrt(np.diag(covariance))
        if not np.all(scale > 0):
            raise SettingsError("A dense metric must be positive definite.")
        eigenvalues, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        if eigenvalues[0] <= 0:
            raise SettingsError("A dense metric must be positive definite.")
        return cls(scale, np.ascontiguousarray(vectors.T), eigenvalues)

    @property
    def ndim(self) -> int:
        return self.scale.size

    @property
    def rank(self) -> int:
        """Number of directions beyond the diagonal."""
        return self.eigenvalues.size

    def _add_along(self, z: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """(I + U^T diag(factors) U) z."""
        return z + ((z @ self.directions.T) * factors) @ self.directions

    def whiten(self, x: np.ndarray) -> np.ndarray:
        """Positions (..., d) in the space where the kinetic energy is isotropic."""
        return self._add_along(x / self.scale, self.eigenvalues**-0.5 - 1)

    def unwhiten(self, y: np.ndarray) -> np.ndarray:
        """The inverse of `whiten`."""
        return self.scale * self._add_along(y, self.eigenvalues**0.5 - 1)

    def whiten_gradient(self, grad: np.ndarray) -> np.ndarray:
        """Gradients (..., d) with respect to the whitened position."""
        return self._add_along(grad * self.scale, self.eigenvalues**0.5 - 1)

    def unwhiten_gradient(self, grad: np.ndarray) -> np.ndarray:
        """The inverse of `whiten_gradient`."""
        return self._add_along(grad, self.eigenvalues**-0.5 - 1) / self.scale

    def covariance(self) -> np.ndarray:
        """The inverse mass as a matrix (d, d)."""
        inner = np.eye(self.ndim) + (self.directions.T * (self.eigenvalues - 1)) @ self.directions
        return self.scale[:, None] * inner * self.scale

    def log_volume(self) -> float:
        """Log determinant of `unwhiten`: log density by the whitened position less that by x."""
        return float(np.log(self.scale).sum() + 0.5 * np.log(self.eigenvalues).sum())


def geometric_mean(spread: np.ndarray, precision: np.ndarray) -> np.ndarray:
    r"""The solution of :math:`\Sigma\, precision\, \Sigma = spread`, all positive definite."""
    root = np.linalg.cholesky(precision)
    values, vectors = np.linalg.eigh(root.T @ spread @ root)
    half = np.linalg.solve(root.T, vectors * np.maximum(values, 0.0) ** 0.25)
    return half @ half.T
