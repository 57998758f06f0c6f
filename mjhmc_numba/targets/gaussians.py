"""Gaussians: round, badly scaled, correlated, and a mixture of two."""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from mjhmc_numba.targets.arguments import dimension, positive, vector
from mjhmc_numba.targets.distribution import Array, Distribution, compile_density

__all__ = [
    "correlated_gaussian",
    "gaussian",
    "log_gaussian",
    "multimodal_gaussian",
    "standard_normal",
]


@compile_density
def _gaussian_density(x, grad, mean, precision):
    r""":math:`-\frac12 \sum_j \tau_j (x_j - \mu_j)^2`."""
    logp = 0.0
    for j in range(x.size):
        deviation = x[j] - mean[j]
        grad[j] = -precision[j] * deviation
        logp += 0.5 * grad[j] * deviation
    return logp


def _draw_gaussian(mean: Array, sd: Array, rng: np.random.Generator, n: int) -> Array:
    return mean + sd * rng.standard_normal((n, mean.size))


def gaussian(sd: ArrayLike, mean: ArrayLike = 0.0, *, name: str = "gaussian") -> Distribution:
    """Gaussian of independent coordinates with the given standard deviations.

    Parameters
    ----------
    sd : array, shape (ndim,)
    mean : float or array, shape (ndim,)
    name : str
    """
    scale = np.atleast_1d(np.asarray(sd, dtype=np.float64))
    if scale.ndim != 1 or not np.all(np.isfinite(scale) & (scale > 0.0)):
        raise ValueError("sd must have shape (ndim,) and be positive and finite.")
    centre = vector(mean, scale.size, "mean")
    return Distribution(
        name=name,
        ndim=scale.size,
        density=_gaussian_density,
        args=(centre, scale**-2),
        mean=centre,
        variance=scale**2,
        draw=partial(_draw_gaussian, centre, scale),
    )


def standard_normal(ndim: int = 1) -> Distribution:
    """Independent standard normal coordinates.

    Parameters
    ----------
    ndim : int
    """
    return gaussian(np.ones(dimension(ndim)), name="standard_normal")


def log_gaussian(ndim: int = 2, log_conditioning: float = 6.0) -> Distribution:
    r"""The ill-conditioned Gaussian of the released code: log-spaced precisions.

    The precisions are spaced evenly in the logarithm from
    :math:`10^{-\mathrm{log\_conditioning}}` (standard deviation 1000 by default) to 1.

    Parameters
    ----------
    ndim : int
    log_conditioning : float
        Decimal logarithm of the largest precision over the smallest.
    """
    precision = np.logspace(-float(log_conditioning), 0.0, dimension(ndim))
    return gaussian(precision**-0.5, name="log_gaussian")


@compile_density
def _correlated_gaussian_density(x, grad, mean, precision):
    r""":math:`-\frac12 (x - \mu)^T \Lambda (x - \mu)`."""
    logp = 0.0
    for i in range(x.size):
        force = 0.0
        for j in range(x.size):
            force -= precision[i, j] * (x[j] - mean[j])
        grad[i] = force
        logp += 0.5 * force * (x[i] - mean[i])
    return logp


def _draw_correlated(mean: Array, root: Array, rng: np.random.Generator, n: int) -> Array:
    return mean + rng.standard_normal((n, mean.size)) @ root.T


def correlated_gaussian(cov: ArrayLike, mean: ArrayLike = 0.0) -> Distribution:
    """Gaussian with a full covariance matrix.

    Parameters
    ----------
    cov : array, shape (ndim, ndim)
        Symmetric and positive definite.
    mean : float or array, shape (ndim,)
    """
    covariance = np.array(cov, dtype=np.float64)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise ValueError(f"cov must be square, not of shape {covariance.shape}.")
    if not np.allclose(covariance, covariance.T, rtol=1e-10, atol=0.0):
        raise ValueError("cov must be symmetric.")
    try:
        root: Array = np.linalg.cholesky(covariance).astype(np.float64)
    except np.linalg.LinAlgError as error:
        raise ValueError("cov must be positive definite.") from error
    inverse_root = np.linalg.inv(root)
    centre = vector(mean, covariance.shape[0], "mean")
    return Distribution(
        name="correlated_gaussian",
        ndim=covariance.shape[0],
        density=_correlated_gaussian_density,
        args=(centre, inverse_root.T @ inverse_root),
        mean=centre,
        variance=np.diag(covariance).copy(),
        draw=partial(_draw_correlated, centre, root),
    )


@compile_density
def _two_gaussians_density(x, grad, centre, log_odds, precision):
    r"""Log of :math:`w e^{-\tau |x - c|^2 / 2} + (1 - w) e^{-\tau |x + c|^2 / 2}`."""
    square, along = 0.0, 0.0
    for j in range(x.size):
        square += x[j] * x[j] + centre[j] * centre[j]
        along += x[j] * centre[j]
    # Both exponents share `square`; what tells the modes apart is t, the log odds at x.
    t = 2.0 * precision[0] * along + log_odds[0]
    pull = math.tanh(0.5 * t)
    for j in range(x.size):
        grad[j] = precision[0] * (pull * centre[j] - x[j])
    return -0.5 * precision[0] * square + 0.5 * abs(t) + math.log1p(math.exp(-abs(t)))


def _draw_two_gaussians(
    centre: Array, weight: float, sd: float, rng: np.random.Generator, n: int
) -> Array:
    sign = np.where(rng.random(n) < weight, 1.0, -1.0)
    return sign[:, None] * centre + sd * rng.standard_normal((n, centre.size))


def multimodal_gaussian(
    ndim: int = 2, separation: float = 3.0, *, sd: float = 1.0, weight: float = 0.5
) -> Distribution:
    """Mixture of two round Gaussians at +separation and -separation along the first axis.

    The released code has standard deviation sqrt(1/2) and, since it adds its separation of 3
    twice, modes at +6 and -6: ``multimodal_gaussian(separation=6, sd=0.5**0.5)``, between which no
    sampler moves in practice.

    Parameters
    ----------
    ndim : int
    separation : float
        Half the distance between the modes.
    sd : float
        Standard deviation of each mode in every direction.
    weight : float
        Probability of the mode at +separation, in (0, 1).
    """
    if not 0.0 < weight < 1.0:
        raise ValueError(f"weight must lie strictly between 0 and 1, not {weight}.")
    centre = np.zeros(dimension(ndim))
    centre[0] = float(separation)
    scale = positive(sd, "sd")
    return Distribution(
        name="multimodal_gaussian",
        ndim=centre.size,
        density=_two_gaussians_density,
        args=(centre, np.array([math.log(weight / (1.0 - weight))]), np.array([scale**-2])),
        mean=(2.0 * weight - 1.0) * centre,
        variance=scale**2 + 4.0 * weight * (1.0 - weight) * centre**2,
        draw=partial(_draw_two_gaussians, centre, weight, scale),
    )
