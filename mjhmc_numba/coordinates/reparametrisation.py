r"""Coordinates in which the process runs, where those of the density do not suit it.

In a hierarchy the scale of many dimensions depends on a few others: no step size suits all of it
(a funnel). A reparametrisation takes that dependence out:

.. math:: x_j = l_j + e^{s_j} (z_j + t_j), \qquad \log\pi(z) = \log\pi(x) + \sum_j s_j,

for some dimensions j, its *children*. Their location l, log scale s and shift t depend on other
dimensions, the *parents*, which stay as they are: l is linear in some of them, the *location
parents*; s in two *features* of each of the others, the *scale parents*: its value and a bend in
the middle, that become constant far beyond where it has been seen; and t in all of these. Where the
scale is small, in a funnel, l alone tells where a child is. A centred model becomes non-centred in
this way (Papaspiliopoulos, Roberts and Skold 2007, Statistical Science 22, 59), or the reverse, or
anything between, as in the partially centred families of Gorinova, Moore and Hoffman (2020,
"Automatic reparameterisation of probabilistic programs", ICML). For any fixed reparametrisation
the process is exact.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

import numpy as np

from mjhmc_numba.errors import SettingsError

__all__ = ["Reparametrisation", "feature_slopes", "features"]


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
    r"""Value and bend, (..., 2 k), of scale parents u (..., k).

    With h a smooth max(0, .) of a distance in units of the width: h(low) - h(high), which is u but
    for a constant and is bounded, and 2 h(middle) - h(low) - h(high), which is :math:`|u -
    middle|` likewise.

    Parameters
    ----------
    u : (..., k) array
        Values of the scale parents.
    knots : (k, 4) array
        Low, middle, high and width.
    """
    return _pairs(_hinges(u, knots))


def feature_slopes(u: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """(..., 2 k): the derivatives of the features by their parents."""
    t = (u[..., None] - knots[:, :3]) / knots[:, 3:]
    return _pairs(0.5 * (1.0 + t / np.sqrt(t * t + 1.0)) / knots[:, 3:])


def _linear(coefficients: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(..., m) from coefficients (m, 1 + p) of 1 and of values (..., p)."""
    return coefficients[:, 0] + values @ coefficients[:, 1:].T


_Shape = tuple[np.ndarray, np.ndarray, np.ndarray]  # l, s and t, see `Reparametrisation.shape`


