"""Densities that the kernel is timed on, in any version of the package."""

import math

import numpy as np
from numba import njit

import mjhmc_numba as mj
from mjhmc_numba import targets

__all__ = ["TARGETS", "dense_gaussian"]


@njit(fastmath={"reassoc", "contract", "nsz", "arcp"})
def logistic_regression(x, grad, design, successes):
    """Normal prior on the coefficients x; binary outcomes."""
    logp = 0.0
    for j in range(x.size):
        grad[j] = -x[j]
        logp -= 0.5 * x[j] * x[j]
    for i in range(design.shape[0]):
        eta = 0.0
        for j in range(x.size):
            eta += design[i, j] * x[j]
        weight = math.exp(-abs(eta))
        logp += successes[i] * eta - max(eta, 0.0) - math.log1p(weight)
        probability = (1.0 if eta > 0 else weight) / (1.0 + weight)
        for j in range(x.size):
            grad[j] += (successes[i] - probability) * design[i, j]
    return logp


def dense_gaussian():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(100, 100))
    return mj.as_target(targets.correlated_gaussian(root @ root.T / 100 + 0.1 * np.eye(100)))


def diagonal_gaussian():
    return mj.as_target(targets.gaussian(np.logspace(-1, 0, 100)))


def small_regression(rows: int = 30):
    rng = np.random.default_rng(2)
    design = rng.normal(size=(rows, 10))
    successes = (rng.uniform(size=rows) < 0.5).astype(float)
    return mj.as_target(logistic_regression, 10, (design, successes))


TARGETS = {
    "dense Gaussian, d = 100": dense_gaussian,
    "diagonal Gaussian, d = 100": diagonal_gaussian,
    "logistic regression, d = 10": small_regression,
}
