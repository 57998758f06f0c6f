r"""Regression of functions on features with mean zero, never on the draws it is applied to.

Draws are dealt into folds: whole chains where there are enough, blocks of chains otherwise. For
each fold the coefficients come from the others, and there the size of the feature set and the ridge
are chosen for each function by leaving out one fold after the other. What is left of a function,
:math:`r = f - \beta \cdot \phi`, has the same mean: that of a fold is unbiased, as its coefficients
do not know it, and its spread includes what the fitting costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from mjhmc_numba.estimates.basis import all_features, some_features
from mjhmc_numba.estimates.regression import Moments, solve

__all__ = ["deal_folds", "residuals"]

FOLDS = 4  # the usual number of chains
NO_RIDGE, RIDGES = 1e-10, (1e-10, 3e-3, 0.1)  # per draw, for features of unit mean square
DRAWS_PER_FEATURE = 8  # a fit to noise takes 1/8 of the variance away, and puts it on other draws
BLOCK = 64  # functions that share a regression where there are too many dimensions for one


def deal_folds(chains: int, draws: int) -> np.ndarray:
    """(chain, draw) number of the fold of each draw."""
    if chains >= FOLDS:
        return np.repeat((np.arange(chains) % FOLDS)[:, None], draws, axis=1)
    blocks = -(-FOLDS // chains)
    return np.arange(draws) * blocks // draws + blocks * np.arange(chains)[:, None]


class _Fit:
    """Regressions on any of some folds.

    Parameters
    ----------
    folds : dict of Moments
        By the number of the fold.
    sizes : list of int
        How many of the first features to try.
    """

    def __init__(self, folds: dict[int, Moments], sizes: Sequence[int]):
        self.folds = folds
        self.functions = next(iter(folds.values())).square.size
        self.candidates = [(size, NO_RIDGE) for size in sizes[:-1]]
        self.candidates += [(sizes[-1], ridge) for ridge in RIDGES]
        self._solved = cache(self._solve)

    def _solve(self, numbers: frozenset[int], candidate: int) -> np.ndarray:
        return solve([self.folds[k] for k in sorted(numbers)], *self.candidates[candidate])

    def without(self, fold: int) -> np.ndarray:
        """Coefficients (p, q) from all folds but one, with size and ridge chosen for each
        function by leaving out one more fold after the other.
        """
        train = frozenset(self.folds) - {fold}
        left = np.zeros((1 + len(self.candidates), self.functions))
        for k in train:
            left[0] += self.folds[k].square  # without any feature
            for c in range(len(self.candidates)):
                left[1 + c] += self.folds[k].square_left(self._solved(train - {k}, c))
        best = left.argmin(axis=0)
        beta = np.zeros((self.candidates[-1][0], best.size))
        for c in np.unique(best[best > 0]) - 1:
            chosen = best == c + 1
            solved = self._solved(train, int(c))
            beta[: len(solved), chosen] = solved[:, chosen]
        return beta


def _fits(y, u, f, folds: dict[int, slice]) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """For each fold its place, features (p, n) and coefficients (p, q) from the other folds."""
    total = f.shape[1]
    longest = max(part.stop - part.start for part in folds.values())
    most = (total - longest) // DRAWS_PER_FEATURE
    features = all_features(y, u, most)
    if features is not None:
        fit = _Fit(features.moments(f, folds), features.sizes)
        for k, part in folds.items():
            yield part, features.values[:, part], fit.without(k)
        return
    for k, part in folds.items():
        others = {j: other for j, other in folds.items() if j != k}
        features = some_features(y, u, f, others, most)
        fit = _Fit(features.moments(f, others), features.sizes)
        yield part, features.values[:, part], fit.without(k)


def residuals(y: np.ndarray, u: np.ndarray, f: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """What is left of functions, with the same means.

    Parameters
    ----------
    y, u : (n, d) array
        Whitened draws and gradients.
    f : (n, q) array
        Of mean about 0 and variance about 1.
    fold : (n,) array of int
        Numbers of at least 3 folds.
    """
    order = np.argsort(fold, kind="stable")
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
    out = np.empty((len(fold), len(f)))
    out[order] = left.T
    return out
