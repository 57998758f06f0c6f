r"""Holding times as importance weights of a jump record.

A jump record is the sequence of states :math:`x_1, \dots, x_n` that the process visited, each
with the time :math:`w_k` that was spent *in* it (sampled, or expected: one over the total rate).
The time average

.. math::
    \hat f = \frac{\sum_k w_k f(x_k)}{\sum_k w_k}

estimates :math:`E_\pi[f]`; the plain average over the record does not. Every function here takes
the weights as they come: only their ratios matter.

Values have shape (n,) or (n, d). Columns are treated one by one, so a result has the shape of one
value: () or (d,).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "asymptotic_variance",
    "ess",
    "kish_ess",
    "mcse",
    "mean",
    "moment",
    "quantile",
    "resample",
    "summary",
    "variance",
]

Estimator = Literal["batch_means", "initial_monotone"]
Resampling = Literal["multinomial", "stratified", "systematic"]

# Fewer states say nothing about their own autocorrelation: of 8 independent ones with exponential
# holding times, worth 4, 90 % of the estimates lie between 2 and 15; of 4, worth 2, from 1 to 16.
FEWEST_STATES = 8


def _checked_weights(weights: ArrayLike) -> NDArray[np.float64]:
    """Weights as a float array whose largest entry is 1, so that no sum of them overflows."""
    w = np.asarray(weights, dtype=np.float64)
    if w.ndim != 1 or w.size == 0:
        raise ValueError(f"weights must have shape (n,) with n > 0, not {w.shape}.")
    if not np.all(np.isfinite(w)):
        bad = int(np.flatnonzero(~np.isfinite(w))[0])
        raise ValueError(f"weights must be finite; weight {bad} is {w[bad]}.")
    if np.any(w < 0.0):
        bad = int(np.flatnonzero(w < 0.0)[0])
        raise ValueError(f"weights must not be negative; weight {bad} is {w[bad]}.")
    largest = w.max()
    if largest == 0.0:
        raise ValueError("all weights are zero.")
    return w / largest


def _checked(
    values: ArrayLike, weights: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    w = _checked_weights(weights)
    f = np.asarray(values, dtype=np.float64)
    if f.ndim not in (1, 2) or f.shape[0] != w.size:
        raise ValueError(
            f"values must have shape (n,) or (n, d) with one row for each of the {w.size} weights, "
            f"not {f.shape}."
        )
    return f, w


def _weighted_mean(f: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
    # A value that has no weight must not count, not even if it is infinite.
    visited = w > 0.0
    return np.tensordot(w[visited], f[visited], axes=1) / w.sum()


def mean(values: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    r"""Weighted mean :math:`\sum_k w_k f_k / \sum_k w_k`.

    Parameters
    ----------
    values : array, shape (n,) or (n, d)
    weights : array, shape (n,)
        Holding times, or any weights: not negative, finite, not all zero.

    Returns
    -------
    array, shape () or (d,)
    """
    f, w = _checked(values, weights)
    return _weighted_mean(f, w)


def moment(
    values: ArrayLike, order: float, weights: ArrayLike, *, central: bool = False
) -> NDArray[np.float64]:
    r"""Weighted moment :math:`\sum_k w_k (f_k - c)^{order} / \sum_k w_k`.

    Parameters
    ----------
    values : array, shape (n,) or (n, d)
    order : float
        The power. One that is not an integer asks for values that are not negative.
    weights : array, shape (n,)
    central : bool
        Whether c is the weighted mean; else it is 0.
    """
    f, w = _checked(values, weights)
    if central:
        f = f - _weighted_mean(f, w)
    if order != int(order) and np.any(f[w > 0.0] < 0.0):
        raise ValueError(f"the power {order} of a negative value is not a real number.")
    visited = w > 0.0
    return _weighted_mean(f[visited] ** order, w[visited])


def variance(values: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    r"""Weighted variance :math:`\sum_k w_k (f_k - \hat f)^2 / \sum_k w_k`.

    There is no correction for small n: the number of independent values is not n, and `ess`
    estimates it.

    Parameters
    ----------
    values : array, shape (n,) or (n, d)
    weights : array, shape (n,)
        Holding times, or any weights.

    Returns
    -------
    array, shape () or (d,)
    """
    return moment(values, 2, weights, central=True)


def quantile(values: ArrayLike, q: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    r"""Weighted quantile: the least value whose share of time up to it reaches q.

    .. math::
        \min\{f_k : w_k > 0,\; \sum_{l:\, f_l \le f_k} w_l \ge q \sum_l w_l\}

    This inverts the weighted empirical distribution without interpolation, so a quantile is
    always a value of the record. With equal weights it is
    ``numpy.quantile(values, q, method="inverted_cdf")``.

    Parameters
    ----------
    values : array, shape (n,) or (n, d)
    q : float or array
        Probabilities in [0, 1].
    weights : array, shape (n,)

    Returns
    -------
    array, shape of q followed by () or (d,)
    """
    f, w = _checked(values, weights)
    probabilities = np.asarray(q, dtype=np.float64)
    if not np.all((probabilities >= 0.0) & (probabilities <= 1.0)):
        raise ValueError(f"q must lie in [0, 1], not {probabilities}.")
    f, w = f[w > 0.0], w[w > 0.0]
    if np.any(np.isnan(f)):
        raise ValueError("values hold NaN, which has no place in an order.")
    columns = f.reshape(f.shape[0], -1)
    out = np.empty((probabilities.size, columns.shape[1]))
    for j in range(columns.shape[1]):
        order = np.argsort(columns[:, j], kind="stable")
        reached = np.cumsum(w[order])
        # Sums of weights are rounded: a share that reaches q up to rounding has reached it.
        asked = probabilities.ravel() * reached[-1] * (1.0 - 1e-14)
        place = np.searchsorted(reached, asked, side="left")
        out[:, j] = columns[order[place], j]
    return out.reshape(probabilities.shape + f.shape[1:])


def kish_ess(weights: ArrayLike) -> float:
    r"""Kish's effective sample size :math:`(\sum_k w_k)^2 / \sum_k w_k^2`.

    What the spread of the weights alone costs, had the states been independent. Successive
    states of a jump process are not: see `ess`.

    Parameters
    ----------
    weights : array, shape (n,)

    Returns
    -------
    float
    """
    w = _checked_weights(weights)
    return float(w.sum() ** 2 / np.sum(w**2))


def _autocovariances(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Autocovariances of a series (n,) of mean 0, at lags 0 to n - 1, divided by n."""
    n = series.size
    length = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(series, length)
    return np.fft.irfft(spectrum.real**2 + spectrum.imag**2, length)[:n] / n


