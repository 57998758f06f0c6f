"""Draws and gradients of the warm-up, as many as a bounded memory holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mjhmc_numba.chart import Chart

__all__ = ["History", "far_below"]

# Numbers kept of draws and as many of gradients: 4 MB each, but at least 64 draws.
NUMBERS = 1 << 19
FEWEST = 64
LARGEST = 1e100  # of a coordinate, so that squares are finite even if a chain goes astray


def far_below(ndim: int) -> float:
    """A difference of log densities that draws of one mode do not show: 10, and 10 standard
    deviations of half a chi-square with as many degrees.
    """
    return 10 + 10 * math.sqrt(0.5 * ndim)


@dataclass
class History:
    """The newest draws, oldest first.

    Parameters
    ----------
    ndim : dimensions
    most : draws that there will be
    """

    ndim: int
    most: int
    total: int = field(default=0, init=False)
    _x: np.ndarray = field(init=False)
    _grad: np.ndarray = field(init=False)
    _logp: np.ndarray = field(init=False)

    def __post_init__(self):
        # Zeros rather than whatever is there, so that equal histories are saved alike.
        self._x, self._grad = np.zeros((2, self.capacity, self.ndim))
        self._logp = np.zeros(self.capacity)

    @property
    def capacity(self) -> int:
        """Draws that are kept."""
        return max(min(self.most, NUMBERS // self.ndim), min(self.most, FEWEST), 1)

    def append(self, x, grad, logp) -> None:
        k = self.total % self.capacity
        np.clip(x, -LARGEST, LARGEST, out=self._x[k])
        np.clip(grad, -LARGEST, LARGEST, out=self._grad[k])
        self._logp[k] = logp
        self.total += 1

    def clear(self) -> None:
        """Forget all draws."""
        self.total = 0

    def newest(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The newest n draws (or as many as there are), gradients and log densities."""
        n = min(n, self.total, self.capacity)
        index = np.arange(self.total - n, self.total) % self.capacity
        return self._x[index], self._grad[index], self._logp[index]

    def stationary_part(
        self, window: int, share: float, chart: Chart | None = None
    ) -> tuple[np.ndarray, ...]:
        """The newest `share` of all draws, at least the last window, without the burn-in.

        Burn-in is all up to the last draw whose log density, in the coordinates of the chart,
        lies far below where the second half of the window is.
        """
        x, grad, logp = self.newest(self.capacity)
        n, d = x.shape
        level = logp if chart is None else logp + chart.log_volume(x)
        recent = level[-window:]
        floor = np.quantile(recent[len(recent) // 2 :], 0.9) - far_below(d)
        low = np.flatnonzero(level < floor)
        begin = low[-1] + 1 if low.size else 0
        begin = min(begin, n - max(8, window // 3))
        keep = min(max(window, int(share * self.total)), n - max(begin, 0))
        return x[-keep:], grad[-keep:], logp[-keep:]
