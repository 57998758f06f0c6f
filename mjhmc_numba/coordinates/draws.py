"""Draws that know which coordinates they are in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.coordinates.reparametrisation import Reparametrisation
from mjhmc_numba.coordinates.transform import Transform

__all__ = ["Draws"]


class Draws(NamedTuple):
    """Positions with gradients and log densities, all in the same coordinates.

    Attributes
    ----------
    x : (..., d) array
        Positions.
    grad : (..., d) array
        Gradients of the log density there.
    logp : (...) array or float
        Log densities.
    coordinates : Reparametrisation, Transform or None
        What they are expressed in; None: the coordinates of the density itself.
    """

    x: np.ndarray
    grad: np.ndarray
    logp: Any
    coordinates: Reparametrisation | Transform | None = None

    def to(self, coordinates: Reparametrisation | Transform | None) -> Draws:
        """The same draws in other coordinates; as they are, if they are there already."""
        if coordinates is self.coordinates:
            return self
        x, grad, logp = self.x, self.grad, self.logp
        if self.coordinates is not None:
            x = self.coordinates.to_x(self.x)
            grad = self.coordinates.gradient_to_x(x, grad)
            logp = logp - self.coordinates.log_volume(x)
        if coordinates is None:
            return Draws(x, grad, logp)
        return Draws(
            coordinates.to_z(x),
            coordinates.gradient_to_z(x, grad),
            logp + coordinates.log_volume(x),
            coordinates,
        )

    def take(self, rows: Any) -> Draws:
        """Some of the draws, by their index along the first axis."""
        return self._replace(x=self.x[rows], grad=self.grad[rows], logp=self.logp[rows])
