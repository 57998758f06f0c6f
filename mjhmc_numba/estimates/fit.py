r"""Regression of functions on features with mean zero, never on the draws it is applied to.

Draws are dealt into folds: whole chains where there are enough, blocks of chains otherwise. The
coefficients of a fold come from others, which choose for each function the size of the set of
features and the ridge as well. Where there are few features, those are all other folds. Where there
are many, folds lie on two sides, and all that is taken off on one side, the features too, comes
from the other: a regression for each side. What is left of a function,
:math:`r = f - \beta \cdot \phi`, has the same mean: that of a fold is unbiased, as nothing that is
taken off knows it, and its spread includes what the fitting costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mjhmc_numba.estimates.basis import Features, all_features, some_features
from mjhmc_numba.estimates.regression import Moments, solve

__all__ = ["better_system", "deal_folds", "residuals"]

FOLDS = 4  # the usual number of chains
# As shares of the mean square of a feature; fewer where there are many features (rat_tumor, d = 73:
# gains of 83 with two and 84 with three). None is one for rounding alone: 1e-12 to 1e-6 bring the
# same.
NO_RIDGE, RIDGES, FEW_RIDGES = 1e-10, (1e-10, 3e-3, 0.1), (1e-10, 3e-2)
# Of all, and of those that pay: a fit to noise takes 1/8 of the variance away, and puts it on
# other draws.
DRAWS_PER_FEATURE, FEWEST_DRAWS_PER_FEATURE = 8, 5
# 250 to 4000 draws, and a tenth to ten times the ridge, choose the same on irt_2pl and rat_tumor
# (gains of 10.7 in place of 3.9, and 21 in place of 17, by the other system).
LOOK = 1000  # draws on which systems of coordinates are compared
LOOK_RIDGE = 0.03  # of these regressions, with as many features as a quarter of the draws or less
# Functions that share a regression where there are too many dimensions for one. On stoch_vol, d =
# 503, gains are 93, 120 and 20 with 16, 64 and 256 of them, in 6.0, 2.3 and 1.5 s.
FUNCTIONS_AT_ONCE = 64


class _Fit(NamedTuple):
    """The place of a fold, its features (p, n) and coefficients (p, q) from other folds."""

    part: slice
    phi: np.ndarray
    beta: np.ndarray


System = tuple[np.ndarray, np.ndarray]


def deal_folds(chains: int, draws: int) -> np.ndarray:
    """(chain, draw) number of the fold of each draw."""
    if chains >= FOLDS:
        return np.repeat((np.arange(chains) % FOLDS)[:, None], draws, axis=1)
    blocks = -(-FOLDS // chains)
    return np.arange(draws) * blocks // draws + blocks * np.arange(chains)[:, None]


def _candidates(sizes: list[int], ridges: Sequence[float]) -> list[tuple[int, float]]:
    return [(size, NO_RIDGE) for size in sizes[:-1]] + [(sizes[-1], ridge) for ridge in ridges]


def _squares_left(judge: Moments, tried: list[np.ndarray]) -> np.ndarray:
    """(candidate, q): what is left of the functions, without any feature first."""
    return np.stack([judge.square, *(judge.square_left(beta) for beta in tried)])


def _solve_best(moments: Moments, left: np.ndarray, candidates) -> np.ndarray:
    """Coefficients (p, q), those of the candidate that leaves least of each function."""
    best = left.argmin(axis=0)
    beta = np.zeros((len(moments.gram), best.size))
    for c in np.unique(best[best > 0]).tolist():
        size, ridge = candidates[c - 1]
        beta[:size, best == c] = solve(moments, size, ridge, best == c)
    return beta


def _fits_of_folds(features: Features, f, folds: dict[int, slice], sides) -> Iterator[_Fit]:
    """Coefficients of each fold from all others: a side tries, and the others on the same side as
    the fold are judges.
    """
    candidates = _candidates(features.sizes, RIDGES)
    moments = features.moments(f, folds)
    everything = Moments.sum(list(moments.values()))
    for side, other in (sides, sides[::-1]):
        train = Moments.sum([moments[k] for k in other])
        tried = [solve(train, *candidate) for candidate in candidates]
        left = {k: _squares_left(moments[k], tried) for k in side}
        for k in side:
            judged = np.sum([left[j] for j in side if j != k], axis=0)
            beta = _solve_best(everything.without(moments[k]), judged, candidates)
            yield _Fit(folds[k], features.values[:, folds[k]], beta)


def _fits_of_sides(y, u, f, folds: dict[int, slice], sides, most: int) -> Iterator[_Fit]:
    """Coefficients of each side from the other, where one half tries and the other is the judge."""
    for side, other in (sides, sides[::-1]):
        seen = slice(folds[other[0]].start, folds[other[-1]].stop)  # a side is in one piece
        features = some_features(y, u, f, seen, most)
        candidates = _candidates(features.sizes, FEW_RIDGES)
        moments = [*features.moments(f, {k: folds[k] for k in other}).values()]
        half = len(other) // 2
        train, judge = Moments.sum(moments[:half]), Moments.sum(moments[half:])
        tried = [solve(train, *candidate) for candidate in candidates]
        beta = _solve_best(Moments.sum([train, judge]), _squares_left(judge, tried), candidates)
        for k in side:
            yield _Fit(folds[k], features.values[:, folds[k]], beta)


def _fits(y, u, f, folds: dict[int, slice]) -> Iterator[_Fit]:
    """Regressions for all folds."""
    total = f.shape[1]
    longest = max(part.stop - part.start for part in folds.values())
    numbers = list(folds)
    sides = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    shared = all_features(y, u, (total - longest) // DRAWS_PER_FEATURE)
    if shared is not None:
        return _fits_of_folds(shared, f, folds, sides)
    return _fits_of_sides(y, u, f, folds, sides, total // 2 // FEWEST_DRAWS_PER_FEATURE)


def better_system(systems: Sequence[System], f: np.ndarray, fold: np.ndarray) -> System:
    """The coordinates in which features leave least of the functions.

    Some of the draws are enough to tell, and where there are many dimensions features of a single
    one each.

    Parameters
    ----------
    systems : sequence of (y, u)
        Whitened draws and gradients (n, d) in each.
    f, fold
        See `residuals`.
    """
    if len(systems) == 1:
        return systems[0]
    seen = slice(None, None, max(len(f) // LOOK, 1))
    d, most = min(systems[0][0].shape[1], LOOK // 8), LOOK // 8
    sides = [np.flatnonzero(fold[seen] % 2 == parity) for parity in (0, 1)]
    f = np.ascontiguousarray(f[seen].T)
    sizes = []
    for system in systems:
        y, u = (np.ascontiguousarray(a[seen, :d].T) for a in system)
        shared = all_features(y, u, most)
        phi = np.concatenate([u, 1.0 + y * u]) if shared is None else shared.values
        moments = [Moments.of(phi[:, side], f[:, side]) for side in sides]
        left = [
            judge.square_left(solve(train, len(phi), LOOK_RIDGE))
            for train, judge in (moments, moments[::-1])
        ]
        sizes.append(float(np.mean(np.log(np.sum(left, axis=0) / f.shape[1] + 1e-30))))
    return systems[int(np.argmin(sizes))]


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
    width = FUNCTIONS_AT_ONCE if many else len(f)
    for at in range(0, len(f), width):
        block = slice(at, at + width)
        for part, phi, beta in _fits(y, u, f[block], folds):
            left[block, part] = f[block, part] - beta.T @ phi
    if is_sorted:
        return left.T
    out = np.empty_like(left)
    out[:, order] = left
    return out.T
