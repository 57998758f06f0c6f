"""Densities that the tests of the API share. Those in a module can be sent to other processes."""

import math

import numpy as np
from numba import njit

QUIET = {"progress": False}
SHORT = {"draws": 60, "tune": 60, "chains": 2, "progress": False}
FIXED = {
    "step_size": 0.5,
    "num_steps": 2,
    "refresh_rate": 0.3,
    "draw_interval": 1.5,
    "tune": 0,
    "progress": False,
}


@njit
def log_gamma(x, grad):
    """x - e^x in each dimension: asymmetric."""
    total = 0.0
    for j in range(x.size):
        grad[j] = 1.0 - math.exp(x[j])
        total += x[j] - math.exp(x[j])
    return total


@njit
def scaled_gradient(x, grad, factor):
    """The same, but for a factor in each dimension of the gradient: wrong unless it is 1."""
    total = log_gamma(x, grad)
    for j in range(x.size):
        grad[j] *= factor[j]
    return total


LOG_GAMMA_MEAN = -0.5772156649015329
LOG_GAMMA_VARIANCE = math.pi**2 / 6


def log_gamma_in_python(x):
    """The same, operation by operation, for the slow way."""
    grad, total = np.empty(x.size), 0.0
    for j in range(x.size):
        grad[j] = 1.0 - math.exp(x[j])
        total += x[j] - math.exp(x[j])
    return total, grad


@njit
def scaled_normal(x, grad, mean, scale):
    """Normal with a vector of means and one scale."""
    total = 0.0
    for j in range(x.size):
        z = (x[j] - mean[j]) / scale
        grad[j] = -z / scale
        total -= 0.5 * z * z
    return total


@njit
def half_normal(x, grad):
    """Standard normal where x[0] > 0, and NaN elsewhere."""
    for j in range(x.size):
        grad[j] = -x[j]
    return -0.5 * np.sum(x * x) if x[0] > 0 else np.nan


@njit
def half_normal_inf(x, grad):
    """Standard normal where x[0] > 0, and no probability elsewhere."""
    for j in range(x.size):
        grad[j] = -x[j]
    return -0.5 * np.sum(x * x) if x[0] > 0 else -np.inf


@njit
def half_normal_bad_gradient(x, grad):
    """Standard normal whose gradient is NaN where x[0] <= 0."""
    for j in range(x.size):
        grad[j] = -x[j] if x[0] > 0 else np.nan
    return -0.5 * np.sum(x * x)


@njit
def raises_beyond(x, grad, limit):
    """Standard normal that refuses to go beyond a limit."""
    for j in range(x.size):
        if x[j] > limit:
            raise ValueError("the pump is dry")
        grad[j] = -x[j]
    return -0.5 * np.sum(x * x)


@njit
def slow_normal(x, grad, rounds):
    """Standard normal that takes its time."""
    wasted = 0.0
    for k in range(rounds):
        wasted += math.sin(k * x[0])
    for j in range(x.size):
        grad[j] = -x[j]
    return -0.5 * np.sum(x * x) + 1e-300 * wasted
