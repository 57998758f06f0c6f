"""Which features a regression gets: all of low degree where they are few, else those that pay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mjhmc_numba.estimates.features import monomials, stein_features
from mjhmc_numba.estimates.regression import Moments, solve

__all__ = ["Features", "all_features", "some_features"]

# Bounds that keep the time of estimates near a tenth of a run's. Measured when each fold had six
# regressions of its own: degree 3 in 10 dimensions would take 0.08 s in place of 0.025 after a run
# of 0.33 s (nes2000; gains of 3e4 are 5e7 then, those of eight schools 26 and 33); 128 products in
# 60 dimensions 0.45 s in place of 0.32 after 3.3 s (hier_logistic: 43 in place of 40).
ALL_PAIRS = 330  # features up to which all of degree 2 are used (24 dimensions)
ALL_TRIPLES = 84  # and all of degree 3 (6 dimensions)
SOME_PAIRS = 64  # products of two dimensions, where not all are used
# Geometric means of gains on hier_logistic, irt_2pl, radon_centered and rat_tumor. Of means: 50, 68
# and 72 with 250, 1000 and all draws scored; 46, 68 and 78 with 3, 12 and 48 combinations, the
# last in 1.3 times as long; 68 to 69 with a tenth of the ridge and ten times as much. Of standard
# deviations: 12.9 without squares along directions, 22.2 to 22.4 with those of functions that are
# linear to 0.05, 0.2 or 0.5, and 21.6 with all.
SCORED = 1000  # draws on which products are judged
SKETCH = 12  # combinations of what is left of all functions, by which products are sought
STEEP = 0.2  # share of a function's variance that is linear, for its own direction to count
SEARCH_RIDGE = 3e-3  # per draw, of the regressions that find what pays


class Features(NamedTuple):
    """Features (p, n), and how many of the first make each set that is tried."""

    values: np.ndarray
    sizes: list[int]

    @classmethod
    def of_degrees(cls, y: np.ndarray, u: np.ndarray, highest: int) -> Features:
        """All monomials of degree 1 to `highest`."""
        terms = [monomials(len(y), degree) for degree in range(1, highest + 1)]
        sizes = np.cumsum([len(part) for part in terms]).tolist()
        values, start = np.empty((sizes[-1], y.shape[1])), 0
        for part, end in zip(terms, sizes, strict=True):
            stein_features(y, u, part, out=values[start:end])
            start = end
        return cls(values, sizes)

    def moments(self, f: np.ndarray, folds: dict[int, slice]) -> dict[int, Moments]:
        """Of each of some folds."""
        return {k: Moments.of(self.values[:, part], f[:, part]) for k, part in folds.items()}


def all_features(y: np.ndarray, u: np.ndarray, most: int) -> Features | None:
    """All of degree 1 and 2, and 3 where they are few; None if there are too many."""
    d = len(y)
    pairs = d * (d + 1) // 2
    if d + pairs > min(ALL_PAIRS, most):
        return None
    triples = pairs * (d + 2) // 3
    has_triples = d + pairs + triples <= min(ALL_TRIPLES, most)
    return Features.of_degrees(y, u, 3 if has_triples else 2)


def some_features(y, u, f, seen: slice, most: int) -> Features:
    """Degree 1, and what of degree 2 pays on the draws that are seen: squares along the direction
    in which a function is steepest, squares of each dimension, and the products of two
    dimensions that go with what is left of the functions.
    """
    if len(y) > most:
        kept = _paying_dimensions(y, u, f, seen, most // 2)
        y, u = y[kept], u[kept]
    d = len(y)
    moments = Moments.of(u[:, seen], f[:, seen])
    beta = solve(moments, d, SEARCH_RIDGE)
    rest = f[:, seen] - beta.T @ u[:, seen]
    steep = moments.square_left(beta) < (1.0 - STEEP) * moments.square
    directions = _distinct(beta.T[steep])[: max(most - d, 0) // 2]
    parts = [u, stein_features(directions @ y, directions @ u, _diagonal(len(directions)))]
    if 2 * d + len(directions) <= most:
        parts.append(stein_features(y, u, _diagonal(d)))
    room = min(SOME_PAIRS, most - sum(map(len, parts)))
    if room > 0:
        step = max(rest.shape[1] // SCORED, 1)
        some = slice(seen.start, seen.stop, step)
        pairs = _paying_pairs(y[:, some], u[:, some], rest[:, ::step], room)
        parts.append(stein_features(y, u, pairs))
    values = np.concatenate(parts)
    return Features(values, sorted({d, len(values)}))


def _paying_dimensions(y, u, f, seen: slice, room: int) -> np.ndarray:
    """Those whose features of degree 1 or 2 correlate most with any of the functions."""
    y, u, f = y[:, seen], u[:, seen], f[:, seen]
    score = np.zeros(len(u))
    for features in (u, 1.0 + y * u):
        product = features @ f.T
        square = np.einsum("ij,ij->i", features, features)[:, None]
        score = np.maximum(score, (product**2 / np.where(square > 0, square, np.inf)).max(axis=1))
    return np.sort(np.argsort(-score)[: max(room, 1)])


def _diagonal(d: int) -> np.ndarray:
    return np.repeat(np.arange(d)[:, None], 2, axis=1)


def _distinct(directions: np.ndarray) -> np.ndarray:
    """Unit vectors along those that are no multiples of others and no axes, by 2.6 degrees."""
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
