"""Draws and gradients of the warm-up, as many as a bounded memory holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mjhmc_numba.coordinates import Draws, Reparametrisation
from mjhmc_numba.initial import far_below

__all__ = ["History"]

# Numbers kept of draws, and as many of gradients: 8 bytes each make 4 MB, a bound on the memory.
NUMBERS = 1 << 19
# Draws, however many dimensions: the newest share of them that a metric is made from must be more
# than the 16 of a low-rank one, in each half of which a direction is found and measured.
FEWEST_KEPT = 64
# Bound on a coordinate, so that squares and their sums are below the largest float64, 1.8e308, even
# if a chain goes astray.
LARGEST = 1e100


@dataclass
class History:
    """The newest draws, oldest first, in the coordinates of the density.

    Parameters
    ----------
    ndim : int
        Dimensions.
    most : int
        Number of draws that there will be.
    """

    ndim: int
    most: int
    total: int = field(default=0, init=False)
    _x: np.ndarray = field(init=False)
    _grad: np.ndarray = field(init=False)
    _logp: np.ndarray = field(init=False)

    def __post_init__(self):
        # Zeros rather than uninitialised memory, so that equal histories are saved alike.
        self._x, self._grad = np.zeros((2, self.capacity, self.ndim))
        self._logp = np.zeros(self.capacity)

    @property
    def capacity(self) -> int:
        """Draws that are kept."""
        return max(min(self.most, NUMBERS // self.ndim), min(self.most, FEWEST_KEPT), 1)

    def extend(self, draws: Draws) -> None:
        """Take in draws (n, d), oldest first."""
        draws = draws.take(slice(-self.capacity, None)).to(None)
        n = len(draws.x)
        rows = np.arange(self.total, self.total + n) % self.capacity
        self._x[rows] = np.clip(draws.x, -LARGEST, LARGEST)
        self._grad[rows] = np.clip(draws.grad, -LARGEST, LARGEST)
        self._logp[rows] = draws.logp
        self.total += n

    def clear(self) -> None:
        """Drop all draws."""
        self.total = 0

    def newest(self, n: int) -> Draws:
        """The newest n draws, or as many as there are."""
        n = min(n, self.total, self.capacity)
        index = np.arange(self.total - n, self.total) % self.capacity
        return Draws(self._x[index], self._grad[index], self._logp[index])

    def stationary_part(
        self, window: int, share: float, coordinates: Reparametrisation | None = None
    ) -> Draws:
        """The newest `share` of all draws, at least the last window, without the burn-in.

        Burn-in is all up to the last draw whose log density, in these coordinates, lies
        far below where the second half of the window is.
        """
        draws = self.newest(self.capacity)
        n, d = draws.x.shape
        level = draws.logp if coordinates is None else draws.logp + coordinates.log_volume(draws.x)
        recent = level[-window:]
        floor = np.quantile(recent[len(recent) // 2 :], 0.9) - far_below(d)
        low = np.flatnonzero(level < floor)
        begin = low[-1] + 1 if low.size else 0
        begin = min(begin, n - max(8, window // 3))
        keep = min(max(window, int(share * self.total)), n - max(begin, 0))
        return draws.take(slice(-keep, None))
