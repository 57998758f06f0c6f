r"""Reparametrisation o affine map: from coordinates in which the target should be standard normal.

.. math:: z \mapsto x = r(m + A z), \qquad A A^\top = M^{-1},

with the reparametrisation r, the centre m and the inverse mass of the metric. All functions take
positions and gradients (..., d). The kernel does not apply all of it: it runs in the coordinates of
the reparametrisation alone, where the metric is its mass, which comes to the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mjhmc_numba.coordinates.metric import Metric
from mjhmc_numba.coordinates.reparametrisation import Reparametrisation
from mjhmc_numba.kernel.layout import aligned_zeros
from mjhmc_numba.kernel.metric import ROWS_AT_ONCE

__all__ = ["Transform"]


@dataclass(frozen=True, eq=False)
class Transform:
    """A map z -> x of all space.

    Parameters
    ----------
    metric : Metric
        Of the coordinates that the reparametrisation makes.
    reparametrisation : Reparametrisation or None
        None: those are the density's own.
    """

    metric: Metric
    reparametrisation: Reparametrisation | None = None

    @property
    def _outer(self) -> Reparametrisation:
        return self.reparametrisation or Reparametrisation.none()

    def to_z(self, x: np.ndarray) -> np.ndarray:
        """Positions in which the target should be standard normal."""
        return self.metric.whiten(self._outer.to_z(x) - self.metric.centre)

    def to_x(self, z: np.ndarray) -> np.ndarray:
        """The inverse of `to_z`: positions of the density."""
        return self._outer.to_x(self.metric.centre + self.metric.unwhiten(z))

    def gradient_to_z(self, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """Gradients by z of the log density of z, from those by x of that of x, at positions x."""
        return self.metric.whiten_gradient(self._outer.gradient_to_z(x, grad))

    def gradient_to_x(self, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """The inverse of `gradient_to_z`, at the same positions x."""
        return self._outer.gradient_to_x(x, self.metric.unwhiten_gradient(grad))

    def log_volume(self, x: np.ndarray) -> np.ndarray:
        """Log |dx/dz|, which is log density by z less that by x; at positions x."""
        return self._outer.log_volume(x) + self.metric.log_volume()

    def arrays(self) -> dict[str, np.ndarray]:
        """What the kernel reads of it, by the names of `layout.ARRAYS`; newly made."""
        return {**_metric_arrays(self.metric), **_outer_arrays(self._outer)}

    def sizes(self) -> dict[str, int]:
        """The sizes of these arrays, by the names of `layout.SIZES`."""
        outer, parents = self._outer, self._outer.scale_parents.size
        return {
            "rank": _padded_rank(self.metric),
            "n_children": outer.children.size,
            "n_location_parents": outer.location_parents.size,
            "n_scale_parents": parents,
            "n_features": 2 * parents,
        }


def _padded_rank(metric: Metric) -> int:
    """Directions, with rows of zeros up to a number that the kernel likes."""
    return -(-metric.rank // ROWS_AT_ONCE) * ROWS_AT_ONCE


def _metric_arrays(metric: Metric) -> dict[str, np.ndarray]:
    directions = aligned_zeros(_padded_rank(metric), metric.ndim)
    directions[: metric.rank] = metric.directions * metric.scale

    def factors(power: float) -> np.ndarray:
        padded = np.zeros(len(directions))
        padded[: metric.rank] = metric.eigenvalues**power - 1
        return padded

    return {
        "scale": np.array(metric.scale, dtype=float, order="C"),
        "directions": directions,
        "inverse_mass_factors": factors(1.0),
        "root_mass_factors": factors(-0.5),
        "mass_factors": factors(-1.0),
        "centre": np.array(metric.centre, dtype=float, order="C"),
    }


def _outer_arrays(outer: Reparametrisation) -> dict[str, np.ndarray]:
    # Coefficients by parent, each for all children: their transposes.
    return {
        "children": np.array(outer.children, dtype=np.int64),
        "location_parents": np.array(outer.location_parents, dtype=np.int64),
        "scale_parents": np.array(outer.scale_parents, dtype=np.int64),
        "knots": np.array(outer.knots, dtype=float, order="C"),
        "location_coefficients": np.array(outer.location.T, dtype=float, order="C"),
        "log_scale_coefficients": np.array(outer.log_scale.T, dtype=float, order="C"),
        "shift_coefficients": np.array(outer.shift.T, dtype=float, order="C"),
        "features": np.zeros((2, 2 * outer.scale_parents.size)),
    }