def _initial_monotone(series: NDArray[np.float64]) -> float:
    """Geyer's (1992) initial monotone sequence estimate of the asymptotic variance."""
    covariances = _autocovariances(series)
    pairs = covariances[: covariances.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    if negative.size:
        pairs = pairs[: max(1, negative[0])]
    pairs = np.minimum.accumulate(pairs)
    return float(max(2.0 * pairs.sum() - covariances[0], 0.0))


def _batch_means(series: NDArray[np.float64], size: int) -> float:
    """Estimate by overlapping batch means of one size; the series has mean 0."""
    n = series.size
    sums = np.concatenate([[0.0], np.cumsum(series)])
    means = (sums[size:] - sums[:-size]) / size
    return float(n * size / (n - size) * np.mean(means**2))


def _lugsail_batch_means(series: NDArray[np.float64]) -> float:
    """Overlapping batch means of size b, with most of their bias of order 1/b taken out.

    Short batches miss the correlation between batches. Batches of b and b/2 miss it in a known
    proportion, so 2 V(b) - V(b/2) does not (Vats and Flegal 2022, "lugsail").
    """
    size = max(2, 2 * round(series.size**0.5 / 2))
    long, short = _batch_means(series, size), _batch_means(series, size // 2)
    # The correction may overshoot in a short record; it never makes the error smaller.
    return max(long, 2.0 * long - short)


def asymptotic_variance(
    values: ArrayLike, weights: ArrayLike, method: Estimator = "batch_means"
) -> NDArray[np.float64]:
    r"""Asymptotic variance :math:`\lim_n n \operatorname{Var}(\hat f)` of the weighted mean.

    The estimate :math:`\hat f` is a ratio of two correlated sums. To first order its error is
    the plain mean of the linearised series

    .. math::
        z_k = \frac{w_k (f_k - \hat f)}{\bar w},

    so its asymptotic variance is the sum of the autocovariances of z, at lags of jumps.

    Parameters
    ----------
    values : array, shape (n,) or (n, d)
        In the order of the jumps, from one chain.
    weights : array, shape (n,)
    method : {"batch_means", "initial_monotone"}
        Overlapping batch means of size sqrt(n), corrected for their length, are consistent for
        any chain. Geyer's initial monotone sequence is less noisy, but it is made for reversible
        chains, which this is not: its autocovariances swing through negative values, and a
        truncation at the first negative pair may be wrong by a factor of 4 however long the record
        (mostly too large, sometimes too small). It is here for comparison.

    Returns
    -------
    array, shape () or (d,)
    """
    estimators = {"batch_means": _lugsail_batch_means, "initial_monotone": _initial_monotone}
    if method not in estimators:
        raise ValueError(f"method must be one of {sorted(estimators)}, not {method!r}.")
    f, w = _checked(values, weights)
    if w.size < FEWEST_STATES:
        raise ValueError(
            f"{w.size} states are too few to estimate their autocorrelation; "
            f"at least {FEWEST_STATES} are needed."
        )
    if not np.all(np.isfinite(f)):
        raise ValueError("values must be finite.")
    deviations = (f - _weighted_mean(f, w)).reshape(w.size, -1)
    series = w[:, None] * deviations / w.mean()
    estimates = [estimators[method](column) for column in np.ascontiguousarray(series.T)]
    return np.array(estimates).reshape(f.shape[1:])


def mcse(
    values: ArrayLike, weights: ArrayLike, method: Estimator = "batch_means"
) -> NDArray[np.float64]:
    r"""Monte Carlo standard error of the weighted mean, :math:`\sqrt{V / n}`.

    V is the `asymptotic_variance`. For the error of another moment or of a probability, give its
    values: ``mcse(x**2, w)``, ``mcse(x > 3, w)``.

    Parameters
    ----------
    values : array, shape (n,) or (n, d)
    weights : array, shape (n,)
        Holding times, or any weights.
    method : str
        See `asymptotic_variance`.

    Returns
    -------
    array, shape () or (d,)
    """
    estimate = asymptotic_variance(values, weights, method)
    return np.sqrt(estimate / np.asarray(weights).size)


def ess(
    values: ArrayLike, weights: ArrayLike, method: Estimator = "batch_means"
) -> NDArray[np.float64]:
    r"""Effective sample size of the weighted mean: :math:`\operatorname{Var}_\pi(f)\, n / V`.

    So many independent draws from the target would give a mean of the same accuracy. Both the
    spread of the weights and the autocorrelation of the weighted chain are accounted for. It may
    exceed the number of states. It is NaN for values that never change, where it has no meaning.

    Parameters
    ----------
    values : array, shape (n,) or (n, d)
    weights : array, shape (n,)
        Holding times, or any weights.
    method : str
        See `asymptotic_variance`, which is V.

    Returns
    -------
    array, shape () or (d,)
    """
    estimate = asymptotic_variance(values, weights, method)
    spread = variance(values, weights)
    f, w = _checked(values, weights)
    # Rounding gives constant values a variance that is tiny and means nothing.
    constant = np.ptp(f[w > 0.0], axis=0) == 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(constant, np.nan, w.size * spread / estimate)


def resample(
    weights: ArrayLike,
    n: int | None = None,
    method: Resampling = "systematic",
    rng: np.random.Generator | int | None = None,
) -> NDArray[np.int64]:
    r"""Indices of states drawn in proportion to their weights.

    ``record[resample(weights)]`` is an unweighted sample, the last line of the paper's
    algorithm. On average state k is taken :math:`n w_k / \sum_l w_l` times, whatever the
    method. The methods differ in how far the number of copies strays from that: `multinomial`
    draws independently, `stratified` draws one point in each of n equal strata, `systematic`
    draws one point and repeats it in each stratum, so that every count is within one of its
    expectation.

    Resampling never gains accuracy over the weighted mean of the record.

    Parameters
    ----------
    weights : array, shape (n_states,)
    n : int, optional
        How many indices; as many as there are weights unless given.
    method : {"multinomial", "stratified", "systematic"}
    rng : Generator, seed or None

    Returns
    -------
    array of int, shape (n,)
        Indices into the original record. In its order (not decreasing) for `stratified` and
        `systematic`; in the order drawn for `multinomial`.
    """
    w = _checked_weights(weights)
    count = w.size if n is None else int(n)
    if count < 0:
        raise ValueError(f"n must not be negative, not {n}.")
    generator = np.random.default_rng(rng)
    if method == "multinomial":
        points = generator.random(count)
    elif method == "stratified":
        points = (np.arange(count) + generator.random(count)) / max(count, 1)
    elif method == "systematic":
        points = (np.arange(count) + generator.random()) / max(count, 1)
    else:
        raise ValueError(
            f"method must be one of ['multinomial', 'stratified', 'systematic'], not {method!r}."
        )
    edges = np.cumsum(w)
    chosen = np.searchsorted(edges, points * edges[-1], side="right")
    # A point may be rounded up to the very end; a state without weight is never chosen.
    return np.minimum(chosen, np.flatnonzero(w)[-1]).astype(np.int64)


def summary(
    values: Sequence[ArrayLike], weights: Sequence[ArrayLike]
) -> dict[str, NDArray[np.float64]]:
    r"""Mean, standard deviation, their Monte Carlo error, and R-hat, from several chains.

    Chain c counts by its whole weight :math:`W_c`, so the mean is that of all states together,
    and its error :math:`\sqrt{\sum_c W_c^2 e_c^2} / \sum_c W_c`, with the chains' own `mcse`
    :math:`e_c`. R-hat compares the halves of the chains, as :math:`\sqrt{1 + B / W}`: B is the
    variance of their means, W the mean of their variances.

    Parameters
    ----------
    values : sequence of arrays, each (n_c,) or (n_c, d)
        Each chain's, in the order of the jumps.
    weights : sequence of arrays, each (n_c,)

    Returns
    -------
    dict of str to array, shape () or (d,)
        `mean`, `sd`, `mcse_mean`, `ess` and `r_hat`. The last two are NaN where nothing varies.
    """
    if len(values) != len(weights) or not len(values):
        raise ValueError(f"{len(values)} chains of values, but {len(weights)} of weights.")
    time = np.array([np.asarray(w, dtype=np.float64).sum() for w in weights])
    errors = np.stack([mcse(f, w) for f, w in zip(values, weights, strict=True)])
    error = np.sqrt(np.tensordot(time**2, errors**2, axes=1)) / time.sum()
    f, w = _checked(np.concatenate(list(values)), np.concatenate(list(weights)))
    spread = variance(f, w)
    constant = np.ptp(f[w > 0.0], axis=0) == 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "mean": _weighted_mean(f, w),
            "sd": np.sqrt(spread),
            "mcse_mean": error,
            "ess": np.where(constant, np.nan, spread / error**2),
            "r_hat": np.where(constant, np.nan, _split_r_hat(values, weights)),
        }


def _split_r_hat(values: Sequence[ArrayLike], weights: Sequence[ArrayLike]) -> NDArray[np.float64]:
    means, variances = [], []
    for chain, time in zip(values, weights, strict=True):
        f, w = _checked(chain, time)
        half = int(np.searchsorted(np.cumsum(w), w.sum() / 2.0))
        for part in (slice(0, half + 1), slice(half, None)):  # neither is empty
            means.append(_weighted_mean(f[part], w[part]))
            variances.append(variance(f[part], w[part]))
    return np.sqrt(1.0 + np.var(means, axis=0, ddof=1) / np.mean(variances, axis=0))
