"""Monte Carlo estimates with standard errors that hold for correlated draws."""

import math

import numpy as np


def batch_means(values, batches=200):
    """Means of consecutive batches of a series (n,) or of each of several chains (c, n)."""
    chains = np.atleast_2d(np.asarray(values, dtype=float))
    each = max(batches // chains.shape[0], 1)
    size = chains.shape[1] // each
    return chains[:, : each * size].reshape(-1, size).mean(axis=1)


def batch_z(values, exact, batches=200):
    """(mean - exact) in standard errors, from the spread of batch means.

    With 200 batches, each many autocorrelation times long, it is nearly standard normal.
    """
    means = batch_means(values, batches)
    error = means.std(ddof=1) / math.sqrt(means.size)
    if error == 0:
        return 0.0 if means[0] == exact else math.inf
    return (means.mean() - exact) / error


def crossing_z(before, after):
    """Entries minus leaves of regions in standard errors, and the number of both; each (region,).

    `before` and `after` (n, region) say whether independent chains are in a region. In a
    stationary process each crossing is an entry or a leave with equal probability, so however few
    there are, |z| > 5 has a probability below 2 exp(-25/2) = 7e-6 (Hoeffding).
    """
    entries, leaves = (~before & after).sum(axis=0), (before & ~after).sum(axis=0)
    crossings = entries + leaves
    return (entries - leaves) / np.sqrt(np.maximum(crossings, 1)), crossings
