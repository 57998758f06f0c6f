"""Products of Student t experts."""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from mjhmc_numba.targets.arguments import dimension, vector
from mjhmc_numba.targets.distribution import Array, Distribution, Draw, compile_density

__all__ = ["product_of_experts", "product_of_t"]


@compile_density
def _product_density(x, grad, filters, alpha):
    r""":math:`-\sum_e \alpha_e \log(1 + (w_e \cdot x)^2)`."""
    logp = 0.0
    grad[:] = 0.0
    for e in range(alpha.size):
        response = 0.0
        for j in range(x.size):
            response += filters[e, j] * x[j]
        square = response * response
        logp -= alpha[e] * math.log1p(square)
        pull = -2.0 * alpha[e] * response / (1.0 + square)
        for j in range(x.size):
            grad[j] += pull * filters[e, j]
    return logp


def _draw_product(unmix: Array, nu: Array, rng: np.random.Generator, n: int) -> Array:
    # (1 + y^2)^-(nu + 1)/2 is the density of t_nu / sqrt(nu).
    return (rng.standard_t(nu, size=(n, nu.size)) / np.sqrt(nu)) @ unmix.T


def _product(name: str, filters: Array, alpha: Array) -> Distribution:
    """Product of t experts, checked to be a distribution, with what is known of it."""
    ndim = filters.shape[1]
    _check_integrable(filters, alpha)
    nu = 2.0 * alpha - 1.0
    variance: Array | None = None
    draw: Draw | None = None
    if filters.shape[0] == ndim:
        unmix: Array = np.linalg.inv(filters).astype(np.float64)
        draw = partial(_draw_product, unmix, nu)
        if np.all(nu > 2.0):
            # t_nu / sqrt(nu) has variance 1 / (nu - 2).
            variance = unmix**2 @ (1.0 / (nu - 2.0))
    has_mean = np.linalg.matrix_rank(filters[nu > 1.0]) == ndim
    return Distribution(
        name=name,
        ndim=ndim,
        density=_product_density,
        args=(filters, alpha),
        mean=np.zeros(ndim) if has_mean else None,
        variance=variance,
        draw=draw,
    )


def _check_integrable(filters: Array, alpha: Array) -> None:
    r"""Refuse experts whose product cannot be normalised.

    If the filters of the experts with :math:`\alpha_e > 1/2` span the space, take ndim independent
    ones of them. The other factors are at most 1, and in the coordinates
    :math:`y_e = w_e \cdot x` what is left is a product of integrable functions
    :math:`(1 + y_e^2)^{-\alpha_e}`: the density is integrable. In the same way it has a mean
    if those with :math:`\alpha_e > 1` span the space, and a variance with :math:`3/2`.
    """
    if filters.ndim != 2 or alpha.shape != filters.shape[:1]:
        raise ValueError(
            f"filters must have shape (experts, ndim) and alpha (experts,), not {filters.shape} "
            f"and {alpha.shape}."
        )
    if not (np.all(np.isfinite(filters)) and np.all(np.isfinite(alpha) & (alpha > 0.0))):
        raise ValueError("filters must be finite; alpha finite and positive.")
    heavy = alpha > 0.5
    if not heavy.any() or np.linalg.matrix_rank(filters[heavy]) < filters.shape[1]:
        raise ValueError(
            "the filters of experts with alpha > 1/2 do not span the space, so nothing says that "
            "the density can be normalised."
        )


def product_of_experts(ndim: int = 36, experts: int = 72, *, seed: int = 0) -> Distribution:
    r"""Student t experts on image patches: :math:`E = \sum_e \alpha_e \log(1 + (w_e \cdot x)^2)`.

    By default 72 experts on patches of 6 x 6, as in the paper (in a comment of its LaTeX source):
    filters with a quarter of their entries active, drawn uniformly with mean 0. There
    :math:`\alpha` is "chosen from a random normal distribution", so that half of the experts would
    repel and the product would in general not be a distribution. Here
    :math:`\alpha_e = 3/2 + |n_e|` with standard normal :math:`n_e`: every expert is a t of more
    than two degrees of freedom, and since the filters span the space (which is checked) the
    product is proper with finite variances.

    By symmetry the mean is 0. The variances are not known, and there are no exact draws, unless
    there are as many experts as dimensions.

    Parameters
    ----------
    ndim, experts : int
    seed : int
        Of the filters and the alphas.
    """
    size, count = dimension(ndim), dimension(experts, name="experts")
    rng = np.random.default_rng(seed)
    filters = rng.uniform(-1.0, 1.0, (count, size))
    active = max(1, round(0.25 * size))
    # Exactly `active` entries of each filter stay: those of the lowest random keys.
    order = np.argsort(rng.random((count, size)), axis=1)
    np.put_along_axis(filters, order[:, active:], 0.0, axis=1)
    alpha = 1.5 + np.abs(rng.standard_normal(count))
    return _product("product_of_experts", filters, alpha)


def product_of_t(
    ndim: int = 36,
    *,
    nu: ArrayLike | None = None,
    filters: ArrayLike | None = None,
    seed: int = 0,
) -> Distribution:
    r"""The released code's product of t: as many experts as dimensions, exact draws.

    :math:`E = \sum_e \frac{\nu_e + 1}2 \log(1 + (w_e \cdot x / \nu_e)^2)`. By default W is the
    identity and the :math:`\nu_e` are uniform in (2.1, 4.1), as there.

    Parameters
    ----------
    ndim : int
    nu : float or array, shape (ndim,), optional
        Degrees of freedom.
    filters : array, shape (ndim, ndim), optional
        The rows w_e; invertible.
    seed : int
        Of the default nu.
    """
    size = dimension(ndim)
    if nu is None:
        degrees = np.random.default_rng(seed).uniform(2.1, 4.1, size)
    else:
        degrees = vector(nu, size, "nu")
    if np.any(degrees <= 0.0):
        raise ValueError("nu must be positive.")
    rows = np.eye(size) if filters is None else np.array(filters, dtype=np.float64)
    if rows.shape != (size, size):
        raise ValueError(f"filters must have shape ({size}, {size}), not {rows.shape}.")
    return _product("product_of_t", rows / degrees[:, None], 0.5 * (degrees + 1.0))
