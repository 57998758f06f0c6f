r"""The parents: dimensions that scales and locations depend on, so that a reparametrisation pays.

That is told by draws that had no say in it. In each held-out draw the loss is

.. math:: \log\Bigl(1 + \frac{1}{a d} |z + \nabla\log\pi(z)|^2\Bigr),

the distance between z and -grad, which are the same on a standard normal, once the metric of the
other draws has done what it can. A parent is taken if the mean gain exceeds its standard error,
over blocks of held-out draws, by a factor. So chains that see the same posterior choose alike.

The cost of one search is bounded: at most `MOST_PARENTS` rounds of 2 `CANDIDATES` + 1 fits, each of
n d p^2 operations for n <= `MOST_DRAWS` draws and p coefficients per child, and `CANDIDATES` + 1
metrics of the strongest directions, n d each for a fixed number of them. Locations are compared
with a diagonal metric first. Parents are those that complete metrics of all that is tried lead to,
but in three of 16 searches on rat_tumor, where another one of two with about the same score lost
less (ten hierarchies, 8 to 24 searches each). To look at 64 of the dimensions only, those with the
best scores and what is near them, took an eighth of the time, and chains chose differently: it was
left (radon_slopes_centred, 3 seeds). So were fits compiled by Numba child by child: in 175
dimensions they took a third longer than those with BLAS, and in 21 a sixth less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mjhmc_numba.coordinates import Metric, Reparametrisation
from mjhmc_numba.warmup.metric import centre, diagonal, gradients
from mjhmc_numba.warmup.reparametrisation import (
    BLOCK,
    ROUNDS,
    TRIAL_ROUNDS,
    Parents,
    fit,
    in_coordinates,
)

__all__ = ["FEWEST_DRAWS_OF_CHOICE", "ONE_SEARCH_FROM", "MOST_DIMENSIONS", "choose"]

# Four blocks are held out of 96 draws, the fewest that have a standard error worth the name; of
# fewer draws four shorter ones. More than 256 draws did not change a choice on the hierarchies of
# the benchmark; all draws are used for the last fit, which has 20 % more effective draws for it
# (rat_tumor).
FEWEST_DRAWS_OF_CHOICE, MOST_DRAWS = 96, 256
EACH_HELD_OUT = 3  # every third block of draws: a fit and its test have about the same errors
MOST_PARENTS = 6  # a bound on the cost: no model of the benchmark took more than 4
# A gain counts if it is so many standard errors, and such a share of the loss. Parents that the
# model has gained 20 to 60 %; children that were taken for parents gained 4 % (radon_slopes).
SURE_GAIN, LEAST_GAIN = 3.0, 0.1
LARGE = 0.1  # squared distance per dimension from which its logarithm counts: the `a` above
# A loss that is left as it is. Where the scale of a child varies by a share v, z + grad is about
# 2 v z: the loss of 8 % is this, and such a child shortens the steps of the others by less than a
# sixth. Without any parent four models with less did as well per gradient and took 0.6 to 0.75 of
# the CPU seconds of a whole run (moderation, arK, kidscore, cherry_spline); hierarchies have 0.8.
SMALL = 0.25
# Scale and location parents tried at a time, those with the best scores. With one location parent
# eight schools took a school for the mean of all in 2 of 4 chains, with two in none.
CANDIDATES = 2
# Share of the best score that another candidate must have: no parent was taken whose score was less
# than 0.7 of the best (eleven hierarchies).
RIVAL = 0.5
# Share of the children that lie at a location parent which is taken because it is simple: groups
# have some children each, and no child lies at another by chance (rat_tumor).
MANY_FIXED = 1 / 8
# In more than the first number a search is made once, at the end; in more than the second none, as
# all pairs of dimensions are looked at. Both bound the time.
ONE_SEARCH_FROM, MOST_DIMENSIONS = 200, 1500
# A score per dimension below which a scale parent is not tried: those that were taken had 0.005 and
# more on twelve hierarchies and regressions, what is left when all are taken has 0.003 at most.
LEAST_SCORE = 0.004
# The same of a location parent: the 28 of 441 tried that surely gained had 0.002 and more (232
# searches on fourteen posteriors).
LEAST_LOCATION_SCORE = 0.0015
SURE_SCORE = 3.0  # variances of its noise that a score must exceed: most pairs are noise
ACTIVE = 0.2  # spread of s from which a child asks for a better location: 20 % of its scale


def choose(
    x: np.ndarray,
    grad: np.ndarray,
    known: Reparametrisation | None,
    metric_of: Callable[[np.ndarray, np.ndarray], Metric],
    best_metric_of: Callable[[np.ndarray, np.ndarray], Metric] | None = None,
) -> Reparametrisation | None:
    """The reparametrisation that pays, or None: parent after parent, as long as one more helps.

    Parameters
    ----------
    x, grad : (n, d) arrays
        Draws and gradients of the log density there, in the coordinates of the density.
    known : Reparametrisation or None
        The one so far. Its parents are tried among others: in a deep funnel, which is seen once
        they are known, no single parent may be found again.
    metric_of : callable
        The metric for draws and gradients, to compare parents by.
    best_metric_of : callable, optional
        All that a metric can do, which what is found must surely do better than: a metric with few
        directions leaves over what parents of locations take away.
    """
    if np.any(gradients(x, grad) != grad):  # there is a wall, of which gradients say nothing
        return None
    rows = np.linspace(0, len(x) - 1, min(len(x), MOST_DRAWS)).astype(int)
    before = None if known is None else _parents_of(known)
    with np.errstate(all="ignore"):  # what is not finite is not chosen
        parents = _Choice(x[rows], grad[rows], metric_of).choose(
            before, best_metric_of or metric_of
        )
        found = None if parents is None else _fitted(x, grad, parents, slice(None), ROUNDS)
        return None if found is None else found[0]


def _parents_of(known: Reparametrisation) -> Parents:
    return Parents(tuple(known.scale_parents.tolist()), tuple(known.location_parents.tolist()))


@dataclass
class _Tried:
    """Parents, and the draws and gradients in coordinates with them; None where there are none."""

    parents: Parents
    reparametrisation: Reparametrisation | None
    inner: tuple[np.ndarray, np.ndarray] | None
    held_out: _HeldOut

    @cached_property
    def loss(self) -> np.ndarray:
        """Of each held-out block, with the metric of the other draws."""
        return self.held_out.loss(self.inner, self.held_out.metric_of)

    @cached_property
    def mean_loss(self) -> float:
        return _mean(self.loss)

    @cached_property
    def rough_loss(self) -> float:
        """With a diagonal metric, which takes no time beside the other: for a first look."""
        return _mean(self.held_out.loss(self.inner, diagonal))

    @property
    def told(self) -> tuple[np.ndarray, np.ndarray]:
        """The draws and gradients that are not held out."""
        assert self.inner is not None
        z, g = self.inner
        return z[self.held_out.told], g[self.held_out.told]

    def gain(self, other: _Tried) -> tuple[float, float]:
        """What `other` gains over this, and its standard error."""
        return _mean_and_error(self.loss - other.loss)

    @property
    def is_fixed(self) -> bool:
        """Whether many children lie exactly at a location parent."""
        parents = self.parents
        if self.reparametrisation is None or not (parents.fixed_location and parents.location):
            return False
        location = self.reparametrisation.location[:, 1:]
        is_whole = np.isclose(location, np.round(location), rtol=0, atol=1e-9).all(axis=1)
        return bool(np.mean(is_whole & (location.max(axis=1) > 0.5)) > MANY_FIXED)


class _HeldOut:
    """Every so many blocks of draws are held out, for the loss."""

    def __init__(self, n: int, metric_of: Callable[[np.ndarray, np.ndarray], Metric]):
        self.metric_of = metric_of
        block = np.arange(n) // max(min(BLOCK, n // (4 * EACH_HELD_OUT)), 1)
        self.told = block % EACH_HELD_OUT != EACH_HELD_OUT - 1
        self._starts = np.flatnonzero(np.diff(block[~self.told], prepend=-1))
        self.is_enough = bool(block[-1] >= 2 * EACH_HELD_OUT)  # for a standard error

    def loss(self, inner: tuple[np.ndarray, np.ndarray] | None, metric_of: Any) -> np.ndarray:
        """The loss of each held-out block of draws and gradients, infinite without any."""
        nothing, told = np.full(self._starts.size, np.inf), self.told
        if inner is None:
            return nothing
        z, g = inner
        try:
            metric = metric_of(z[told], g[told])
        except np.linalg.LinAlgError:  # draws that are not finite, or do not move
            return nothing
        away = z[~told] - centre(metric, z[told], g[told])
        apart = metric.whiten(away) + metric.whiten_gradient(g[~told])
        loss = np.log1p(np.mean(apart**2, axis=1) / LARGE)
        return np.add.reduceat(loss, self._starts) / np.diff([*self._starts, loss.size])


class _Choice:
    def __init__(self, x, grad, metric_of):
        self.x, self.grad = x, grad
        self.held_out = _HeldOut(len(x), metric_of)

    def choose(self, known: Parents | None, best_metric_of: Any) -> Parents | None:
        if not self.held_out.is_enough:
            return None
        now = without = _Tried(Parents(), None, (self.x, self.grad), self.held_out)
        if now.mean_loss < SMALL:
            return None
        if known is not None:
            found = [
                self._tried(known._replace(fixed_location=is_fixed)) for is_fixed in (False, True)
            ]
            now = self._surest(now, _roughly_best(found)) or now
        most = min(MOST_PARENTS, self.x.shape[1] - 1)
        while len(now.parents.all) < most and now.mean_loss > SMALL:
            better = self._next(now)
            if better is None:
                break
            now = better
        if now.reparametrisation is None:
            return None
        least = self.held_out.loss(without.inner, best_metric_of)
        gained = least - self.held_out.loss(now.inner, best_metric_of)
        if _mean(least) < SMALL or not _is_sure(
            *_mean_and_error(gained), LEAST_GAIN * _mean(least)
        ):
            return None
        return self._simplest(now).parents

    def _next(self, now: _Tried) -> _Tried | None:
        """With one more parent, or two that help only together; None where nothing surely helps."""
        z, g = now.told
        scores = _scale_gains(z, g, now.parents.all).sum(axis=1) / z.shape[1]
        best = [k for k in _best(scores, now.parents, CANDIDATES) if scores[k] > LEAST_SCORE]
        found = [self._with_scale(now, k) for k in best if scores[k] > RIVAL * scores[best[0]]]
        sure = self._surest(now, found + _roughly_best(self._with_location(now)))
        if sure is None and now.reparametrisation is None:
            sure = self._next_two(now, found, best)
        return sure

    def _next_two(self, now: _Tried, found: list[_Tried], best: list[int]) -> _Tried | None:
        """With two parents that surely help only together: in a deep funnel a scale parent gains
        little without a location parent, or without a second one. One that loses is none.
        """
        first = min(found, key=lambda one: one.mean_loss, default=None)
        if first is None or now.gain(first)[0] < 0.0:
            return None
        pairs = _roughly_best(self._with_location(first))
        return self._surest(now, [*pairs, self._with_scale(now, *best)])

    def _with_scale(self, now: _Tried, *more: int) -> _Tried:
        return self._tried(now.parents._replace(scale=(*now.parents.scale, *more)))

    def _with_location(self, now: _Tried) -> list[_Tried]:
        """With one more location parent, and fixed locations; the best also with fitted ones."""
        if now.reparametrisation is None:
            return []
        x = self.x[self.held_out.told]
        scores = _location_scores(x, *now.told, now.reparametrisation)
        least = max(RIVAL * scores.max(), LEAST_LOCATION_SCORE * scores.size)
        found = [
            self._tried(Parents(now.parents.scale, (*now.parents.location, k), fixed_location=True))
            for k in _best(scores, now.parents, CANDIDATES)
            if scores[k] > least
        ]
        if found:
            best = _roughly_best(found)[0].parents
            found.append(self._tried(best._replace(fixed_location=False)))
        return found

    def _surest(self, now: _Tried, found: list[_Tried]) -> _Tried | None:
        """The one that gains most, of those that surely do; none of these lost with a diagonal
        metric, so that the others are not looked at twice.
        """
        least = LEAST_GAIN * now.mean_loss
        likely = [one for one in found if one.rough_loss < now.rough_loss]
        sure = [one for one in likely if _is_sure(*now.gain(one), least)]
        return min(sure, key=lambda one: one.mean_loss, default=None)

    def _simplest(self, now: _Tried) -> _Tried:
        """With fixed locations, unless that is worse by more than a standard error; where many
        children lie exactly at a parent, unless that is surely worse.

        They have fewer coefficients to fit, and hold deeper than any draw has been: a fitted
        location that is off by little left one chain of 40 in a narrow end (radon_slopes_centred).
        """
        if now.parents.fixed_location:
            return now
        fixed = [self._tried(now.parents._replace(fixed_location=True))]
        if not now.parents.location:
            fixed += [one for one in self._with_location(now) if one.is_fixed]
        best = _roughly_best(fixed)[0]
        gain, error = now.gain(best)
        if best.is_fixed:
            return now if _is_sure(-gain, error, LEAST_GAIN * now.mean_loss) else best
        return best if gain > -error else now

    def _tried(self, parents: Parents) -> _Tried:
        found = None
        if len(parents.all) < self.x.shape[1]:  # some dimension is a child
            found = _fitted(self.x, self.grad, parents, self.held_out.told, TRIAL_ROUNDS)
        reparametrisation, inner = (None, None) if found is None else found
        return _Tried(parents, reparametrisation, inner, self.held_out)


def _fitted(x, grad, parents: Parents, some, rounds: int):
    """The reparametrisation of some of the draws, and all in its coordinates; None where they do
    not tell it.
    """
    try:
        reparametrisation = fit(x[some], grad[some], parents, rounds)
    except np.linalg.LinAlgError:
        return None
    z, g = in_coordinates(reparametrisation, x, grad)
    is_finite = np.isfinite(z).all() and np.isfinite(g).all()
    return (reparametrisation, (z, g)) if is_finite else None


def _mean_and_error(gained: np.ndarray) -> tuple[float, float]:
    return float(gained.mean()), float(gained.std(ddof=1) / math.sqrt(gained.size))


def _is_sure(gain: float, error: float, least: float) -> bool:
    return gain > max(SURE_GAIN * error, least)


def _mean(loss: np.ndarray) -> float:
    return float(np.nan_to_num(loss.mean(), nan=math.inf))


def _roughly_best(found: list[_Tried]) -> list[_Tried]:
    """The best by the rough loss alone; none of none."""
    return sorted(found, key=lambda one: one.rough_loss)[:1]


def _best(scores: np.ndarray, parents: Parents, most: int) -> list[int]:
    scores[parents.all] = 0.0
    return [int(k) for k in np.argsort(-scores)[:most] if scores[k] > 0]


def _scale_gains(z, grad, parents) -> np.ndarray:
    """(d, d): what a dependence of the log scales (columns) on each dimension (rows) gains, to
    second order.
    """
    scale = diagonal(z, grad).scale
    spread = ((z - (z + scale**2 * grad).mean(axis=0)) / scale) ** 2
    steepness = (scale * grad) ** 2
    u = (z - z.mean(axis=0)) / np.maximum(z.std(axis=0), 1e-300)
    gained = _sure_squares(u, (steepness - spread) - (steepness - spread).mean(axis=0))
    gained /= np.maximum(2.0 * (u * u).T @ (steepness + spread) / len(z), 1e-300)
    np.fill_diagonal(gained, 0.0)
    gained[:, parents] = 0.0
    return np.nan_to_num(gained)


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
    return np.maximum(mean**2 - SURE_SCORE * variance / n, 0.0)
