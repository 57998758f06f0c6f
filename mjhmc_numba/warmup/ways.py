"""Ways down from a start: where a chain comes down may decide on the mode it stays in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mjhmc_numba.initial import Region
from mjhmc_numba.warmup.history import far_below

__all__ = ["Way", "Ways"]

ENOUGH, ENOUGH_NEAR = 5, 3  # ways that came down, from a start far out and from another
MOST = 8
TRIES = 5  # to find another start
WINDOWS = 1  # of the warm-up that a way takes
JUDGED_BY = 3  # draws at its end


@dataclass(frozen=True)
class Way:
    """Draws, gradients and log densities from a start on."""

    x: np.ndarray
    grad: np.ndarray
    logp: np.ndarray

    @property
    def end(self) -> float:
        """The log density where it has led to."""
        return float(self.logp[-JUDGED_BY:].mean())


@dataclass
class Ways:
    """Those tried so far from starts in one region, and whether there should be more.

    Parameters
    ----------
    region : of the starts
    logp : log density at the first
    most : ways to try
    """

    region: Region
    logp: float
    most: int = MOST
    tried: list[Way] = field(default_factory=list)

    @property
    def _ndim(self) -> int:
        return self.region.centre.size

    def add(self, way: Way) -> None:
        self.tried.append(way)

    @property
    def enough(self) -> bool:
        """If enough have come down, or all were tried.

        That two end alike would not tell: a minor mode may well be met twice. Nor does a start
        that is not far out: it may lie above a minor mode.
        """
        top, far = max(way.end for way in self.tried), far_below(self._ndim)
        down = sum(top - way.end < 2 * far for way in self.tried)
        is_near = self.tried[0].end - self.logp < far
        wanted = ENOUGH_NEAR if is_near else ENOUGH
        return down >= wanted or len(self.tried) >= self.most

    @property
    def best(self) -> Way:
        """The first of those that end highest."""
        top, another_mode = max(way.end for way in self.tried), far_below(self._ndim) / 2
        return next(way for way in self.tried if top - way.end < another_mode)

    def another_start(self, rng: np.random.Generator, evaluate, otherwise) -> np.ndarray:
        """A point of the region where the density is finite.

        Parameters
        ----------
        evaluate : log density and gradient at a point
        otherwise : where to start if none is found
        """
        for _ in range(TRIES):
            x = self.region.draw(rng)
            logp, grad = evaluate(x)
            if math.isfinite(logp) and np.isfinite(grad).all():
                return x
        return otherwise
