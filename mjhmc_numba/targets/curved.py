"""Distributions whose scale or centre depends on a coordinate: the funnel and the banana."""

import math
from functools import partial

import numpy as np

from mjhmc_numba.targets.arguments import dimension, positive
from mjhmc_numba.targets.distribution import Array, Distribution, compile_density

__all__ = ["banana", "funnel"]


@compile_density
def _funnel_density(x, grad, scale):
    r"""Neal's funnel: :math:`v = x_0 \sim N(0, s^2)`, :math:`x_j | v \sim N(0, e^v)`."""
    v = x[0]
    precision = math.exp(-v)
    square = 0.0
    for j in range(1, x.size):
        square += x[j] * x[j]
        grad[j] = -precision * x[j]
    slope = v / (scale[0] * scale[0])
    half_count = 0.5 * (x.size - 1)
    grad[0] = -slope - half_count + 0.5 * precision * square
    return -0.5 * slope * v - half_count * v - 0.5 * precision * square


def _draw_funnel(ndim: int, scale: float, rng: np.random.Generator, n: int) -> Array:
    draws = rng.standard_normal((n, ndim))
    draws[:, 0] *= scale
    draws[:, 1:] *= np.exp(0.5 * draws[:, :1])
    return draws


def funnel(ndim: int = 10, scale: float = 3.0) -> Distribution:
    r"""Neal's (2003) funnel: :math:`v \sim N(0, 3^2)` and nine :math:`x_j | v \sim N(0, e^v)`.

    Coordinate 0 is v. The energy in the released code has its sign reversed and lacks the
    normalising term (ndim - 1) v / 2, so it is not a distribution; this one is.

    Parameters
    ----------
    ndim : int
        Including v, at least 2.
    scale : float
        Standard deviation of v.
    """
    size, sd = dimension(ndim, least=2), positive(scale, "scale")
    variance = np.full(size, math.exp(0.5 * sd**2))
    variance[0] = sd**2
    return Distribution(
        name="funnel",
        ndim=size,
        density=_funnel_density,
        args=(np.array([sd]),),
        mean=np.zeros(size),
        variance=variance,
        draw=partial(_draw_funnel, size, sd),
    )


@compile_density
def _banana_density(x, grad, scale_and_curvature):
    r""":math:`x_0 \sim N(0, s^2)`, :math:`x_1 | x_0 \sim N(b (x_0^2 - s^2), 1)`, others N(0, 1)."""
    scale, curvature = scale_and_curvature[0], scale_and_curvature[1]
    slope = x[0] / (scale * scale)
    off = x[1] - curvature * (x[0] * x[0] - scale * scale)
    grad[0] = -slope + 2.0 * curvature * x[0] * off
    grad[1] = -off
    logp = -0.5 * slope * x[0] - 0.5 * off * off
    for j in range(2, x.size):
        grad[j] = -x[j]
        logp -= 0.5 * x[j] * x[j]
    return logp


def _draw_banana(
    ndim: int, scale: float, curvature: float, rng: np.random.Generator, n: int
) -> Array:
    draws = rng.standard_normal((n, ndim))
    draws[:, 0] *= scale
    draws[:, 1] += curvature * (draws[:, 0] ** 2 - scale**2)
    return draws


def banana(ndim: int = 2, scale: float = 10.0, curvature: float = 0.03) -> Distribution:
    r"""The banana of Haario, Saksman and Tamminen (1999), a bent Gaussian centred at 0.

    :math:`x_0 \sim N(0, s^2)`; :math:`x_1 = b (x_0^2 - s^2) + N(0, 1)`, so its variance is
    :math:`1 + 2 b^2 s^4`; further coordinates are standard normal.

    Parameters
    ----------
    ndim : int
        At least 2.
    scale : float
        s; 10 in the reference.
    curvature : float
        b; 0.03 is moderate, 0.1 strong.
    """
    size, sd = dimension(ndim, least=2), positive(scale, "scale")
    variance = np.ones(size)
    variance[:2] = sd**2, 1.0 + 2.0 * curvature**2 * sd**4
    return Distribution(
        name="banana",
        ndim=size,
        density=_banana_density,
        args=(np.array([sd, float(curvature)]),),
        mean=np.zeros(size),
        variance=variance,
        draw=partial(_draw_banana, size, sd, float(curvature)),
    )
