"""Dimensions that the density does not depend on."""

from __future__ import annotations

import numpy as np

from mjhmc_numba.density import Target
from mjhmc_numba.results import Result

__all__ = ["flat_dimensions"]

# Of each chain, at which the gradient is looked at: a density that is flat at half of its draws is
# taken for flat everywhere once in 2^(8 chains), 4e9 for four.
FLATNESS_DRAWS = 8


def flat_dimensions(result: Result, target: Target) -> list[str]:
    """Names of the dimensions in which the gradient vanishes at each of several draws, and that no
    wall ends: a bounded uniform density is flat, but has an integral.
    """
    chains, n, d = result.draws.shape
    is_flat = np.ones(d, dtype=bool)
    for k in range(chains):
        for i in np.unique(np.linspace(0, n - 1, FLATNESS_DRAWS, dtype=int)):
            is_flat &= target.logp_and_grad(result.draws[k, i])[1] == 0
            if not is_flat.any():
                return []
    flat = np.flatnonzero(is_flat).tolist()
    return [result.names[j] for j in flat if not _is_walled(result.draws, target, j)]


def _is_walled(draws: np.ndarray, target: Target, j: int) -> bool:
    """Whether the density vanishes on both sides of the draws in dimension j, further out than
    they reach.
    """
    low, high = draws[..., j].min(), draws[..., j].max()
    x = draws[0, 0].copy()
    for x[j] in (low - (high - low) - 1.0, high + (high - low) + 1.0):
        if target.logp_and_grad(x)[0] > -np.inf:
            return False
    return True
