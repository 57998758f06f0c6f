"""Several starts: where a chain burns in may decide on the mode it stays in.

Short runs from dispersed starts are compared by the log density that they have reached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mjhmc_numba.coordinates import Draws
from mjhmc_numba.initial import Region
from mjhmc_numba.warmup.history import far_below

__all__ = ["STARTS_TAKE_WINDOWS", "Multistart", "end_level"]

# Chosen by trial on the models of the benchmark that have several modes.
ENOUGH, ENOUGH_NEAR = 5, 3  # runs that burnt in, from a first start far out and from another
MOST = 8
TRIES = 5  # to find another start
STARTS_TAKE_WINDOWS = 1  # of the warm-up, each
JUDGED_BY = 3  # draws at the end of a run


def end_level(draws: Draws) -> float:
    """The log density where a run has led to."""
    return float(draws.logp[-JUDGED_BY:].mean())


@dataclass
class Multistart:
    """The runs so far from starts in one region, and whether there should be more.

    Parameters
    ----------
    region : Region
        Of the starts.
    logp : float
        Log density at the first.
    most : int
        Runs to try.
    tried : list of Draws
        Each run so far.
    """

    region: Region
    logp: float
    most: int = MOST
    tried: list[Draws] = field(default_factory=list)

    @property
    def _ndim(self) -> int:
        return self.region.centre.size

    def add(self, run: Draws) -> None:
        self.tried.append(run)

    @property
    def enough(self) -> bool:
        """If enough have burnt in, or all were tried.

        That two end alike would not tell: a minor mode may well be met twice. Nor does a start
        that is not far out: it may lie above a minor mode.
        """
        top, far = max(end_level(run) for run in self.tried), far_below(self._ndim)
        down = sum(top - end_level(run) < 2 * far for run in self.tried)
        is_near = end_level(self.tried[0]) - self.logp < far
        wanted = ENOUGH_NEAR if is_near else ENOUGH
        return down >= wanted or len(self.tried) >= self.most

    @property
    def best(self) -> Draws:
        """The first of those that end highest."""
        top, another_mode = max(map(end_level, self.tried)), far_below(self._ndim) / 2
        return next(run for run in self.tried if top - end_level(run) < another_mode)

    def another_start(self, rng: np.random.Generator, evaluate, otherwise) -> np.ndarray:
        """A point of the region where the density is finite.

        Parameters
        ----------
        rng : numpy.random.Generator
            Draws the points.
        evaluate : callable
            The `Draws` of a point.
        otherwise : (d,) array
            Where to start if none is found.
        """
        for _ in range(TRIES):
            x = self.region.draw(rng)
            draw = evaluate(x)
            if math.isfinite(draw.logp) and np.isfinite(draw.grad).all():
                return x
        return otherwise
