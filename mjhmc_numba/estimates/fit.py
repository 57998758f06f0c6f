r"""Regression of functions on features with mean zero, never on the draws it is applied to.

Draws are dealt into folds: whole chains where there are enough, blocks of chains otherwise. The
coefficients of a fold come from all others. Folds lie on two sides: those of the other side choose
what is tried on a fold, which are features (where there are too many), the size of the set and the
ridge for each function, with the rest of its own side as judge. What is left of a function,
:math:`r = f - \beta \cdot \phi`, has the same mean: that of a fold is unbiased, as nothing that is
taken off knows it, and its spread includes what the fitting costs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mjhmc_numba.estimates.basis import Features, all_features, some_features
from mjhmc_numba.estimates.regression import Moments, solve

__all__ = ["deal_folds", "residuals"]

FOLDS = 4
NO_RIDGE, RIDGES = 1e-10, (1e-10, 3e-3, 0.1)  # as shares of the mean square of a feature
DRAWS_PER_FEATURE = 8
BLOCK = 64  # functions that share a regression where there are too many dimensions for one


def deal_folds(chains: int, draws: int) -> np.ndarray:
    """(chain, draw) number of the fold of each draw."""
    if chains >= FOLDS:
        return np.repeat((np.arange(chains) % FOLDS)[:, None], draws, axis=1)
    blocks = -(-FOLDS // chains)
    return np.arange(draws) * blocks // draws + blocks * np.arange(chains)[:, None]


def _coefficients(
    moments: dict[int, Moments], side: list[int], sizes: list[int]
) -> Iterator[tuple[int, np.ndarray]]:
    """For each fold of a side its number and coefficients (p, q) from all other folds."""
    candidates = [(size, NO_RIDGE) for size in sizes[:-1]]
    candidates += [(sizes[-1], ridge) for ridge in RIDGES]
    other_side = Moments.sum([m for k, m in moments.items() if k not in side])
    tried = [solve(other_side, *candidate) for candidate in candidates]
    # What is left of the functions: without any feature, then with each candidate.
    left = {
        k: np.stack([moments[k].square, *(moments[k].square_left(beta) for beta in tried)])
        for k in side
    }
    everything = Moments.sum(list(moments.values()))
    for k in side:
        best = np.sum([left[j] for j in side if j != k], axis=0).argmin(axis=0)
        others = everything.without(moments[k])
        beta = np.zeros((sizes[-1], best.size))
        for c in np.unique(best[best > 0]).tolist():
            chosen = best == c
            size, ridge = candidates[c - 1]
            beta[:size, chosen] = solve(others, size, ridge, chosen)
        yield k, beta


def _fits(y, u, f, folds: dict[int, slice]) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """For each fold its place, features (p, n) and coefficients (p, q) from the other folds."""
    total = f.shape[1]
    longest = max(part.stop - part.start for part in folds.values())
    most = (total - longest) // DRAWS_PER_FEATURE
    numbers = list(folds)
    sides = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    shared = all_features(y, u, most)
    moments = None if shared is None else shared.moments(f, folds)
    for side in sides:
        features: Features | None = shared
        if features is None:
            chosen_on = [part for k, part in folds.items() if k not in side]
            features = some_features(y, u, f, chosen_on, most)
            moments = features.moments(f, folds)
        assert moments is not None
        for k, beta in _coefficients(moments, side, features.sizes):
            yield folds[k], features.values[:, folds[k]], beta


def residuals(y: np.ndarray, u: np.ndarray, f: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """What is left of functions, with the same means.

    Parameters
    ----------
    y, u : (n, d) array
        Whitened draws and gradients.
    f : (n, q) array
        Of mean about 0 and variance about 1.
    fold : (n,) array of int
        Numbers of at least 4 folds.

    Returns
    -------
    (n, q) array
        Each function in one piece of memory.
    """
    is_sorted = bool((np.diff(fold) >= 0).all())
    order = slice(None) if is_sorted else np.argsort(fold, kind="stable")
    numbers, starts = np.unique(fold[order], return_index=True)
    ends = [*starts[1:].tolist(), len(fold)]
    folds = {int(k): slice(a, b) for k, a, b in zip(numbers, starts.tolist(), ends, strict=True)}
    y, u, f = (np.ascontiguousarray(a[order].T) for a in (y, u, f))
    left = np.empty_like(f)
    # With more dimensions than one regression takes, each block of functions has its own.
    many = len(y) * DRAWS_PER_FEATURE > len(fold) * (FOLDS - 1) / FOLDS
    width = BLOCK if many else len(f)
    for at in range(0, len(f), width):
        block = slice(at, at + width)
        for part, phi, beta in _fits(y, u, f[block], folds):
            left[block, part] = f[block, part] - beta.T @ phi
    if is_sorted:
        return left.T
    out = np.empty_like(left)
    out[:, order] = left
    return out.T
