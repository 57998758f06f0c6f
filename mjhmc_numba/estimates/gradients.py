"""Log densities and gradients at many points."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from mjhmc_numba.density import Target, as_target
from mjhmc_numba.density.signature import C_FUNCTION
from mjhmc_numba.estimates.errors import EstimateError
from mjhmc_numba.kernel.density import NOT_FINITE, SUCCESS, UNWRITTEN

__all__ = ["evaluate"]

# For which another thread is worth starting: two take 0.08 ms to start and to end, and so many
# points of a normal density in ten dimensions 0.18 ms.
FEWEST_POINTS = 256


def evaluate(
    density, points: np.ndarray, cores: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Log densities and gradients.

    Parameters
    ----------
    density : Target or callable
        What `mjhmc_numba.sample` takes with its dimension known, or any function
        ``x -> (logp, grad)``.
    points : (..., d) array
    cores : int, optional
        Threads; all cores by default. A function of Python runs on one.

    Returns
    -------
    logp : (...) array
        -inf where the density is not finite.
    grad : (..., d) array
    """
    points = np.ascontiguousarray(points, dtype=float)
    d = points.shape[-1]
    flat = points.reshape(-1, d)
    logp, grad = np.empty(len(flat)), np.empty_like(flat)
    work: Callable[[int, int], None]
    if isinstance(density, Target) or hasattr(density, "density"):
        target = as_target(density)
        if target.ndim != d:
            raise EstimateError(f"The density has {target.ndim} dimensions, the draws {d}.")
        work = _native(target, flat, logp, grad)
    else:
        work, cores = _python(density, flat, logp, grad), 1
    _share(work, len(flat), cores)
    return logp.reshape(points.shape[:-1]), grad.reshape(points.shape)


def _share(work: Callable[[int, int], None], n: int, cores: int | None) -> None:
    """All of n points in equal parts, on threads where that is worth it."""
    parts = min(cores or os.cpu_count() or 1, max(n // FEWEST_POINTS, 1))
    ends = [n * k // parts for k in range(parts + 1)]
    if parts == 1:
        work(0, n)
        return
    with ThreadPoolExecutor(parts) as pool:
        for done in [pool.submit(work, a, b) for a, b in pairwise(ends)]:
            done.result()


def _native(target: Target, x, logp, grad) -> Callable[[int, int], None]:
    """By the rules of the kernel. ctypes gives Python's lock back while the C function runs, so
    threads run side by side.
    """
    call, table = C_FUNCTION(target.address), target.table.ctypes.data
    word, row = x.itemsize, x.itemsize * x.shape[1]
    at = x.ctypes.data, grad.ctypes.data, logp.ctypes.data
    mark = logp.view(np.int64)

    def work(start: int, stop: int) -> None:
        mark[start:stop] = UNWRITTEN
        for i in range(start, stop):
            code = call(at[0] + row * i, at[1] + row * i, at[2] + word * i, table)
            if mark[i] == UNWRITTEN or code not in (SUCCESS, NOT_FINITE):
                raise target.error_at(x[i])
            if code == NOT_FINITE:
                logp[i] = -np.inf
        logp[start:stop][np.isnan(logp[start:stop])] = -np.inf

    return work


def _python(function, x, logp, grad) -> Callable[[int, int], None]:
    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            logp[i], grad[i] = function(x[i].copy())
        logp[start:stop][np.isnan(logp[start:stop])] = -np.inf

    return work
