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
from typing import NamedTuple

import numpy as np

from mjhmc_numba.estimates.features import monomials, stein_features

__all__ = ["deal_folds", "residuals"]

FOLDS = 4
NO_RIDGE, RIDGES = 1e-10, (1e-10, 3e-3, 0.1)  # per draw, for features of unit mean square
ALL_PAIRS = 330  # features up to which all of degree 2 are used (24 dimensions)
ALL_TRIPLES = 300  # and all of degree 3 (10 dimensions)
DRAWS_PER_FEATURE = 8
SOME_PAIRS = 128  # products of two dimensions, where not all are used
SKETCH = 12  # combinations of what is left of all functions, by which products are sought
STEEP = 0.2  # share of a function's variance that is linear, for its own direction to count


def deal_folds(chains: int, draws: int) -> np.ndarray:
    """(chain, draw) number of the fold of each draw."""
    if chains >= FOLDS:
        return np.repeat((np.arange(chains) % FOLDS)[:, None], draws, axis=1)
    blocks = -(-FOLDS // chains)
    return np.arange(draws) * blocks // draws + blocks * np.arange(chains)[:, None]


class _Moments(NamedTuple):
    """Of one fold, about its own means: features, features x functions, functions."""

    gram: np.ndarray
    cross: np.ndarray
    square: np.ndarray
    draws: int

    @classmethod
    def of(cls, phi: np.ndarray, f: np.ndarray) -> _Moments:
        """From features (p, n) and functions (q, n)."""
        n = f.shape[1]
        mean, f_mean = phi.mean(axis=1), f.mean(axis=1)
        gram = phi @ phi.T - n * np.outer(mean, mean)
        cross = phi @ f.T - n * np.outer(mean, f_mean)
        return cls(gram, cross, np.einsum("ij,ij->i", f, f) - n * f_mean**2, n)

    def square_left(self, beta: np.ndarray) -> np.ndarray:
        """(q,): squares that are left of the functions with coefficients (p, q)."""
        p = len(beta)
        left = self.gram[:p, :p] @ beta - 2.0 * self.cross[:p]
        return np.maximum(self.square + np.einsum("ij,ij->j", beta, left), 0.0)


def _solve(folds: Sequence[_Moments], size: int, ridge: float) -> np.ndarray:
    """Coefficients (size, q) of the first features, from some folds."""
    gram, cross = folds[0].gram[:size, :size].copy(), folds[0].cross[:size].copy()
    for m in folds[1:]:
        gram += m.gram[:size, :size]
        cross += m.cross[:size]
    gram[np.diag_indices(size)] += ridge * sum(m.draws for m in folds)
    return np.linalg.solve(gram, cross)


class _Fit:
    """Regressions on any of some folds.

    Parameters
    ----------
    folds : dict of _Moments
        By the number of the fold.
    sizes : list of int
        How many of the first features to try.
    """

    def __init__(self, folds: dict[int, _Moments], sizes: Sequence[int]):
        self.folds = folds
        self.functions = next(iter(folds.values())).square.size
        self.candidates = [(size, NO_RIDGE) for size in sizes[:-1]]
        self.candidates += [(sizes[-1], ridge) for ridge in RIDGES]
        self._solved = cache(self._solve)

    def _solve(self, numbers: frozenset[int], candidate: int) -> np.ndarray:
        return _solve([self.folds[k] for k in sorted(numbers)], *self.candidates[candidate])

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


class _Features(NamedTuple):
    """Features (p, n) of unit mean square, and how many of the first make a smaller set each."""

    values: np.ndarray
    sizes: list[int]

    @classmethod
    def of(cls, parts: Sequence[np.ndarray]) -> _Features:
        values = np.concatenate(parts)
        rms = np.sqrt(np.einsum("ij,ij->i", values, values) / values.shape[1])
        values /= np.where(rms > 0, rms, 1.0)[:, None]
        return cls(values, sorted({*np.cumsum([len(part) for part in parts]).tolist()}))

    def moments(self, f: np.ndarray, folds: dict[int, slice]) -> dict[int, _Moments]:
        """Of each of some folds."""
        return {k: _Moments.of(self.values[:, part], f[:, part]) for k, part in folds.items()}


def _all_features(y: np.ndarray, u: np.ndarray, most: int) -> _Features | None:
    """All of degree 1 and 2, and 3 where they are few; None if there are too many."""
    d = len(y)
    if d + d * (d + 1) // 2 > min(ALL_PAIRS, most):
        return None
    parts = [u, stein_features(y, u, monomials(d, 2))]
    triples = d * (d + 1) * (d + 2) // 6
    if sum(map(len, parts)) + triples <= min(ALL_TRIPLES, most):
        parts.append(stein_features(y, u, monomials(d, 3)))
    return _Features.of(parts)


def _some_features(y, u, f, folds: dict[int, slice], most: int) -> _Features:
    """Degree 1, and what of degree 2 pays on the draws of some folds: squares along the direction
    in which a function is steepest, squares of each dimension, and the products of two
    dimensions that go with what is left of the functions.
    """
    d = len(y)
    linear = _Features.of([u])
    if d > most:
        return linear
    beta = _solve([*linear.moments(f, folds).values()], d, RIDGES[1])
    train = np.concatenate([np.arange(part.start, part.stop) for part in folds.values()])
    rest = f[:, train] - beta.T @ linear.values[:, train]
    steep = rest.var(axis=1) < (1.0 - STEEP) * f[:, train].var(axis=1)
    directions = _distinct(beta.T[steep])[: max(most - d, 0) // 2]
    parts = [u, stein_features(directions @ y, directions @ u, _diagonal(len(directions)))]
    if 2 * d + len(directions) <= most:
        parts.append(stein_features(y, u, _diagonal(d)))
    room = min(SOME_PAIRS, most - sum(map(len, parts)))
    if room > 0:
        pairs = _paying_pairs(y[:, train], u[:, train], rest, room)
        parts.append(stein_features(y, u, pairs))
    both = np.concatenate(parts[1:])
    return _Features.of([u, both]) if len(both) else linear


def _diagonal(d: int) -> np.ndarray:
    return np.repeat(np.arange(d)[:, None], 2, axis=1)


def _distinct(directions: np.ndarray) -> np.ndarray:
    """Unit vectors along those that are no multiples of others and no axes."""
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    unit = unit[np.abs(unit).max(axis=1, initial=0.0) < 0.999]
    likeness = np.triu(np.abs(unit @ unit.T), 1)
    return unit[likeness.max(axis=0, initial=0.0) < 0.999]


def _paying_pairs(y: np.ndarray, u: np.ndarray, rest: np.ndarray, room: int) -> np.ndarray:
    """(m, 2): pairs of dimensions whose features correlate most with what is left."""
    rest = rest - rest.mean(axis=1, keepdims=True)
    spread = rest.std(axis=1, keepdims=True)
    rest /= np.where(spread > 0, spread, np.inf)
    if len(rest) > SKETCH:
        rest = np.linalg.eigh(rest @ rest.T)[1][:, -SKETCH:].T @ rest
    score = np.zeros((len(y), len(y)))
    for row in rest:
        product = (y * row) @ u.T
        score += (product + product.T) ** 2
    i, j = np.triu_indices(len(score), 1)
    best = np.argsort(-score[i, j])[:room]
    return np.stack([i[best], j[best]], axis=1)


def _fits(y, u, f, folds: dict[int, slice]) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """For each fold its place, features (p, n) and coefficients (p, q) from the other folds."""
    total = f.shape[1]
    longest = max(part.stop - part.start for part in folds.values())
    most = (total - longest) // DRAWS_PER_FEATURE
    features = _all_features(y, u, most)
    if features is not None:
        fit = _Fit(features.moments(f, folds), features.sizes)
        for k, part in folds.items():
            yield part, features.values[:, part], fit.without(k)
        return
    for k, part in folds.items():
        others = {j: other for j, other in folds.items() if j != k}
        features = _some_features(y, u, f, others, most)
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
    for part, phi, beta in _fits(y, u, f, folds):
        left[:, part] = f[:, part] - beta.T @ phi
    out = np.empty((len(fold), len(f)))
    out[order] = left.T
    return out
