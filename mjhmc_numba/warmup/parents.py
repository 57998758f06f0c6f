"""The parents: dimensions that scales and locations depend on, so that a reparametrisation pays.

That is told by draws that had no say in it: by the distance that remains between z and -grad, which
are the same on a standard normal, once the best metric has done what it can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mjhmc_numba.coordinates import Metric, Reparametrisation
from mjhmc_numba.warmup.metric import centre, diagonal
from mjhmc_numba.warmup.reparametrisation import (
    BLOCK,
    ROUNDS,
    TRIAL_ROUNDS,
    Parents,
    fit,
    in_coordinates,
)

__all__ = ["FEWEST_DRAWS_OF_CHOICE", "MANY_DIMENSIONS", "MOST_DIMENSIONS", "choose"]

# All constants here were chosen by trial on the models of the benchmark.
FEWEST_DRAWS_OF_CHOICE = 32
MOST_PARENTS = 6
HELD_OUT = 4  # every fourth block of draws
# The share of the distance that a reparametrisation may leave to be worth it. It is less where
# there are few draws for so many children, as the noise of each adds to the gradient of its
# parents; and less where there are few children to learn from.
WORTH, FEW_DRAWS, FEW_DIMENSIONS = 0.94, 0.065, 3.0
KEPT_WORTH = 0.1  # so much more may be left by one that was chosen before
MORE_WORTH = 0.8  # the share that one more parent may leave
LARGE = 0.1  # squared distance per dimension from which its logarithm counts
NOTHING = 0.01  # what is left where no reparametrisation is needed
# Parents tried at a time, and in many dimensions; in more than the last none is sought, as all
# pairs of dimensions are looked at.
CANDIDATES, FEW_CANDIDATES, MANY_DIMENSIONS, MOST_DIMENSIONS = 3, 1, 200, 1500
SURE = 3.0  # variances of its noise that a score must exceed
ACTIVE = 0.2  # spread of s from which a child asks for a better location
# Spread of s from which there is a funnel, and how many times as much may be left there by fixed
# locations.
FUNNEL, FIXED = 0.4, 1.5


def choose(
    x: np.ndarray,
    grad: np.ndarray,
    known: Reparametrisation | None,
    metric_of: Callable[[np.ndarray, np.ndarray], Metric],
) -> Reparametrisation | None:
    """The reparametrisation that pays, or None: parent after parent, as long as one more helps.

    Parameters
    ----------
    x, grad : (n, d) arrays
        Draws and gradients of the log density there, in the coordinates of the density.
    known : Reparametrisation or None
        The one so far.
    metric_of : callable
        The metric for draws and gradients.
    """
    with np.errstate(all="ignore"):  # what is not finite is not chosen
        return _Choice(x, grad, metric_of).choose(known)


class _Tried(NamedTuple):
    parents: Parents
    reparametrisation: Reparametrisation | None
    left: float  # what `_Choice.left` says


class _Choice:
    def __init__(self, x, grad, metric_of):
        self.x, self.grad, self.metric_of = x, grad, metric_of
        self.told = (np.arange(len(x)) // BLOCK) % HELD_OUT != HELD_OUT - 1
        d = x.shape[1]
        few = FEW_DRAWS * math.sqrt(d / max((~self.told).sum(), 1))
        self.worth = WORTH - few - FEW_DIMENSIONS / d
        self.most = CANDIDATES if d <= MANY_DIMENSIONS else FEW_CANDIDATES

    def choose(self, known: Reparametrisation | None) -> Reparametrisation | None:
        now = _Tried(Parents(), None, self.left(None))
        if known is not None:
            before = Parents(
                tuple(known.scale_parents.tolist()), tuple(known.location_parents.tolist())
            )
            kept = self._best([before])
            now = kept if kept.left < (self.worth + KEPT_WORTH) * now.left else now
        while len(now.parents.all) < min(MOST_PARENTS, self.x.shape[1] - 1) and now.left > NOTHING:
            worth = self.worth if now.reparametrisation is None else MORE_WORTH
            best = self._best(self._candidates(now))
            if now.reparametrisation is None and best.left >= worth * now.left:
                best = self._best(self._with_location_parent(best))
            if not best.left < worth * now.left:
                break
            now = best
        if now.reparametrisation is None:
            return None
        return self._fitted(self._fixed(now, now.reparametrisation), slice(None), ROUNDS)

    def _fixed(self, now: _Tried, reparametrisation: Reparametrisation) -> Parents:
        """The parents, with a fixed location where there is a funnel. Deeper than any draw has been
        only the exact location will do, and in a hierarchy that is the mean of groups, or 0.
        """
        _, s, _ = reparametrisation.shape(self.x)
        if len(now.parents.location) > 1 or np.median(s.std(axis=0)) < FUNNEL:
            return now.parents
        fixed = self._best([now.parents._replace(fixed_location=True)])
        return fixed.parents if fixed.left < FIXED * now.left else now.parents

    def _best(self, candidates: list[Parents]) -> _Tried:
        """The one of the candidates that leaves least; an infinite distance where none does."""
        best = _Tried(Parents(), None, math.inf)
        for parents in candidates:
            reparametrisation = self._fitted(parents, self.told)
            left = math.inf if reparametrisation is None else self.left(reparametrisation)
            if left < best.left:
                best = _Tried(parents, reparametrisation, left)
        return best

    def _fitted(
        self, parents: Parents, some, rounds: int = TRIAL_ROUNDS
    ) -> Reparametrisation | None:
        """The reparametrisation of some of the draws; None where they do not tell it."""
        try:
            reparametrisation = fit(self.x[some], self.grad[some], parents, rounds)
        except np.linalg.LinAlgError:
            return None
        z, g = in_coordinates(reparametrisation, self.x, self.grad)
        return reparametrisation if np.isfinite(z).all() and np.isfinite(g).all() else None

    def left(self, reparametrisation: Reparametrisation | None) -> float:
        """How far z is from -grad at the draws held out, with the metric of the other draws.

        Squared distances per dimension count up to their size where they are small, and by their
        logarithm where no step size does any more.
        """
        z, g = in_coordinates(reparametrisation, self.x, self.grad)
        told = self.told
        metric = self.metric_of(z[told], g[told])
        away = z[~told] - centre(metric, z[told], g[told])
        apart = metric.whiten(away) + metric.whiten_gradient(g[~told])
        return float(np.mean(np.log1p(np.mean(apart**2, axis=1) / LARGE)))

    def _candidates(self, now: _Tried) -> list[Parents]:
        """One more dimension that the scale of many children, or a location, may depend on."""
        z, g = in_coordinates(now.reparametrisation, self.x[self.told], self.grad[self.told])
        scale, location = now.parents.scale, now.parents.location
        found = self._first(_scale_scores(z, g, now.parents.all), now.parents)
        candidates = [Parents((*scale, k), location) for k in found]
        if now.reparametrisation is not None:
            candidates += self._location_candidates(now.parents, now.reparametrisation)
        return candidates

    def _location_candidates(
        self, parents: Parents, reparametrisation: Reparametrisation
    ) -> list[Parents]:
        """One more dimension that the location of those with a scale parent may depend on."""
        x, grad = self.x[self.told], self.grad[self.told]
        found = self._first(
            _location_scores(x, *in_coordinates(reparametrisation, x, grad), reparametrisation),
            parents,
        )
        return [Parents(parents.scale, (*parents.location, k)) for k in found]

    def _with_location_parent(self, tried: _Tried) -> list[Parents]:
        """The same with a location parent: in a deep funnel neither helps without the other."""
        if tried.reparametrisation is None or self.x.shape[1] < 3:  # no child would be left
            return []
        return self._location_candidates(tried.parents, tried.reparametrisation)

    def _first(self, scores: np.ndarray, parents: Parents) -> list[int]:
        scores[parents.all] = 0.0
        return [int(k) for k in np.argsort(-scores)[: self.most] if scores[k] > 0]


def _scale_scores(z, grad, parents) -> np.ndarray:
    """(d,): what a dependence of the log scales on each dimension gains, to second order."""
    scale = diagonal(z, grad).scale
    spread = ((z - (z + scale**2 * grad).mean(axis=0)) / scale) ** 2
    steepness = (scale * grad) ** 2
    u = (z - z.mean(axis=0)) / np.maximum(z.std(axis=0), 1e-300)
    gained = _sure_squares(u, (steepness - spread) - (steepness - spread).mean(axis=0))
    gained /= np.maximum(2.0 * (u * u).T @ (steepness + spread) / len(z), 1e-300)
    np.fill_diagonal(gained, 0.0)
    gained[:, parents] = 0.0
    return np.nan_to_num(gained.sum(axis=1))


def _location_scores(x, z, grad, reparametrisation: Reparametrisation) -> np.ndarray:
    """(d,): what a dependence of the locations on each dimension gains, in children whose scale
    varies; and what a child has that would no longer be one.
    """
    _, s, _ = reparametrisation.shape(x)
    active = s.std(axis=0) > ACTIVE
    children, weights = reparametrisation.children[active], np.exp(-s[:, active])
    error = z[:, children] + grad[:, children]
    away = x - x.mean(axis=0)
    gained = _sure_squares(away, weights * error)
    gained /= np.maximum((away * away).T @ weights**2 / len(x), 1e-300)
    gained[children, np.arange(children.size)] = 0.0
    scores = gained.sum(axis=1)
    scores[children] += np.mean(error**2, axis=0)
    return np.nan_to_num(scores)


def _sure_squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(d, m): squared means of products of columns, less what noise may make of them."""
    n = len(a)
    mean = a.T @ b / n
    variance = (a * a).T @ (b * b) / n - mean**2
    return np.maximum(mean**2 - SURE * variance / n, 0.0)
