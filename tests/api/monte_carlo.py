"""How far an average of draws may lie from the truth."""

import math

import numpy as np


def z_score(values, truth):
    """Distance of the mean of values (chain, draw) from the truth, in standard errors.

    The error comes from means of batches that are long against the correlation of the draws.
    """
    n = values.shape[1]
    size = max(int(math.sqrt(n)), 1)
    batches = values[:, : n // size * size].reshape(-1, size).mean(axis=1)
    return (values.mean() - truth) / (batches.std(ddof=1) / math.sqrt(batches.size))


def assert_moments(draws, mean, variance):
    """Mean and variance of draws (chain, draw, d) in each dimension, |z| < 5."""
    mean = np.broadcast_to(mean, draws.shape[2:])
    variance = np.broadcast_to(variance, draws.shape[2:])
    for j in range(draws.shape[2]):
        assert abs(z_score(draws[..., j], mean[j])) < 5
        assert abs(z_score((draws[..., j] - mean[j]) ** 2, variance[j])) < 5
