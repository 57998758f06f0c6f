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

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mjhmc_numba.estimates.basis import Basis, all_features, some_features
from mjhmc_numba.estimates.regression import Moments, solve

__all__ = ["better_system", "deal_folds", "residuals"]

FOLDS = 4  # the usual number of chains
# As shares of the mean square of a feature. A third, 3e-3, would take a tenth of the time and bring
# nothing: on rugby (d = 16) gains of means and of squares, geometric means, are 17.6 and 2.8 with
# two, 17.3 and 2.8 with three. Nor would 1e-10 and 3e-2 in place of one ridge where there are many
# features: 50.3 and 9.4 on rat_tumor (d = 73) with one, 49.8 and 9.4 with two; 46.7 and 17.1 on
# hier_logistic (d = 60) with one, 46.8 and 17.0 with two. None is one for rounding alone: 1e-12 to
# 1e-6 bring the same.
NO_RIDGE, RIDGES, FEW_RIDGES = 1e-10, (1e-10, 0.1), (1e-3,)
# Of all, and of those that pay: a fit to noise takes 1/8 of the variance away, and puts it on
# other draws.
DRAWS_PER_FEATURE, FEWEST_DRAWS_PER_FEATURE = 8, 5
DOUBLE = 100  # features up to which double precision costs little
# 250 to 4000 draws, and a tenth to ten times the ridge, choose the same on irt_2pl and rat_tumor
# (gains of 10.7 in place of 3.9, and 21 in place of 17, by the other system); with 500 the worst of
# eight schools has 2.7 in place of 5.1.
LOOK = 1000  # draws on which systems of coordinates are compared
LOOK_RIDGE = 0.03  # of these regressions, with as many features as a quarter of the draws or less
# Functions that share a regression where there are too many dimensions for one. On stoch_vol, d =
# 503, gains are 93, 120 and 20 with 16, 64 and 256 of them, in 6.0, 2.3 and 1.5 s.
FUNCTIONS_AT_ONCE = 64


class _Fit(NamedTuple):
    """Some draws, the features that are taken off and their coefficients (p, q) from others."""

    part: slice
    basis: Basis
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


def _fits_of_folds(basis: Basis, y, u, f, folds: dict[int, slice], sides) -> list[_Fit]:
    """Coefficients of each fold from all others: a side tries, and the others on the same side as
    the fold are judges.
    """
    candidates = _candidates(basis.sizes, RIDGES)
    moments = {k: basis.moments(y, u, f, part) for k, part in folds.items()}
    everything = Moments.sum(list(moments.values()))
    fits = []
    for side, other in (sides, sides[::-1]):
        train = Moments.sum([moments[k] for k in other])
        tried = [solve(train, *candidate) for candidate in candidates]
        left = {k: _squares_left(moments[k], tried) for k in side}
        for k in side:
            judged = np.sum([left[j] for j in side if j != k], axis=0)
            beta = _solve_best(everything.without(moments[k]), judged, candidates)
            fits.append(_Fit(folds[k], basis, beta))
    return fits


def _fits_of_sides(y, u, f, folds: dict[int, slice], sides, most: int) -> list[_Fit]:
    """Coefficients of each side from the other, where one half tries and the other is the judge."""
    fits = []
    for side, other in (sides, sides[::-1]):
        here, there = (slice(folds[s[0]].start, folds[s[-1]].stop) for s in (side, other))
        basis = some_features(y, u, f, there, most)
        candidates = _candidates(basis.sizes, FEW_RIDGES)
        moments = [basis.moments(y, u, f, folds[k]) for k in other]
        half = len(other) // 2
        train, judge = Moments.sum(moments[:half]), Moments.sum(moments[half:])
        tried = [solve(train, *candidate) for candidate in candidates]
        beta = _solve_best(Moments.sum([train, judge]), _squares_left(judge, tried), candidates)
        fits.append(_Fit(here, basis, beta))
    return fits


def _fits(basis: Basis | None, y, u, f, folds: dict[int, slice]) -> list[_Fit]:
    """Regressions for all draws; without a basis features are chosen."""
    numbers = list(folds)
    sides = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    if basis is not None:
        return _fits_of_folds(basis, y, u, f, folds, sides)
    return _fits_of_sides(y, u, f, folds, sides, f.shape[1] // 2 // FEWEST_DRAWS_PER_FEATURE)


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
        basis = all_features(d, most)
        phi = np.concatenate([u, 1.0 + y * u]) if basis is None else basis.features(y, u)
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
        Of mean about 0 and variance about 1; its memory is used for the result if it can be.
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
    longest = max(part.stop - part.start for part in folds.values())
    basis = all_features(len(y), (len(fold) - longest) // DRAWS_PER_FEATURE)
    if basis is None or basis.sizes[-1] > DOUBLE:
        # Half the time; what rounding leaves is far below the noise of so many coefficients.
        y, u = y.astype(np.float32), u.astype(np.float32)
    # With more dimensions than one regression takes, each block of functions has its own.
    many = len(y) * DRAWS_PER_FEATURE > len(fold) * (FOLDS - 1) / FOLDS
    width = FUNCTIONS_AT_ONCE if many else len(f)
    for at in range(0, len(f), width):
        some = f[at : at + width]
        for fit in _fits(basis, y, u, some, folds):
            beta = fit.beta.T.astype(y.dtype)
            for part, phi in fit.basis.parts(y, u, fit.part):
                some[:, part] -= beta @ phi
    if is_sorted:
        return f.T
    out = np.empty_like(f)
    out[:, order] = f
    return out.T
