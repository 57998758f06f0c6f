r"""Monte Carlo errors of averages over correlated draws, and how heavy tails are."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mjhmc_numba.estimates.blocks import blocks

__all__ = ["MonteCarloError", "monte_carlo_error", "most_worth", "standard_error"]

LONGEST_LAG = 512  # autocorrelations beyond it are those of chains that have not mixed
# Sums of products take 0.5 us per lag of 4 x 1000 draws, transforms 100 us; nearly independent
# draws need the first few lags alone.
FEW_LAGS, SOME_LAGS = 16, 64
# A tail that reaches less than this share of an exponential's is lighter: normal draws reach 3.7
# deviations of 8.3 among 4,000.
NEAR, LIGHT = 0.6, 0.0
# Of the standard error times the effective draws: where no deviation is larger, tails add 1 % to
# the error were their shape 1/2, at most 4 % (MOST_UNSEEN). Where the variance is infinite (above
# 1/2) the largest is of the order 1.
LITTLE = 0.15

# Beyond it the extrapolation says less than the draws. Intervals of 95 % cover 92 to 98 % with 2,
# too few with 1, too many with 4.
MOST_UNSEEN = 2.0

# The 97.5 % point of Student's t by its degrees of freedom.
FREEDOM = np.array([1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60, 120, np.inf])
T_QUANTILE = np.array(
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.306, 2.228, 2.131, 2.086, 2.042, 2.0, 1.98, 1.96]
)


def in_pieces(values: np.ndarray) -> np.ndarray:
    """The same values (chain, draw, k), with each of the k in one piece of memory: sums over the
    draws are several times as fast then.
    """
    return as_rows(values).transpose(1, 2, 0)


def as_rows(values: np.ndarray) -> np.ndarray:
    """(k, chain, draw) in a piece of memory, from values (chain, draw, k): no copy of a view that
    has come from there.
    """
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def _autocovariance(rows: np.ndarray, lags: int) -> np.ndarray:
    """(lag, k): of centred rows (k, chain, draw), averaged over the chains."""
    n = rows.shape[2]
    size = 1 << (n + lags - 1).bit_length()
    waves = np.fft.rfft(rows, n=size, axis=2)
    power = (waves.real**2 + waves.imag**2).mean(axis=1)
    return np.fft.irfft(power, n=size, axis=1)[:, :lags].T / n


def _first_autocovariances(rows: np.ndarray, lags: int) -> np.ndarray:
    """The same for a few lags: sums of products, without transforms."""
    k, chains, n = rows.shape
    # With zeros between them chains are one row, whatever the lag.
    padded = np.zeros((k, chains, n + lags))
    padded[:, :, :n] = rows
    flat = padded.reshape(k, 1, -1)
    length = flat.shape[2]
    products = [  # of matrices with one row and one column: BLAS sums them
        np.matmul(flat[:, :, lag:], flat[:, :, : length - lag].transpose(0, 2, 1))[:, 0, 0]
        for lag in range(lags)
    ]
    return np.stack(products) / (chains * n)


def _correlation_times(covariance: np.ndarray, within, total) -> tuple[np.ndarray, np.ndarray]:
    """Integrated autocorrelation times from covariances (lag, k) of as many lags as there are, and
    whether these were enough: sums of pairs, made to fall, up to the first that is negative.
    """
    rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    pairs = rho[: len(rho) - len(rho) % 2].reshape(-1, 2, rho.shape[1]).sum(axis=1)
    before_negative = np.logical_and.accumulate(pairs > 0, axis=0)
    falling = np.minimum.accumulate(pairs, axis=0)
    return 2.0 * (falling * before_negative).sum(axis=0) - 1.0, ~before_negative[-1]


def most_worth(draws: int) -> float:
    """The most that one of so many draws is taken to be worth, in independent ones (Vehtari et al.
    2021, who cap the effective size at n log10(n)).
    """
    return math.log10(max(draws, 11))


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
    rows = as_rows(values)
    _, chains, n = rows.shape
    means = rows.mean(axis=2)
    rows = rows - means[:, :, None]
    covariance = _first_autocovariances(rows, min(n, FEW_LAGS))
    within = covariance[0] * n / (n - 1.0)
    total = covariance[0].copy()
    if chains > 1:
        total += means.var(axis=1, ddof=1)
    varies = total > 0
    scale = np.where(varies, total, 1.0)
    time, is_known = _correlation_times(covariance, within, scale)
    for before, lags in ((FEW_LAGS, SOME_LAGS), (SOME_LAGS, LONGEST_LAG)):
        slow = np.flatnonzero(~is_known)
        if n <= before or not len(slow):
            break
        find = _autocovariance if lags == LONGEST_LAG else _first_autocovariances
        covariance = find(rows[slow], min(n, lags))
        time[slow], is_known[slow] = _correlation_times(covariance, within[slow], scale[slow])
    # Draws that alternate are worth more than independent ones; how much more is hard to know.
    time = np.maximum(time, 1.0 / most_worth(chains * n))
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
        Shape of the tails, see `_tail_shape`.
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
    chains, n, k = values.shape
    found = [_error_of_some(values[:, :, some]) for some in blocks(k, chains * n)]
    return MonteCarloError(*map(np.concatenate, zip(*found, strict=True)))


def _error_of_some(values: np.ndarray) -> MonteCarloError:
    error, size = standard_error(values)
    rows = as_rows(values)
    flat = rows.reshape(len(rows), -1)
    outermost = _Outermost.of(flat)
    tail = _tail_shape(flat, outermost, LITTLE * error * size)
    error = np.hypot(error * _inflation(rows), _unseen(outermost, size, tail))
    return MonteCarloError(error, size, tail)


def _inflation(rows: np.ndarray) -> np.ndarray:
    r"""(k,): what makes 1.96 errors an interval of 95 % where few draws make most of the error.

    The ratio of Student's to the normal quantile. Batch b has the share :math:`w_b` of the squared
    deviations of batch means; B of them are worth :math:`\nu = 2 / (\sum w_b^2 - 1/B)` degrees of
    freedom (Satterthwaite 1946): B if they are normal, 2 if one of them is all.
    """
    k, chains, n = rows.shape
    length = max(int(math.sqrt(n)), 1)
    count = n // length
    batches = rows[:, :, n - count * length :].reshape(k, chains, count, length)
    batches = (batches @ np.full(length, 1.0 / length)).reshape(k, chains * count)
    square = (batches - batches.mean(axis=1, keepdims=True)) ** 2
    total = square.sum(axis=1, keepdims=True)
    share = square / np.where(total > 0, total, 1.0)
    excess = np.maximum((share**2).sum(axis=1) - 1.0 / batches.shape[1], 1e-9)
    freedom = np.minimum(2.0 / excess, max(batches.shape[1] - 1.0, 1.0))
    # Nearly straight in 1 / freedom, which falls along the table.
    return np.interp(1.0 / freedom, 1.0 / FREEDOM[::-1], T_QUANTILE[::-1]) / T_QUANTILE[-1]


class _Outermost(NamedTuple):
    """Of each row (k, n): mean, standard deviation, and how far the largest value is above the
    mean and the smallest one below.
    """

    mean: np.ndarray
    sd: np.ndarray
    above: np.ndarray
    below: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> _Outermost:
        mean, sd = rows.mean(axis=1), rows.std(axis=1)
        return cls(mean, sd, rows.max(axis=1) - mean, mean - rows.min(axis=1))


def _unseen(outermost: _Outermost, size, tail) -> np.ndarray:
    """(k,): what draws more extreme than any that was seen may add to the mean.

    The largest deviation is exceeded once in so many effective draws, and then on average by
    shape / (1 - shape) of itself where the tail is that of a Pareto distribution.
    """
    largest = np.maximum(outermost.above, outermost.below)
    shape = np.clip(tail, 0.0, 0.99)  # finite; the bound below is reached at 2/3
    return np.minimum(shape / (1.0 - shape), MOST_UNSEEN) * largest / size


def _tail_shape(rows: np.ndarray, outermost: _Outermost, little: np.ndarray) -> np.ndarray:
    """Shape of the generalised Pareto distribution that fits the tails: moments of order 1/shape
    and above are infinite.

    Of the larger of both tails, by Zhang and Stephens (2009) with the prior of Vehtari et al.
    (2024), from the 3 sqrt(n) outermost values; 0 for a tail that is clearly lighter than an
    exponential, or where no deviation is larger than `little`.

    Parameters
    ----------
    rows : (k, n) array
    outermost : _Outermost
        Of the same.
    little : (k,) array

    Returns
    -------
    (k,) array
    """
    n = rows.shape[1]
    m = int(min(0.2 * n, 3.0 * math.sqrt(n)))
    if m < 5:
        return np.full(len(rows), -np.inf)
    found = np.full(len(rows), LIGHT)
    # The largest of n values of an exponential, whose shape is 0, is log(n) deviations away.
    near = NEAR * math.log(n) * outermost.sd
    matters = np.maximum(outermost.above, outermost.below) > little
    upper, lower = matters & (outermost.above > near), matters & (outermost.below > near)
    # No more is put in order than the tails that are looked at.
    tails = np.partition(rows[upper], n - m - 1, axis=1)[:, n - m - 1 :]
    found[upper] = _pareto_shape(np.sort(tails, axis=1))
    tails = -np.partition(rows[lower], m, axis=1)[:, : m + 1]
    found[lower] = np.maximum(found[lower], _pareto_shape(np.sort(tails, axis=1)))
    return found


def _pareto_shape(tail: np.ndarray) -> np.ndarray:
    """Of rows (k, m + 1) that rise, the first value being the threshold."""
    excess = tail[:, 1:] - tail[:, :1]
    m = excess.shape[1]
    largest, quartile = excess[:, -1], excess[:, max(int(m / 4 + 0.5) - 1, 0)]
    flat = (quartile <= 0) | (largest <= 0)
    quartile, largest = np.where(flat, 1.0, quartile), np.where(flat, 1.0, largest)
    excess = np.where(flat[:, None], 0.0, excess) / largest[:, None]
    grid = 30 + int(math.sqrt(m))
    at = 1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    theta = at / (3.0 * quartile / largest)[:, None] + 1.0  # (k, grid)
    shape, weight = np.empty_like(theta), np.full(m, 1.0 / m)
    for some in blocks(len(excess), grid * m):
        logs = -theta[some, :, None] * excess[some, None, :]
        shape[some] = np.log1p(logs, out=logs) @ weight
    with np.errstate(divide="ignore", invalid="ignore"):
        profile = m * (np.log(-theta / shape) - shape - 1.0)
    profile = np.where(np.isfinite(profile), profile, -1e300)
    weight = np.exp(profile - profile.max(axis=1, keepdims=True))
    best = (weight * theta).sum(axis=1) / weight.sum(axis=1)
    found = np.log1p(-best[:, None] * excess).mean(axis=1)
    found = (m * found + 5.0) / (m + 10.0)  # as 10 more values with shape 1/2
    return np.where(flat, -np.inf, found)
