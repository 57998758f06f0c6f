"""Which features a regression gets: all of low degree where they are few, else those that pay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mjhmc_numba.estimates.blocks import blocks
from mjhmc_numba.estimates.features import monomials, stein_features
from mjhmc_numba.estimates.regression import Moments, solve

__all__ = ["Basis", "all_features", "some_features"]

# Bounds that keep the time of estimates near a tenth of a run's. Measured when each fold had six
# regressions of its own: degree 3 in 10 dimensions would take 0.08 s in place of 0.025 after a run
# of 0.33 s (nes2000; gains of 3e4 are 5e7 then, those of eight schools 26 and 33); 128 products in
# 60 dimensions 0.45 s in place of 0.32 after 3.3 s (hier_logistic: 43 in place of 40). With 32 the
# gains of election88_like (d = 71) are 34 in place of 51.
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
STEEP = 0.4  # share of a function's variance that is linear, for its own direction to count
SEARCH_RIDGE = 3e-3  # per draw, of the regressions that find what pays


class Basis(NamedTuple):
    """Which features there are, without their values.

    Parameters
    ----------
    kept : (k,) array or slice
        Dimensions that are used.
    directions : (m, k) array
        Combinations of these that count as further dimensions.
    terms : list of (n, degree) array
        Monomials of the k + m.
    sizes : list of int
        How many of the first features make each set that is tried.
    """

    kept: np.ndarray | slice
    directions: np.ndarray
    terms: list[np.ndarray]
    sizes: list[int]

    @classmethod
    def of_degrees(cls, d: int, highest: int) -> Basis:
        """All monomials of degree 1 to `highest`."""
        terms = [monomials(d, degree) for degree in range(1, highest + 1)]
        sizes = np.cumsum([len(part) for part in terms]).tolist()
        return cls(slice(None), np.zeros((0, d)), terms, sizes)

    def features(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        """(p, n) from whitened draws and gradients (d, n)."""
        y, u = y[self.kept], u[self.kept]
        if len(self.directions):
            directions = self.directions.astype(y.dtype)
            y, u = (np.concatenate([a, directions @ a]) for a in (y, u))
        return np.concatenate([stein_features(y, u, part) for part in self.terms])

    def parts(self, y: np.ndarray, u: np.ndarray, of: slice) -> Iterator[tuple[slice, np.ndarray]]:
        """Some of these draws at a time: which, and their features."""
        for part in blocks(of.stop - of.start, self.sizes[-1], of.start):
            yield part, self.features(y[:, part], u[:, part])

    def moments(self, y: np.ndarray, u: np.ndarray, f: np.ndarray, of: slice) -> Moments:
        """Of features and functions (q, n) on these draws."""
        parts = self.parts(y, u, of)
        return Moments.of_parts((phi, f[:, part].astype(phi.dtype)) for part, phi in parts)


def all_features(d: int, most: int) -> Basis | None:
    """All of degree 1 and 2, and 3 where they are few; None if there are too many."""
    pairs = d * (d + 1) // 2
    if d + pairs > min(ALL_PAIRS, most):
        return None
    triples = pairs * (d + 2) // 3
    has_triples = d + pairs + triples <= min(ALL_TRIPLES, most)
    return Basis.of_degrees(d, 3 if has_triples else 2)


def some_features(y, u, f, seen: slice, most: int) -> Basis:
    """Degree 1, and what of degree 2 pays on the draws that are seen: squares along the direction
    in which a function is steepest, squares of each dimension, and the products of two
    dimensions that go with what is left of the functions.
    """
    y, u, f = y[:, seen], u[:, seen], f[:, seen].astype(u.dtype)
    kept: np.ndarray | slice = slice(None)
    if len(y) > most:
        kept = _paying_dimensions(y, u, f, most // 2)
        y, u = y[kept], u[kept]
    d = len(y)
    moments = Moments.of(u, f)
    beta = solve(moments, d, SEARCH_RIDGE)
    steep = moments.square_left(beta) < (1.0 - STEEP) * moments.square
    directions = _distinct(beta.T[steep])[: max(most - d, 0) // 2]
    terms = [_diagonal(d, d + len(directions))]
    if 2 * d + len(directions) <= most:
        terms.append(_diagonal(0, d))
    room = min(SOME_PAIRS, most - d - sum(map(len, terms)))
    if room > 0:
        some = slice(None, None, max(f.shape[1] // SCORED, 1))
        y, u, f = (np.ascontiguousarray(a[:, some]) for a in (y, u, f))
        terms.append(_paying_pairs(y, u, f - beta.T.astype(u.dtype) @ u, room))
    products = np.concatenate(terms)
    sizes = sorted({d, d + len(products)})
    return Basis(kept, directions, [np.arange(d)[:, None], products], sizes)


def _paying_dimensions(y, u, f, room: int) -> np.ndarray:
    """Those whose features of degree 1 or 2 correlate most with any of the functions."""
    score = np.zeros(len(u))
    for features in (u, 1.0 + y * u):
        product = features @ f.T
        square = np.einsum("ij,ij->i", features, features)[:, None]
        score = np.maximum(score, (product**2 / np.where(square > 0, square, np.inf)).max(axis=1))
    return np.sort(np.argsort(-score)[: max(room, 1)])


def _diagonal(start: int, stop: int) -> np.ndarray:
    return np.repeat(np.arange(start, stop)[:, None], 2, axis=1)


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
