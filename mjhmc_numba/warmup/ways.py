"""Ways down from a start far out: where a chain comes down may decide on the mode it stays in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mjhmc_numba.warmup.history import far_below

__all__ = ["Way", "Ways"]

MOST = 3
WINDOWS = 2  # of the warm-up that a way takes
JUDGED_BY = 5  # draws at its end


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
    """Those tried so far from near one start, and whether there should be more.

    Parameters
    ----------
    start : (d,)
    logp : log density there
    most : ways to try, at most
    """

    start: np.ndarray
    logp: float
    most: int = MOST
    tried: list[Way] = field(default_factory=list)

    @property
    def _another_mode(self) -> float:
        return far_below(self.start.size) / 2

    def add(self, way: Way) -> None:
        self.tried.append(way)

    @property
    def enough(self) -> bool:
        """If the start was not far out, if two ways end alike and highest, if all were tried."""
        ends = sorted(way.end for way in self.tried)
        if len(ends) == 1 and ends[0] - self.logp < far_below(self.start.size):
            return True
        alike = len(ends) > 1 and ends[-1] - ends[-2] < self._another_mode
        return alike or len(ends) >= self.most

    @property
    def best(self) -> Way:
        """The first of those that end highest."""
        top = max(way.end for way in self.tried)
        return next(way for way in self.tried if top - way.end < self._another_mode)

    def another_start(self, rng: np.random.Generator, evaluate) -> np.ndarray:
        """A point within 1 of the start, as starts are chosen, where the density is finite.

        Parameters
        ----------
        evaluate : log density and gradient at a point
        """
        for _ in range(self.most):
            x = self.start + rng.uniform(-1.0, 1.0, self.start.size)
            logp, grad = evaluate(x)
            if math.isfinite(logp) and np.isfinite(grad).all():
                return x
        return self.start

    def save(self) -> dict:
        """As arrays and numbers."""
        tried = [{"x": w.x, "grad": w.grad, "logp": w.logp} for w in self.tried]
        return {"start": self.start, "logp": self.logp, "most": self.most, "tried": tried}

    @classmethod
    def load(cls, saved: dict) -> Ways:
        """What was saved."""
        return cls(**{**saved, "tried": [Way(**way) for way in saved["tried"]]})
