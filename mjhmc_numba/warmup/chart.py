r"""A chart from draws and gradients: which dimensions drive the scale of others, and how.

In coordinates that suit the sampler the target is nearly standard normal, z = -grad. So location l
and log scale s of each row are fitted such that the mean of

.. math:: (e^{-s} (x - l))^2 + (e^s \nabla_x\log\pi)^2

is smallest (the Fisher divergence from a standard normal, up to a constant). For given l this is
convex in the coefficients of s. For given s, :math:`x + e^{2 s} \nabla_x\log\pi` is where the row
would lie if its dimension were normal given the others, and l is fitted to that.

Whether a chart is worth it is told by draws that had no say in it: by the distance that remains
between z and -grad once the best metric has done what it can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mjhmc_numba.chart import Chart, features
from mjhmc_numba.metric import Metric
from mjhmc_numba.warmup.metric import centre, diagonal

__all__ = ["FEWEST_DRAWS", "MANY_DIMENSIONS", "Drivers", "choose", "fit", "in_chart"]

FEWEST_DRAWS = 32
MOST_DRIVERS = 6
# Features: constant from so many times the extent of the draws beyond them, with bends of so
# many standard deviations.
BEYOND, BEND = 4.0, 0.3
NEWTON_STEPS = 2  # of the fit of s, each time l and t have been fitted
ROUNDS, TRIAL_ROUNDS = 12, 5  # of fitting them in turn, and to see what they are worth
PULL = 1e-6  # of all coefficients towards 0, so that each is determined
# Blocks of draws, of which every fourth is held out.
BLOCK, HELD_OUT = 8, 4
# What is left of the distance by a chart that is worth it: less where few draws tell, or where
# there are few rows to learn from; and by one driver more.
WORTH, FEW_DRAWS, FEW_DIMENSIONS = 0.9, 0.5, 3.0
KEPT_WORTH = 0.1  # more may be left by one that was chosen before
MORE_WORTH = 0.8
LARGE = 0.1  # a squared distance a dimension
NOTHING = 0.01  # what is left where no chart is needed
CANDIDATES, FEW_CANDIDATES, MANY_DIMENSIONS = 3, 1, 200
SURE = 3.0  # variances of its noise that a score must exceed
ACTIVE = 0.2  # spread of s from which a row asks for a better location


class Drivers(NamedTuple):
    """Dimensions that the scales, and such that the locations of others depend on."""

    scalers: tuple[int, ...] = ()
    movers: tuple[int, ...] = ()

    @property
    def all(self) -> list[int]:
        return [*self.scalers, *self.movers]


def fit(x: np.ndarray, grad: np.ndarray, drivers: Drivers, rounds: int = ROUNDS) -> Chart:
    """The chart with these drivers.

    Parameters
    ----------
    x, grad : (n, d) draws and gradients of the log density there
    """
    rows = np.setdiff1d(np.arange(x.shape[1]), drivers.all)
    scalers, movers = (np.array(k, np.int64) for k in drivers)
    r, g = x[:, rows], grad[:, rows]
    knots = _knots(x[:, scalers])
    movers_, features_ = x[:, movers], features(x[:, scalers], knots)
    by_mover, by_feature = _Basis(movers_), _Basis(features_)
    by_both = _Basis(np.column_stack([movers_, features_]))
    log_scale = _first_log_scale(r, g, by_feature.F)
    place = _Place(by_mover.F, by_both.F, rows.size)
    for _ in range(rounds):
        where = place.fit(r, g, by_feature.F @ log_scale.T)
        scaled = _LogScale(r - where, g, by_feature.F, log_scale)
        log_scale = scaled.coefficients
    log_scale = _shrunk(log_scale, scaled.noise())
    return Chart(
        rows,
        movers,
        by_mover.raw(place.location),
        scalers,
        knots,
        by_feature.raw(log_scale),
        by_both.raw(place.shift),
    )


def _knots(u: np.ndarray) -> np.ndarray:
    """Of the features of drivers u (n, k)."""
    low, high = u.min(axis=0), u.max(axis=0)
    beyond = BEYOND * (high - low)
    width = np.maximum(BEND * u.std(axis=0), 1e-300)
    return np.column_stack([low - beyond, np.median(u, axis=0), high + beyond, width])


class _Basis:
    """The constant 1, and columns (n, p) with mean 0 and variance 1."""

    def __init__(self, columns: np.ndarray):
        self.mean, self.sd = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-300)
        self.F = np.column_stack([np.ones(len(columns)), (columns - self.mean) / self.sd])

    def raw(self, coefficients: np.ndarray) -> np.ndarray:
        """Those of the columns as they were."""
        raw = coefficients.copy()
        raw[:, 1:] /= self.sd
        raw[:, 0] -= raw[:, 1:] @ self.mean
        return raw


def _products(weights: np.ndarray, F: np.ndarray) -> np.ndarray:
    """(m, p, p): the mean of weight F F^T for each of the m columns of weights."""
    n, p = F.shape
    pairs = (F[:, :, None] * F[:, None, :]).reshape(n, p * p)
    return (weights.T @ pairs).reshape(-1, p, p) / n


def _first_log_scale(x, grad, F) -> np.ndarray:
    """Least squares of -log |grad|, which varies as s does wherever the location is."""
    products = F.T @ F / len(F) + PULL * _but_first(F.shape[1])
    log_scale = np.linalg.solve(products, F.T @ -_log_size(grad) / len(F)).T
    log_scale[:, 0] = np.log(diagonal(x, grad).scale)
    return log_scale


def _log_size(a: np.ndarray) -> np.ndarray:
    """The logarithm of |a|, the smallest taken as a hundredth of their median."""
    size = np.abs(a)
    return np.log(np.maximum(size, np.maximum(0.01 * np.median(size, axis=0), 1e-300)))


def _noise(errors: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """(m, p): the variances of coefficients that make the mean of errors (n, m, p) vanish.

    Draws are alike from one to the next, so that sums over blocks of them are what counts.

    Parameters
    ----------
    curvature : (m, p, p), the derivative of those means by the coefficients
    """
    n = len(errors)
    sums = np.add.reduceat(errors, np.arange(0, n, BLOCK), axis=0) / n
    moved = np.einsum("bmp,mpq->bmq", sums, np.linalg.inv(curvature))
    return np.sum(moved**2, axis=0)


class _Place:
    """Where the rows would lie, in units of their scales: e^{-s} l + t, by least squares of l and
    t in turn. Where s varies little both could do the same; then l does it.

    Parameters
    ----------
    M, B : (n, p) and (n, q), the bases of l and t
    m : number of rows
    """

    def __init__(self, M: np.ndarray, B: np.ndarray, m: int):
        self.M, self.B = M, B
        self.shift = np.zeros((m, B.shape[1]))

    def fit(self, x: np.ndarray, grad: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Fit both anew to rows and gradients (n, m) with log scales s; returns l + e^s t."""
        M, B, inverse = self.M, self.B, np.exp(-s)
        wanted = inverse * x + np.exp(s) * grad
        rest = inverse * (wanted - B @ self.shift.T)
        curvature = _products(inverse**2, M) * (1.0 + PULL * np.eye(M.shape[1]))
        self.location = np.linalg.solve(curvature, (rest.T @ M / len(x))[:, :, None])[:, :, 0]
        rest -= inverse**2 * (M @ self.location.T)
        unit = np.exp(s.mean(axis=0))[:, None]
        noise = _noise(rest[:, :, None] * M[:, None, :], curvature)
        self.location = unit * _shrunk(self.location / unit, noise / unit**2)
        rest = wanted - inverse * (M @ self.location.T)
        curvature = np.broadcast_to(B.T @ B / len(x), (x.shape[1], B.shape[1], B.shape[1]))
        self.shift = np.linalg.solve(curvature, (rest.T @ B / len(x))[:, :, None])[:, :, 0]
        noise = _noise((rest - B @ self.shift.T)[:, :, None] * B[:, None, :], curvature)
        self.shift = _shrunk(self.shift, noise)
        return M @ self.location.T + np.exp(s) * (B @ self.shift.T)


