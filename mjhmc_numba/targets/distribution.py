"""A target distribution, and how its density is compiled."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from mjhmc_numba.kernel.compilation import FASTMATH

__all__ = ["Array", "Distribution", "Draw", "compile_density"]

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]


@dataclass(frozen=True, eq=False)
class Distribution:
    """A target distribution on R^ndim.

    Attributes
    ----------
    name : str
    ndim : int
    density : callable
        Compiled ``density(x, grad, *args) -> logp``; writes the gradient into `grad`.
    args : tuple of float64 arrays
        What the density reads besides x.
    mean, variance : array of shape (ndim,), or None
        Exact, coordinate by coordinate. None where unknown or not finite.
    draw : callable or None
        ``draw(rng, n)`` gives n independent exact draws, shape (n, ndim).
    """

    name: str
    ndim: int
    density: Callable[..., float]
    args: tuple[Array, ...] = ()
    mean: Array | None = None
    variance: Array | None = None
    draw: Draw | None = None

    def logp_and_grad(self, x: ArrayLike) -> tuple[float, Array]:
        """Log density (up to a constant) and its gradient at the point x, shape (ndim,)."""
        point = np.array(x, dtype=np.float64)
        if point.shape != (self.ndim,):
            raise ValueError(f"x must have shape ({self.ndim},), not {point.shape}.")
        grad = np.empty(self.ndim)
        return float(self.density(point, grad, *self.args)), grad

    def logp(self, x: ArrayLike) -> float:
        """Log density (up to a constant) at the point x, shape (ndim,)."""
        return self.logp_and_grad(x)[0]


def compile_density(function: Callable[..., float]) -> Callable[..., float]:
    """Compile a density lazily, and store it on disk where Numba finds a folder to write to."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}
    try:
        return njit(function, cache=True, **options)
    except RuntimeError:
        # No such folder (a read-only installation, no home): compiled anew in each process.
        return njit(function, **options)
