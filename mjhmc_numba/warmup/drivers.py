"""Which dimensions drive the scales and locations of others, so that a chart is worth it.

That is told by draws that had no say in it: by the distance that remains between z and -grad, which
are the same on a standard normal, once the best metric has done what it can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mjhmc_numba.chart import Chart
from mjhmc_numba.metric import Metric
from mjhmc_numba.warmup.chart import BLOCK, ROUNDS, TRIAL_ROUNDS, Drivers, fit, in_chart
from mjhmc_numba.warmup.metric import centre, diagonal

__all__ = ["FEWEST_DRAWS", "MANY_DIMENSIONS", "MOST_DIMENSIONS", "choose"]

FEWEST_DRAWS = 32
MOST_DRIVERS = 6
HELD_OUT = 4  # of the blocks of draws every fourth
# What is left of the distance by a chart that is worth it: less where few draws tell, for so many
# rows, as the noise of each adds to the gradient of its drivers; less where there are few rows to
# learn from; and by one driver more.
WORTH, FEW_DRAWS, FEW_DIMENSIONS = 0.94, 0.065, 3.0
KEPT_WORTH = 0.1  # more may be left by one that was chosen before
MORE_WORTH = 0.8
LARGE = 0.1  # a squared distance a dimension
NOTHING = 0.01  # what is left where no chart is needed
# Drivers tried at a time, and in many dimensions; in more than the last none is sought, as all
# pairs of dimensions are looked at.
CANDIDATES, FEW_CANDIDATES, MANY_DIMENSIONS, MOST_DIMENSIONS = 3, 1, 200, 1500
SURE = 3.0  # variances of its noise that a score must exceed
ACTIVE = 0.2  # spread of s from which a row asks for a better location
# Spread of s from which there is a neck, and how many times as much may be left there by locations
# that are tied.
NECK, TIED = 0.4, 1.5


def choose(
    x: np.ndarray,
    grad: np.ndarray,
    known: Chart | None,
    metric_of: Callable[[np.ndarray, np.ndarray], Metric],
) -> Chart | None:
    """The chart that is worth it, or None: driver after driver, as long as one more helps.

    Parameters
    ----------
    x, grad : (n, d) draws and gradients of the log density there
    known : the chart so far
    metric_of : the metric for draws and gradients
    """
    with np.errstate(all="ignore"):  # what is not finite is not chosen
        return _Choice(x, grad, metric_of).choose(known)


class _Tried(NamedTuple):
    drivers: Drivers
    chart: Chart | None
    left: float  # what `_Choice.left` says


class _Choice:
    def __init__(self, x, grad, metric_of):
        self.x, self.grad, self.metric_of = x, grad, metric_of
        self.told = (np.arange(len(x)) // BLOCK) % HELD_OUT != HELD_OUT - 1
        d = x.shape[1]
        few = FEW_DRAWS * math.sqrt(d / max((~self.told).sum(), 1))
        self.worth = WORTH - few - FEW_DIMENSIONS / d
        self.most = CANDIDATES if d <= MANY_DIMENSIONS else FEW_CANDIDATES

    def choose(self, known: Chart | None) -> Chart | None:
        now = _Tried(Drivers(), None, self.left(None))
        if known is not None:
            before = Drivers(tuple(known.scalers.tolist()), tuple(known.movers.tolist()))
            kept = self._best([before])
            now = kept if kept.left < (self.worth + KEPT_WORTH) * now.left else now
        while len(now.drivers.all) < min(MOST_DRIVERS, self.x.shape[1] - 1) and now.left > NOTHING:
            worth = self.worth if now.chart is None else MORE_WORTH
            best = self._best(self._candidates(now))
            if now.chart is None and best.left >= worth * now.left:
                best = self._best(self._with_mover(best))
            if not best.left < worth * now.left:
                break
            now = best
        if now.chart is None:
            return None
        return self._fitted(self._tied(now, now.chart), slice(None), ROUNDS)

    def _tied(self, now: _Tried, chart: Chart) -> Drivers:
        """The drivers, with a tied location where there is a neck. Deeper than any draw has been
        only the exact location will do, and in a hierarchy that is the mean of groups, or 0.
        """
        _, s, _ = chart.shape(self.x)
        if len(now.drivers.movers) > 1 or np.median(s.std(axis=0)) < NECK:
            return now.drivers
        tied = self._best([now.drivers._replace(tied=True)])
        return tied.drivers if tied.left < TIED * now.left else now.drivers

    def _best(self, candidates: list[Drivers]) -> _Tried:
        """The one of the candidates that leaves least; an infinite distance where none does."""
        best = _Tried(Drivers(), None, math.inf)
        for drivers in candidates:
            chart = self._fitted(drivers, self.told)
            left = math.inf if chart is None else self.left(chart)
            if left < best.left:
                best = _Tried(drivers, chart, left)
        return best

    def _fitted(self, drivers: Drivers, some, rounds: int = TRIAL_ROUNDS) -> Chart | None:
        """The chart of some of the draws; None where they do not tell it."""
        try:
            chart = fit(self.x[some], self.grad[some], drivers, rounds)
        except np.linalg.LinAlgError:
            return None
        z, g = in_chart(chart, self.x, self.grad)
        return chart if np.isfinite(z).all() and np.isfinite(g).all() else None

    def left(self, chart: Chart | None) -> float:
        """How far z is from -grad at the draws held out, with the metric of the others.

        Squared distances a dimension count up to their size where they are small, and by their
        logarithm where no step size does any more.
        """
        z, g = in_chart(chart, self.x, self.grad)
        told = self.told
        metric = self.metric_of(z[told], g[told])
        away = z[~told] - centre(metric, z[told], g[told])
        apart = metric.whiten(away) + metric.whiten_gradient(g[~told])
        return float(np.mean(np.log1p(np.mean(apart**2, axis=1) / LARGE)))

    def _candidates(self, now: _Tried) -> list[Drivers]:
        """One more dimension that may drive the scale of many others, or a location."""
        z, g = in_chart(now.chart, self.x[self.told], self.grad[self.told])
        scalers, movers = now.drivers.scalers, now.drivers.movers
        found = self._first(_scale_scores(z, g, now.drivers.all), now.drivers)
        candidates = [Drivers((*scalers, k), movers) for k in found]
        if now.chart is not None:
            candidates += self._movers(now.drivers, now.chart)
        return candidates

    def _movers(self, drivers: Drivers, chart: Chart) -> list[Drivers]:
        """One more dimension that may drive the location of those whose scale is driven."""
        x, grad = self.x[self.told], self.grad[self.told]
        found = self._first(_location_scores(x, *in_chart(chart, x, grad), chart), drivers)
        return [Drivers(drivers.scalers, (*drivers.movers, k)) for k in found]

    def _with_mover(self, tried: _Tried) -> list[Drivers]:
        """The same scaler with a mover: in a deep neck neither helps without the other."""
        if tried.chart is None or self.x.shape[1] < 3:  # no row would be left
            return []
        return self._movers(tried.drivers, tried.chart)

    def _first(self, scores: np.ndarray, drivers: Drivers) -> list[int]:
        scores[drivers.all] = 0.0
        return [int(k) for k in np.argsort(-scores)[: self.most] if scores[k] > 0]


def _scale_scores(z, grad, drivers) -> np.ndarray:
    """(d,): what a dependence of the log scales on each dimension gains, to second order."""
    scale = diagonal(z, grad).scale
    spread = ((z - (z + scale**2 * grad).mean(axis=0)) / scale) ** 2
    steepness = (scale * grad) ** 2
    u = (z - z.mean(axis=0)) / np.maximum(z.std(axis=0), 1e-300)
    gained = _sure_squares(u, (steepness - spread) - (steepness - spread).mean(axis=0))
    gained /= np.maximum(2.0 * (u * u).T @ (steepness + spread) / len(z), 1e-300)
    np.fill_diagonal(gained, 0.0)
    gained[:, drivers] = 0.0
    return np.nan_to_num(gained.sum(axis=1))


def _location_scores(x, z, grad, chart: Chart) -> np.ndarray:
    """(d,): what a dependence of the locations on each dimension gains, in rows whose scale
    varies; and what a row has that would no longer be one.
    """
    _, s, _ = chart.shape(x)
    active = s.std(axis=0) > ACTIVE
    rows, weights = chart.rows[active], np.exp(-s[:, active])
    error = z[:, rows] + grad[:, rows]
    away = x - x.mean(axis=0)
    gained = _sure_squares(away, weights * error)
    gained /= np.maximum((away * away).T @ weights**2 / len(x), 1e-300)
    gained[rows, np.arange(rows.size)] = 0.0
    scores = gained.sum(axis=1)
    scores[rows] += np.mean(error**2, axis=0)
    return np.nan_to_num(scores)


def _sure_squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(d, m): squared means of products of columns, less what noise may make of them."""
    n = len(a)
    mean = a.T @ b / n
    variance = (a * a).T @ (b * b) / n - mean**2
    return np.maximum(mean**2 - SURE * variance / n, 0.0)
