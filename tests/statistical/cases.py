"""Targets with known moments and tails, each with step sizes chosen by hand."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import integrate, special, stats

from mjhmc_numba import targets
from mjhmc_numba.coordinates import Metric
from mjhmc_numba.targets import Distribution
from mjhmc_numba.tuned import Tuned


class Case(NamedTuple):
    """A distribution, a survival function P(x_j > t) for each coordinate, and where to ask it."""

    distribution: Distribution
    survival: Callable[[int, float], float]
    thresholds: np.ndarray
    step_size: float
    metric: Metric

    def tuned(self, integrator="leapfrog", **changes):
        # Many short steps between refreshes, few enough that a draw costs about six gradients.
        values = {
            "step_size": self.step_size,
            "num_steps": 1,
            "refresh_rate": 0.25,
            "draw_interval": 4.0,
            "integrator": integrator,
            "metric": self.metric,
        }
        return Tuned(**(values | changes))

    def statistics(self, draws):
        """(name, values, exact) for mean, variance and tail of every coordinate of (c, n, d)."""
        target = self.distribution
        for j in range(target.ndim):
            x = draws[:, :, j]
            yield f"mean[{j}]", x, target.mean[j]
            yield f"variance[{j}]", (x - target.mean[j]) ** 2, target.variance[j]
            t = self.thresholds[j]
            yield f"P(x[{j}] > {t:g})", x > t, self.survival(j, t)


def _gaussian_case(distribution, step_size, metric):
    sd = np.sqrt(distribution.variance)
    return Case(
        distribution,
        lambda j, t: stats.norm.sf(t, distribution.mean[j], sd[j]),
        distribution.mean + 1.8 * sd,
        step_size,
        metric,
    )


def log_gamma():
    """Asymmetric: a long tail to the left."""
    shape = np.array([1.0, 2.0, 5.0])
    return Case(
        targets.log_gamma(shape, 3),
        lambda j, t: special.gammaincc(shape[j], math.exp(t)),
        np.log(special.gammaincinv(shape, 0.05)),
        0.9,
        Metric.diagonal([1.2, 0.6, 0.25]),
    )


def student_t():
    """Heavy-tailed."""
    return Case(
        targets.student_t(df=6.0, ndim=2),
        lambda j, t: stats.t.sf(t, 6),
        np.array([2.0, -3.0]),
        1.1,
        Metric.diagonal(np.ones(2)),
    )


def banana():
    """Curved, and asymmetric along the curve."""
    s, b = 1.5, 0.25

    def survival(j, t):
        if j == 0:
            return stats.norm.sf(t, 0, s)
        value, _ = integrate.quad(
            lambda x: stats.norm.pdf(x, 0, s) * stats.norm.sf(t - b * (x**2 - s**2)),
            -10 * s,
            10 * s,
            points=(-2 * s, 0, 2 * s),
        )
        return value

    return Case(
        targets.banana(2, scale=s, curvature=b),
        survival,
        np.array([2.5, 2.2]),
        0.7,
        Metric.diagonal([1.0, 1.0]),
    )


def correlated_gaussian():
    """Correlated, with a metric that knows of it only in part."""
    covariance = np.array([[1.0, 1.2, 0.2], [1.2, 4.0, -0.5], [0.2, -0.5, 0.5]])
    mean = np.array([1.0, -2.0, 0.0])
    return _gaussian_case(
        targets.correlated_gaussian(covariance, mean),
        0.9,
        Metric.dense(0.6 * covariance + 0.4 * np.diag([1.0, 3.0, 1.0])),
    )


def log_spaced_gaussian():
    """Scales from 1 to 10, under a metric of equal ones."""
    return _gaussian_case(
        targets.log_gaussian(ndim=3, log_conditioning=1.4),
        1.1,
        Metric.diagonal(np.full(3, 1.0)),
    )


def rough_well():
    """Ripples on a parabola."""
    sigma, period = 2.5, 4.0

    def weight(x):
        return math.exp(-0.5 * (x / sigma) ** 2 - math.cos(2 * math.pi * x / period))

    def survival(j, t):
        above, _ = integrate.quad(weight, t, 12 * sigma, limit=200)
        below, _ = integrate.quad(weight, -12 * sigma, t, limit=200)
        return above / (above + below)

    return Case(
        targets.rough_well(2, period=period, sigma=sigma),
        survival,
        np.array([3.0, -4.5]),
        0.8,
        Metric.diagonal(np.full(2, 1.5)),
    )


def mixture():
    """Two modes of unequal weight, near enough to each other to cross between them."""
    sign = np.array([0.7, 0.3])
    centre = 1.5

    def survival(j, t):
        if j > 0:
            return stats.norm.sf(t)
        return sign @ stats.norm.sf(t - np.array([centre, -centre]))

    return Case(
        targets.multimodal_gaussian(2, separation=centre, weight=0.7),
        survival,
        np.array([-1.0, 1.5]),
        1.1,
        Metric.diagonal([1.5, 1.0]),
    )


CASES = {
    make.__name__: make()
    for make in (
        log_gamma,
        student_t,
        banana,
        correlated_gaussian,
        log_spaced_gaussian,
        rough_well,
        mixture,
    )
}
