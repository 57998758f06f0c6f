"""Densities and processes that the kernel's tests share."""

import numpy as np
from numba import njit

from mjhmc_numba.coordinates import Metric
from mjhmc_numba.density import as_target
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.process import Process, random_words
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Tuned

COLUMN = {name: k for k, name in enumerate(STAT_NAMES)}
EXACT_COLUMNS = [COLUMN[name] for name in STAT_NAMES if name.startswith(("n_", "longest"))]


@njit
def skewed(x, grad, shape):
    """Neither Gaussian nor symmetric, neighbours coupled: sum a x - exp(x) - (x - x')^2 / 8."""
    logp = 0.0
    for j in range(x.size):
        grad[j] = shape[j] - np.exp(x[j])
        logp += shape[j] * x[j] - np.exp(x[j])
    for j in range(x.size - 1):
        step = x[j + 1] - x[j]
        logp -= step * step / 8
        grad[j] += step / 4
        grad[j + 1] -= step / 4
    return logp


@njit
def quartic(x, grad):
    """-x^4/4 in every dimension: stiffer and stiffer outwards."""
    logp = 0.0
    for j in range(x.size):
        grad[j] = -(x[j] ** 3)
        logp -= x[j] ** 4 / 4
    return logp


@njit
def standard_normal(x, grad):
    logp = 0.0
    for j in range(x.size):
        grad[j] = -x[j]
        logp -= x[j] * x[j] / 2
    return logp


@njit
def own_bounded_g(t):
    """A balancing function that no one else has, at most 1: t (1 + t) / (1 + t + t^2)."""
    return t * (1.0 + t) / (1.0 + t + t * t)


@njit
def own_unbounded_g(t):
    """The mean of sqrt(t) and min(1, t)."""
    return 0.5 * (np.sqrt(t) + min(1.0, t))


def label(value):
    """The id of a parametrised test: the same in every process, so functions by their names."""
    if isinstance(value, dict):
        return "-".join(getattr(v, "__name__", str(v)) for v in value.values())
    return str(value)


def skewed_target(ndim=3):
    return as_target(skewed, ndim, (np.linspace(1.0, 5.0, ndim),))


def point_at(process, x, v, grad=None):
    """A point of phase space as the kernel wants it: x, v, gradient, velocity, acceleration."""
    if grad is None:
        grad = process.target.logp_and_grad(x)[1]
    inverse_mass = process.tuned.metric.covariance()
    return x.copy(), v.copy(), grad.copy(), inverse_mass @ v, inverse_mass @ grad


def low_rank_metric(ndim, rank=2, seed=5):
    """A metric with `rank` long directions."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(ndim, rank)))[0].T
    return Metric(
        rng.uniform(0.5, 1.2, ndim), np.ascontiguousarray(directions), np.linspace(0.4, 2.5, rank)
    )


def dense_metric(ndim, seed=6):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(ndim, ndim)) / np.sqrt(ndim)
    return Metric.dense(0.3 * np.eye(ndim) + root @ root.T)


def tuned(ndim, **changes):
    """What to run with, with a unit metric unless told otherwise."""
    values = {
        "step_size": 0.4,
        "num_steps": 1,
        "refresh_rate": 0.3,
        "draw_interval": 2.0,
        "integrator": "leapfrog",
        "metric": Metric.diagonal(np.ones(ndim)),
    }
    return Tuned(**(values | changes))


def settings(**changes):
    """Settings without jitter or refinement unless told otherwise."""
    return Settings(**({"step_jitter": 0.0, "refresh_jitter": 0.0, "refine_levels": 0} | changes))


def agreeing(process_settings, process_tuned):
    """What to run with, with what the settings give: a warm-up would have taken it over."""
    alpha = process_settings.refresh_alpha
    return process_tuned if alpha is None else process_tuned.replace(refresh_alpha=alpha)


def words(seed):
    return random_words(np.random.SeedSequence(seed) if isinstance(seed, int) else seed)


def started(target, process_settings, process_tuned, seed, x0=None, record=0):
    """A process at x0 (the origin, if not told)."""
    values = agreeing(process_settings, process_tuned)
    process = Process(target, process_settings, values, words(seed), record=record)
    process.start(np.zeros(target.ndim) if x0 is None else x0)
    return process


def run(process, draws):
    """`draws` draws and their statistics (n, columns) of a process that is not interrupted."""
    positions = np.empty((draws, process.target.ndim))
    stats = np.empty((draws, len(STAT_NAMES)))
    assert process.run(positions, stats) == (draws, 0)
    return positions, stats
