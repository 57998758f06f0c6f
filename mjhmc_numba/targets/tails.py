"""Long tails: on all sides (Student t), and on one (the logarithm of a Gamma variable)."""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from mjhmc_numba.targets.arguments import dimension, positive, vector
from mjhmc_numba.targets.distribution import Array, Distribution, compile_density

__all__ = ["log_gamma", "student_t"]


@compile_density
def _student_t_density(x, grad, df):
    r""":math:`-\frac{\nu + d}2 \log(1 + |x|^2 / \nu)`."""
    square = 0.0
    for j in range(x.size):
        square += x[j] * x[j]
    factor = (df[0] + x.size) / (df[0] + square)
    for j in range(x.size):
        grad[j] = -factor * x[j]
    return -0.5 * (df[0] + x.size) * math.log1p(square / df[0])


def _draw_student_t(df: float, ndim: int, rng: np.random.Generator, n: int) -> Array:
    scale = np.sqrt(df / rng.chisquare(df, size=n))
    return scale[:, None] * rng.standard_normal((n, ndim))


def student_t(df: float = 5.0, ndim: int = 1) -> Distribution:
    """Round multivariate Student t with df degrees of freedom.

    Its mean is finite for df > 1 and its variance, df / (df - 2), for df > 2.

    Parameters
    ----------
    df : float
        Degrees of freedom.
    ndim : int
    """
    size, nu = dimension(ndim), positive(df, "df")
    return Distribution(
        name="student_t",
        ndim=size,
        density=_student_t_density,
        args=(np.array([nu]),),
        mean=np.zeros(size) if nu > 1.0 else None,
        variance=np.full(size, nu / (nu - 2.0)) if nu > 2.0 else None,
        draw=partial(_draw_student_t, nu, size),
    )


@compile_density
def _log_gamma_density(x, grad, shape):
    r""":math:`\sum_j [a_j x_j - e^{x_j}]`."""
    logp = 0.0
    for j in range(x.size):
        e = math.exp(x[j])
        grad[j] = shape[j] - e
        logp += shape[j] * x[j] - e
    return logp


def _draw_log_gamma(shape: Array, rng: np.random.Generator, n: int) -> Array:
    # Gamma(a) = Gamma(a + 1) U^(1/a) in law; in logarithms nothing underflows for small a.
    large = rng.gamma(shape + 1.0, size=(n, shape.size))
    return np.log(large) - rng.standard_exponential((n, shape.size)) / shape


def log_gamma(shape: ArrayLike = 1.0, ndim: int = 1) -> Distribution:
    r"""Logarithms of independent Gamma(a) variables: log density :math:`a x - e^x`.

    Asymmetric, so that errors of the mean have no symmetry to hide behind. Its mean is
    digamma(a) and its variance trigamma(a); for a = 1, -0.5772 and pi^2 / 6.

    Parameters
    ----------
    shape : float or array, shape (ndim,)
        a, positive.
    ndim : int
    """
    a = vector(shape, dimension(ndim), "shape")
    if np.any(a <= 0.0):
        raise ValueError(f"shape must be positive, not {a}.")
    return Distribution(
        name="log_gamma",
        ndim=a.size,
        density=_log_gamma_density,
        args=(a,),
        mean=np.array([_digamma(value) for value in a]),
        variance=np.array([_trigamma(value) for value in a]),
        draw=partial(_draw_log_gamma, a),
    )


# Bernoulli numbers B_2, B_4, ..., B_14; at arguments of 16 and above the series below ends
# beneath rounding (Abramowitz and Stegun 6.3.18 and 6.4.12).
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _digamma(x: float) -> float:
    shift = 0.0
    while x < 16.0:
        shift -= 1.0 / x
        x += 1.0
    series = sum(b / (2 * k * x ** (2 * k)) for k, b in enumerate(_BERNOULLI, start=1))
    return shift + math.log(x) - 0.5 / x - series


def _trigamma(x: float) -> float:
    shift = 0.0
    while x < 16.0:
        shift += 1.0 / (x * x)
        x += 1.0
    series = sum(b / x ** (2 * k + 1) for k, b in enumerate(_BERNOULLI, start=1))
    return shift + 1.0 / x + 0.5 / (x * x) + series
