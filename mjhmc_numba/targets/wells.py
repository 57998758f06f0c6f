"""The rough well: a parabola with ripples."""

import math
from functools import partial

import numpy as np

from mjhmc_numba.targets.arguments import dimension, positive
from mjhmc_numba.targets.distribution import Array, Distribution, compile_density

__all__ = ["rough_well"]


@compile_density
def _rough_well_density(x, grad, sigma_and_frequency):
    r""":math:`-\sum_j [x_j^2 / (2 \sigma^2) + \cos(\omega x_j)]`."""
    sigma, frequency = sigma_and_frequency[0], sigma_and_frequency[1]
    logp = 0.0
    for j in range(x.size):
        slope = x[j] / (sigma * sigma)
        phase = frequency * x[j]
        logp -= 0.5 * slope * x[j] + math.cos(phase)
        grad[j] = frequency * math.sin(phase) - slope
    return logp


def _rough_well_variance(sigma: float, frequency: float) -> float:
    """Variance of one coordinate by the trapezoidal rule, exponentially accurate here: 32 points
    per period, to 12 standard deviations, beyond which is exp(-72).
    """
    step = min(sigma, 2.0 * math.pi / frequency) / 32.0
    x = np.arange(-math.ceil(12.0 * sigma / step), math.ceil(12.0 * sigma / step) + 1) * step
    weight = np.exp(-0.5 * (x / sigma) ** 2 - np.cos(frequency * x))
    return float(weight @ x**2 / weight.sum())


def _draw_rough_well(
    ndim: int, sigma: float, frequency: float, rng: np.random.Generator, n: int
) -> Array:
    """Rejection from N(0, sigma^2): accept with probability exp(-cos(w x) - 1), about 0.47."""
    kept, missing = [], n * ndim
    while missing > 0:
        x = sigma * rng.standard_normal(2 * missing + 16)
        x = x[rng.random(x.size) < np.exp(-np.cos(frequency * x) - 1.0)][:missing]
        kept.append(x)
        missing -= x.size
    return np.concatenate(kept or [np.empty(0)]).reshape(n, ndim)


def rough_well(ndim: int = 2, period: float = 8.0, sigma: float = 100.0) -> Distribution:
    r"""The rough well: :math:`E(x) = \sum_j [x_j^2 / (2\sigma^2) + \cos(2 \pi x_j / period)]`.

    The paper's text has :math:`\cos(\pi x / 4)`, which is period 8 (the default); its released
    code has period 4. The variance is that of the smooth well, :math:`\sigma^2`, to within
    rounding when :math:`\sigma` is many periods; it is computed by quadrature.

    Parameters
    ----------
    ndim : int
    period : float
        Of the ripples.
    sigma : float
        Standard deviation of the well without ripples.
    """
    size, width = dimension(ndim), positive(sigma, "sigma")
    frequency = 2.0 * math.pi / positive(period, "period")
    return Distribution(
        name="rough_well",
        ndim=size,
        density=_rough_well_density,
        args=(np.array([width, frequency]),),
        mean=np.zeros(size),
        variance=np.full(size, _rough_well_variance(width, frequency)),
        draw=partial(_draw_rough_well, size, width, frequency),
    )
