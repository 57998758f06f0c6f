r"""Monte Carlo errors of averages over correlated draws, and how heavy tails are."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

__all__ = ["MonteCarloError", "monte_carlo_error", "standard_error", "tail_index"]

LONGEST_LAG = 512  # autocorrelations beyond it are those of chains that have not mixed

# Beyond it the extrapolation says less than the draws. Intervals of 95 % cover 92 to 98 % with 2,
# too few with 1, too many with 4.
MOST_UNSEEN = 2.0

# The 97.5 % point of Student's t by its degrees of freedom.
FREEDOM = np.array([1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60, 120, np.inf])
T_QUANTILE = np.array(
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.306, 2.228, 2.131, 2.086, 2.042, 2.0, 1.98, 1.96]
)


def _autocovariance(values: np.ndarray, lags: int) -> np.ndarray:
    """(lag, k): of values (chain, draw, k), centred chain by chain, averaged over the chains."""
    n = values.shape[1]
    size = 1 << (n + lags - 1).bit_length()
    waves = np.fft.rfft(values - values.mean(axis=1, keepdims=True), n=size, axis=1)
    power = (waves.real**2 + waves.imag**2).mean(axis=0)
    return np.fft.irfft(power, n=size, axis=0)[:lags] / n


def standard_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard error of the mean over chains and draws, and the effective number of draws.

    Autocorrelations by Geyer's (1992) initial monotone sequence over all chains, against a
    variance that includes the one between chains, as in Vehtari et al. (2021), without ranks.

    Parameters
    ----------
    values : (chain, draw, k) array

    Returns
    -------
    error, size : (k,) array
        0 and all draws where nothing varies.
    """
    chains, n, k = values.shape
    lags = min(n, LONGEST_LAG)
    covariance = _autocovariance(values, lags)
    within = covariance[0] * n / (n - 1.0)
    total = covariance[0].copy()
    if chains > 1:
        total += values.mean(axis=1).var(axis=0, ddof=1)
    varies = total > 0
    rho = 1.0 - (within - covariance) / np.where(varies, total, 1.0)
    rho[0] = 1.0
    pairs = rho[: lags - lags % 2].reshape(-1, 2, k).sum(axis=1)
    before_negative = np.cumprod(pairs > 0, axis=0)
    falling = np.minimum.accumulate(pairs, axis=0)
    time = 2.0 * (falling * before_negative).sum(axis=0) - 1.0
    # Draws that alternate are worth more than independent ones; how much more is hard to know.
    time = np.maximum(time, 1.0 / math.log10(max(chains * n, 11)))
    size = np.where(varies, chains * n / time, float(chains * n))
    return np.sqrt(np.where(varies, total, 0.0) / size), size


class MonteCarloError(NamedTuple):
    """Of averages over chains and draws.

    Parameters
    ----------
    error : (k,) array
    size : (k,) array
        Effective number of draws.
    tail : (k,) array
        Shape of the tails, see `tail_index`.
    """

    error: np.ndarray
    size: np.ndarray
    tail: np.ndarray


def monte_carlo_error(values: np.ndarray) -> MonteCarloError:
    """Errors of which 1.96 make an interval of 95 %, whatever the tails.

    The standard error, and larger where a few extreme draws make most of it.

    Parameters
    ----------
    values : (chain, draw, k) array
    """
    error, size = standard_error(values)
    tail = tail_index(values.reshape(-1, values.shape[2]))
    error = np.hypot(error * _inflation(values), _unseen(values, size, tail))
    return MonteCarloError(error, size, tail)


def _inflation(values: np.ndarray) -> np.ndarray:
    r"""(k,): what makes 1.96 errors an interval of 95 % where few draws make most of the error.

    The ratio of Student's to the normal quantile. Batch b has the share :math:`w_b` of the squared
    deviations of batch means; B of them are worth :math:`\nu = 2 / (\sum w_b^2 - 1/B)` degrees of
    freedom (Satterthwaite 1946): B if they are normal, 2 if one of them is all.
    """
    chains, n, k = values.shape
    length = max(int(math.sqrt(n)), 1)
    count = n // length
    batches = values[:, n - count * length :].reshape(chains * count, length, k).mean(axis=1)
    square = (batches - batches.mean(axis=0)) ** 2
    total = square.sum(axis=0)
    share = square / np.where(total > 0, total, 1.0)
    excess = np.maximum((share**2).sum(axis=0) - 1.0 / len(batches), 1e-9)
    freedom = np.minimum(2.0 / excess, max(len(batches) - 1.0, 1.0))
    # Nearly straight in 1 / freedom, which falls along the table.
    return np.interp(1.0 / freedom, 1.0 / FREEDOM[::-1], T_QUANTILE[::-1]) / T_QUANTILE[-1]


def _unseen(values: np.ndarray, size: np.ndarray, tail: np.ndarray) -> np.ndarray:
    """(k,): what draws more extreme than any that was seen may add to the mean.

    The largest deviation is exceeded once in so many effective draws, and then on average by
    shape / (1 - shape) of itself where the tail is that of a Pareto distribution.
    """
    mean = values.mean(axis=(0, 1))
    largest = np.maximum(values.max(axis=(0, 1)) - mean, mean - values.min(axis=(0, 1)))
    shape = np.clip(tail, 0.0, 0.99)  # finite; the bound below is reached at 2/3
    return np.minimum(shape / (1.0 - shape), MOST_UNSEEN) * largest / size


def tail_index(values: np.ndarray) -> np.ndarray:
    r"""Shape of the generalised Pareto distribution that fits the tails: moments of order 1/shape
    and above are infinite.

    Of the larger of both tails, by Zhang and Stephens (2009) with the prior of Vehtari et al.
    (2024), from the 3 sqrt(n) outermost values.

    Parameters
    ----------
    values : (n, k)

    Returns
    -------
    (k,)
    """
    n = len(values)
    m = int(min(0.2 * n, 3.0 * math.sqrt(n)))
    if m < 5:
        return np.full(values.shape[1], -np.inf)
    low = np.partition(values, m, axis=0)[: m + 1]
    high = np.partition(values, n - m - 1, axis=0)[n - m - 1 :]
    upper = _pareto_shape(np.sort(high, axis=0))
    lower = _pareto_shape(np.sort(-low, axis=0))
    return np.maximum(upper, lower)


def _pareto_shape(tail: np.ndarray) -> np.ndarray:
    """Of sorted values (m + 1, k), the first being the threshold."""
    excess = tail[1:] - tail[0]
    m = len(excess)
    largest, quartile = excess[-1], excess[max(int(m / 4 + 0.5) - 1, 0)]
    flat = (quartile <= 0) | (largest <= 0)
    quartile, largest = np.where(flat, 1.0, quartile), np.where(flat, 1.0, largest)
    excess = np.where(flat, 0.0, excess)
    grid = 30 + int(math.sqrt(m))
    at = 1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    theta = at[:, None] / (3.0 * quartile) + 1.0 / largest  # (grid, k)
    shape = np.empty_like(theta)
    for g in range(grid):
        shape[g] = np.log1p(-theta[g] * excess).mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        profile = m * (np.log(-theta / shape) - shape - 1.0)
    profile = np.where(np.isfinite(profile), profile, -1e300)
    weight = np.exp(profile - profile.max(axis=0))
    best = (weight * theta).sum(axis=0) / weight.sum(axis=0)
    found = np.log1p(-best * excess).mean(axis=0)
    found = (m * found + 5.0) / (m + 10.0)  # as 10 more values with shape 1/2
    return np.where(flat, -np.inf, found)
