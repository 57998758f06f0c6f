"""Targets whose moments are known, and exact draws of them, independent and correlated."""

import numpy as np

from mjhmc_numba import targets
from mjhmc_numba.estimates import evaluate

_ROOT = np.random.default_rng(5).normal(size=(6, 6))
COVARIANCE = _ROOT @ _ROOT.T / 6 + 0.1 * np.eye(6)

TARGETS = {
    "correlated_gaussian": lambda: targets.correlated_gaussian(COVARIANCE, mean=np.arange(6.0)),
    "log_gamma_3": lambda: targets.log_gamma(np.array([1.0, 2.0, 5.0]), 3),
    "log_gamma_10": lambda: targets.log_gamma(np.geomspace(1.0, 10.0, 10), 10),
    "log_gamma_40": lambda: targets.log_gamma(np.geomspace(1.0, 10.0, 40), 40),
    "banana": lambda: targets.banana(2, 1.0, 0.5),
    "student_t": lambda: targets.student_t(7.0, 3),
    "two_modes": lambda: targets.multimodal_gaussian(2, 1.5, weight=0.3),
    "rough_well": lambda: targets.rough_well(2, 8.0, 20.0),
}


def exact_chains(target, rng, chains, draws, stay=0.0):
    """Draws (chain, draw, d) and their gradients. With probability `stay` a chain does not move:
    stationary, and correlated over stay / (1 - stay) draws.
    """
    x = target.draw(rng, chains * draws).reshape(chains, draws, -1)
    if stay:
        moves = rng.random((chains, draws)) >= stay
        moves[:, 0] = True
        last = np.maximum.accumulate(np.where(moves, np.arange(draws), 0), axis=1)
        x = np.take_along_axis(x, last[:, :, None], axis=1)
    return x, evaluate(target, x, cores=1)[1]