class _LogScale:
    """Newton's method on the mean of (e^{-s} r)^2 + (e^s grad)^2, from given coefficients."""

    def __init__(self, r, grad, F, coefficients):
        self.F = F
        pull = PULL * _but_first(F.shape[1])
        for _ in range(NEWTON_STEPS):
            s = F @ coefficients.T
            spread, steepness = (np.exp(-s) * r) ** 2, (np.exp(s) * grad) ** 2
            self.errors = 2.0 * (steepness - spread)
            self.curvature = 4.0 * _products(spread + steepness, F) + pull
            slope = self.errors.T @ F / len(F) + coefficients @ pull
            step = np.linalg.solve(self.curvature, slope[:, :, None])[:, :, 0]
            longest = np.abs(step).max(axis=1, keepdims=True)
            coefficients = coefficients - step / np.maximum(longest, 1.0)
        self.coefficients = coefficients

    def noise(self) -> np.ndarray:
        """(m, p): the variances of the coefficients' noise."""
        return _noise(self.errors[:, :, None] * self.F[:, None, :], self.curvature)


def _but_first(p: int) -> np.ndarray:
    return np.diag([0.0] + [1.0] * (p - 1))


def _shrunk(coefficients: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Coefficients pulled towards 0, feature by feature: by as much as their noise has of what
    they spread over the rows (James and Stein). The first is a constant and stays.
    """
    signal = np.maximum(np.mean(coefficients**2 - noise, axis=0), 0.0)
    share = signal / np.maximum(signal + noise, 1e-300)
    share[:, 0] = 1.0
    return share * coefficients


# ---------------------------------------------------------------------- the drivers


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
        few = FEW_DRAWS / math.sqrt(max((~self.told).sum(), 1))
        self.worth = WORTH - few - FEW_DIMENSIONS / x.shape[1]
        self.most = CANDIDATES if x.shape[1] <= MANY_DIMENSIONS else FEW_CANDIDATES

    def choose(self, known: Chart | None) -> Chart | None:
        now = _Tried(Drivers(), None, self.left(None))
        if known is not None:
            before = Drivers(tuple(known.scalers.tolist()), tuple(known.movers.tolist()))
            now = self._better(now, [before], self.worth + KEPT_WORTH)
        while len(now.drivers.all) < min(MOST_DRIVERS, self.x.shape[1] - 1) and now.left > NOTHING:
            worth = self.worth if now.chart is None else MORE_WORTH
            more = self._better(now, self._candidates(now), worth)
            if more is now:
                break
            now = more
        return None if now.chart is None else self._fitted(now.drivers, slice(None), ROUNDS)

    def _better(self, now: _Tried, candidates: list[Drivers], worth: float) -> _Tried:
        """The best of the candidates, if it leaves less than that share of the distance."""
        best = now._replace(left=worth * now.left)
        for drivers in candidates:
            chart = self._fitted(drivers, self.told)
            if chart is not None:
                left = self.left(chart)
                if left < best.left:
                    best = _Tried(drivers, chart, left)
        return now if best.chart is now.chart else best

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
        """One more dimension that may drive the scale of many others, or the location of those
        whose scale is driven.
        """
        x, grad = self.x[self.told], self.grad[self.told]
        z, g = in_chart(now.chart, x, grad)
        scalers, movers = now.drivers
        found = self._first(_scale_scores(z, g, now.drivers.all), now)
        candidates = [Drivers((*scalers, k), movers) for k in found]
        if now.chart is not None:
            found = self._first(_location_scores(x, z, g, now.chart), now)
            candidates += [Drivers(scalers, (*movers, k)) for k in found]
        return candidates

    def _first(self, scores: np.ndarray, now: _Tried) -> list[int]:
        scores[now.drivers.all] = 0.0
        return [int(k) for k in np.argsort(-scores)[: self.most] if scores[k] > 0]


def in_chart(chart: Chart | None, x: np.ndarray, grad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws and gradients in the coordinates of a chart."""
    return (x, grad) if chart is None else (chart.to_z(x), chart.gradient_to_z(x, grad))


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
