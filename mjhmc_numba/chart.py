r"""Coordinates in which the process runs, where those of the density do not suit it.

In a hierarchy the scale of many dimensions depends on a few others: no step size suits all of it
(a funnel). A chart takes that dependence out:

.. math:: x_j = l_j + e^{s_j} (z_j + t_j), \qquad \log\pi(z) = \log\pi(x) + \sum_j s_j,

for some dimensions j, its *rows*. Their location l, log scale s and shift t depend on other
dimensions, the *drivers*, which stay as they are: l is linear in some of them, the *movers*; s in
two *features* of each of the others, the *scalers*: its value and a bend in the middle, that become
constant far beyond where it has been seen; and t in all of these. Where the scale is small, in the
neck of a funnel, l alone tells where a row is. A centred model becomes non-centred in this way, or
the reverse, or anything between. For any fixed chart the process is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mjhmc_numba.errors import SettingsError

__all__ = ["Chart", "features", "feature_slopes"]


def _hinges(u: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """(..., k, 3): a smooth max(0, .) of the distance from each knot, in widths."""
    t = (u[..., None] - knots[:, :3]) / knots[:, 3:]
    return 0.5 * (t + np.sqrt(t * t + 1.0))


def _pairs(hinges: np.ndarray) -> np.ndarray:
    """Value and bend, (..., 2 k), of what belongs to the low, middle and high knot."""
    low, middle, high = np.moveaxis(hinges, -1, 0)
    both = np.stack([low - high, 2.0 * middle - low - high], axis=-1)
    return both.reshape(*both.shape[:-2], -1)


def features(u: np.ndarray, knots: np.ndarray) -> np.ndarray:
    r"""Value and bend, (..., 2 k), of drivers u (..., k).

    With h a smooth max(0, .) of a distance in units of the width: h(low) - h(high), which is u but
    for a constant and is bounded, and 2 h(middle) - h(low) - h(high), which is :math:`|u -
    middle|` likewise.

    Parameters
    ----------
    knots : (k, 4), low, middle, high and width
    """
    return _pairs(_hinges(u, knots))


def feature_slopes(u: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """(..., 2 k): the derivatives of the features by their drivers."""
    t = (u[..., None] - knots[:, :3]) / knots[:, 3:]
    return _pairs(0.5 * (1.0 + t / np.sqrt(t * t + 1.0)) / knots[:, 3:])


def _linear(coefficients: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(..., m) from coefficients (m, 1 + p) of 1 and of values (..., p)."""
    return coefficients[:, 0] + values @ coefficients[:, 1:].T


@dataclass(frozen=True, eq=False)
class Chart:
    """A map z -> x of all space.

    Parameters
    ----------
    rows : (m,) dimensions that are moved and scaled
    movers : (i,) dimensions that the locations depend on
    location : (m, 1 + i), coefficients of 1 and of the movers in l
    scalers : (k,) dimensions that the log scales depend on
    knots : (k, 4), of their features
    log_scale : (m, 1 + 2 k), coefficients of 1 and of the features in s
    shift : (m, 1 + i + 2 k), coefficients of 1, of the movers and of the features in t
    """

    rows: np.ndarray
    movers: np.ndarray
    location: np.ndarray
    scalers: np.ndarray
    knots: np.ndarray
    log_scale: np.ndarray
    shift: np.ndarray

    @classmethod
    def none(cls) -> Chart:
        """The chart that leaves all as it is."""
        nothing, constant = np.zeros(0, np.int64), np.zeros((0, 1))
        return cls(nothing, nothing, constant, nothing, np.zeros((0, 4)), constant, constant)

    @property
    def drivers(self) -> list[int]:
        """All dimensions that others depend on."""
        return [*self.scalers.tolist(), *self.movers.tolist()]

    def check(self, ndim: int) -> None:
        """Raise unless it fits a density of so many dimensions."""
        dimensions = np.array([*self.rows.tolist(), *self.drivers], np.int64)
        if np.unique(dimensions).size < dimensions.size:
            raise SettingsError("A dimension of a chart is a row, a mover or a scaler, once.")
        if dimensions.size and (dimensions.min() < 0 or dimensions.max() >= ndim):
            raise SettingsError(f"The chart names dimension {dimensions.max()} of {ndim}.")
        m, k = self.rows.size, self.scalers.size
        wanted = {
            "location": (m, 1 + self.movers.size),
            "knots": (k, 4),
            "log_scale": (m, 1 + 2 * k),
            "shift": (m, 1 + self.movers.size + 2 * k),
        }
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                raise SettingsError(
                    f"{name} of a chart has shape {shape}, not {getattr(self, name).shape}."
                )

    def shape(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """l, s and t, (..., m), at positions x or z, whose drivers are the same."""
        movers, f = x[..., self.movers], features(x[..., self.scalers], self.knots)
        return (
            _linear(self.location, movers),
            _linear(self.log_scale, f),
            _linear(self.shift, np.concatenate([movers, f], axis=-1)),
        )

    def to_x(self, z: np.ndarray) -> np.ndarray:
        """Positions (..., d) of the density."""
        location, log_scale, shift = self.shape(z)
        x = np.array(z, dtype=float)
        x[..., self.rows] = location + np.exp(log_scale) * (z[..., self.rows] + shift)
        return x

    def to_z(self, x: np.ndarray) -> np.ndarray:
        """The inverse of `to_x`."""
        location, log_scale, shift = self.shape(x)
        z = np.array(x, dtype=float)
        z[..., self.rows] = (x[..., self.rows] - location) * np.exp(-log_scale) - shift
        return z

    def log_volume(self, x: np.ndarray) -> np.ndarray:
        """The sum of s, which is log density in z less that in x; at x or z."""
        return self.shape(x)[1].sum(axis=-1)

    def gradient_to_z(self, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """Gradients (..., d) by z from those by x, at positions x."""
        _, log_scale, _ = self.shape(x)
        slope = grad[..., self.rows]
        pulled = self._with_drivers(x, grad, slope, 1.0)
        pulled[..., self.rows] = slope * np.exp(log_scale)
        return pulled

    def gradient_to_x(self, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """The inverse of `gradient_to_z`."""
        _, log_scale, _ = self.shape(x)
        slope = grad[..., self.rows] * np.exp(-log_scale)
        pushed = self._with_drivers(x, grad, slope, -1.0)
        pushed[..., self.rows] = slope
        return pushed

    def _with_drivers(self, x, grad, slope, sign: float) -> np.ndarray:
        """The gradient with what the rows, whose slopes by x are given, add to their drivers."""
        location, log_scale, _ = self.shape(x)
        out, i = np.array(grad, dtype=float), 1 + self.movers.size
        by_scale, by_shift = slope * (x[..., self.rows] - location) + 1.0, np.exp(log_scale) * slope
        by_mover = slope @ self.location[:, 1:] + by_shift @ self.shift[:, 1:i]
        by_feature = by_scale @ self.log_scale[:, 1:] + by_shift @ self.shift[:, i:]
        by_feature = by_feature * feature_slopes(x[..., self.scalers], self.knots)
        out[..., self.movers] += sign * by_mover
        out[..., self.scalers] += sign * by_feature.reshape(*by_feature.shape[:-1], -1, 2).sum(-1)
        return out