@dataclass(frozen=True, eq=False)
class Reparametrisation:
    """A map z -> x of all space.

    Parameters
    ----------
    children : (m,) array
        Dimensions that are moved and scaled.
    location_parents : (i,) array
        Dimensions that the locations depend on.
    location : (m, 1 + i) array
        Coefficients of 1 and of the location parents in l.
    scale_parents : (k,) array
        Dimensions that the log scales depend on.
    knots : (k, 4) array
        Of their features.
    log_scale : (m, 1 + 2 k) array
        Coefficients of 1 and of the features in s.
    shift : (m, 1 + i + 2 k) array
        Coefficients of 1, of the location parents and of the features in t.
    """

    children: np.ndarray
    location_parents: np.ndarray
    location: np.ndarray
    scale_parents: np.ndarray
    knots: np.ndarray
    log_scale: np.ndarray
    shift: np.ndarray

    @classmethod
    def none(cls) -> Reparametrisation:
        """The one that leaves all as it is."""
        nothing, constant = np.zeros(0, np.int64), np.zeros((0, 1))
        return cls(nothing, nothing, constant, nothing, np.zeros((0, 4)), constant, constant)

    def to_json(self) -> str:
        """All of it as text, exactly; for `from_json`."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps({k: [list(a.shape), a.ravel().tolist()] for k, a in arrays.items()})

    @classmethod
    def from_json(cls, text: str) -> Reparametrisation:
        """What `to_json` has written."""
        arrays = {}
        for name, (shape, values) in json.loads(text).items():
            kind = np.int64 if name in ("children", "location_parents", "scale_parents") else float
            arrays[name] = np.array(values, dtype=kind).reshape(shape)
        return cls(**arrays)

    @property
    def parents(self) -> list[int]:
        """All dimensions that the children depend on."""
        return [*self.scale_parents.tolist(), *self.location_parents.tolist()]

    @property
    def scale_slopes(self) -> np.ndarray:
        """(m, k): by how much a child's log scale grows with each scale parent, on average between
        its low and high knot. By the log of a standard deviation: 0 is centred, 1 non-centred.
        """
        out = np.zeros((self.children.size, self.scale_parents.size))
        for k, (low, _, high, _) in enumerate(self.knots):
            part = slice(1 + 2 * k, 3 + 2 * k)
            f = features(np.array([[low], [high]]), self.knots[k : k + 1])
            out[:, k] = self.log_scale[:, part] @ (f[1] - f[0]) / (high - low)
        return out

    def check(self, ndim: int) -> None:
        """Raise unless it fits a density of so many dimensions."""
        dimensions = np.array([*self.children.tolist(), *self.parents], np.int64)
        if np.unique(dimensions).size < dimensions.size:
            raise SettingsError(
                "A dimension of a reparametrisation is a child, a location parent or a scale "
                "parent, once."
            )
        if dimensions.size and (dimensions.min() < 0 or dimensions.max() >= ndim):
            raise SettingsError(
                f"The reparametrisation names dimension {dimensions.max()} of {ndim}."
            )
        m, k = self.children.size, self.scale_parents.size
        wanted = {
            "location": (m, 1 + self.location_parents.size),
            "knots": (k, 4),
            "log_scale": (m, 1 + 2 * k),
            "shift": (m, 1 + self.location_parents.size + 2 * k),
        }
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                raise SettingsError(
                    f"{name} of a reparametrisation has shape {shape}, not "
                    f"{getattr(self, name).shape}."
                )

    def shape(self, x: np.ndarray) -> _Shape:
        """l, s and t, (..., m), at positions x or z, whose parents are the same."""
        values, f = x[..., self.location_parents], features(x[..., self.scale_parents], self.knots)
        return (
            _linear(self.location, values),
            _linear(self.log_scale, f),
            _linear(self.shift, np.concatenate([values, f], axis=-1)),
        )

    def to_x(self, z: np.ndarray) -> np.ndarray:
        """Positions (..., d) of the density."""
        location, log_scale, shift = self.shape(z)
        x = np.array(z, dtype=float)
        x[..., self.children] = location + np.exp(log_scale) * (z[..., self.children] + shift)
        return x

    def to_z(self, x: np.ndarray, shape: _Shape | None = None) -> np.ndarray:
        """The inverse of `to_x`; their `shape`, where it is known, takes most of the time."""
        location, log_scale, shift = shape or self.shape(x)
        z = np.array(x, dtype=float)
        z[..., self.children] = (x[..., self.children] - location) * np.exp(-log_scale) - shift
        return z

    def log_volume(self, x: np.ndarray) -> np.ndarray:
        """The sum of s, which is log density in z less that in x; at x or z."""
        return self.shape(x)[1].sum(axis=-1)

    def gradient_to_z(
        self, x: np.ndarray, grad: np.ndarray, shape: _Shape | None = None
    ) -> np.ndarray:
        """Gradients (..., d) by z from those by x, at positions x with this `shape`."""
        location, log_scale, _ = shape or self.shape(x)
        slope, scale = grad[..., self.children], np.exp(log_scale)
        pulled = self._with_parents(x, grad, slope, 1.0, location, scale)
        pulled[..., self.children] = slope * scale
        return pulled

    def gradient_to_x(self, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """The inverse of `gradient_to_z`."""
        location, log_scale, _ = self.shape(x)
        scale = np.exp(log_scale)
        slope = grad[..., self.children] / scale
        pushed = self._with_parents(x, grad, slope, -1.0, location, scale)
        pushed[..., self.children] = slope
        return pushed

    def _with_parents(
        self,
        x: np.ndarray,
        grad: np.ndarray,
        slope: np.ndarray,
        sign: float,
        location: np.ndarray,
        scale: np.ndarray,
    ) -> np.ndarray:
        """The gradient with what the children add to their parents, from their slopes by x."""
        out, i = np.array(grad, dtype=float), 1 + self.location_parents.size
        by_scale, by_shift = slope * (x[..., self.children] - location) + 1.0, scale * slope
        by_parent = slope @ self.location[:, 1:] + by_shift @ self.shift[:, 1:i]
        by_feature = by_scale @ self.log_scale[:, 1:] + by_shift @ self.shift[:, i:]
        by_feature = by_feature * feature_slopes(x[..., self.scale_parents], self.knots)
        out[..., self.location_parents] += sign * by_parent
        out[..., self.scale_parents] += sign * by_feature.reshape(
            *by_feature.shape[:-1], -1, 2
        ).sum(-1)
        return out
