"""Sparse coding of image patches."""

import math
from typing import Literal

import numpy as np

from mjhmc_numba.targets.arguments import dimension, positive
from mjhmc_numba.targets.distribution import Array, Distribution, compile_density

__all__ = ["sparse_image_code"]


@compile_density
def _reconstruction(x, grad, dictionary, patches, precision):
    r""":math:`-\frac\tau2 \sum_p |y_p - D a_p|^2`, where x is all the a_p in a row."""
    pixels, coefficients = dictionary.shape
    logp = 0.0
    grad[:] = 0.0
    for p in range(patches.shape[0]):
        start = p * coefficients
        for i in range(pixels):
            residual = patches[p, i]
            for c in range(coefficients):
                residual -= dictionary[i, c] * x[start + c]
            logp -= 0.5 * precision * residual * residual
            for c in range(coefficients):
                grad[start + c] += precision * residual * dictionary[i, c]
    return logp


@compile_density
def _cauchy_code_density(x, grad, dictionary, patches, precision_and_scale):
    r"""Reconstruction and a Cauchy prior :math:`-\log(1 + (a / s)^2)`."""
    scale = precision_and_scale[1]
    logp = _reconstruction(x, grad, dictionary, patches, precision_and_scale[0])
    for j in range(x.size):
        ratio = x[j] / scale
        logp -= math.log1p(ratio * ratio)
        grad[j] -= 2.0 * ratio / (scale * (1.0 + ratio * ratio))
    return logp


@compile_density
def _laplace_code_density(x, grad, dictionary, patches, precision_and_scale):
    r"""Reconstruction and a Laplace prior without its kink, :math:`-\sqrt{(a/s)^2 + \delta^2}`."""
    scale, delta = precision_and_scale[1], precision_and_scale[2]
    logp = _reconstruction(x, grad, dictionary, patches, precision_and_scale[0])
    for j in range(x.size):
        ratio = x[j] / scale
        length = math.sqrt(ratio * ratio + delta * delta)
        logp -= length
        grad[j] -= ratio / (scale * length)
    return logp


def _gabor_dictionary(patch_size: int, atoms: int, rng: np.random.Generator) -> Array:
    """Random oriented wavelets of mean 0 and length 1, shape (patch_size^2, atoms)."""
    axis = np.linspace(-1.0, 1.0, patch_size)
    px, py = (grid.ravel()[:, None] for grid in np.meshgrid(axis, axis))
    cx, cy = rng.uniform(-0.7, 0.7, (2, atoms))
    angle, phase = rng.uniform(0.0, math.pi, (2, atoms))
    width, cycles = rng.uniform(0.3, 0.7, atoms), rng.uniform(0.5, 1.5, atoms)
    along = (px - cx) * np.cos(angle) + (py - cy) * np.sin(angle)
    distance = (px - cx) ** 2 + (py - cy) ** 2
    wavelets = np.exp(-0.5 * distance / width**2) * np.cos(math.pi * cycles * along + phase)
    wavelets -= wavelets.mean(axis=0)
    return np.ascontiguousarray(wavelets / np.linalg.norm(wavelets, axis=0))


def _sparse_patches(dictionary: Array, count: int, noise: float, rng: np.random.Generator) -> Array:
    """Patches of which each uses about one atom in ten, plus noise."""
    atoms = dictionary.shape[1]
    codes = 2.0 * rng.standard_normal((count, atoms)) * (rng.random((count, atoms)) < 0.1)
    return codes @ dictionary.T + noise * rng.standard_normal((count, dictionary.shape[0]))


def sparse_image_code(
    patches: int = 1,
    patch_size: int = 6,
    *,
    overcomplete: int = 2,
    prior: Literal["cauchy", "laplace"] = "cauchy",
    scale: float = 0.5,
    noise: float = 0.2,
    seed: int = 0,
) -> Distribution:
    r"""Posterior of the coefficients of a sparse code of image patches.

    A patch is :math:`y = D a + \text{noise} \cdot n`, with a dictionary D of more atoms than
    pixels and independent sparse priors on a. Dictionary (oriented wavelets) and patches are
    generated from the seed.

    The prior is proper, hence so is the posterior: Cauchy, or Laplace rounded at 0 so that it has
    a gradient. (The released code weighs a Cauchy penalty by 0.01. On the null space of its
    four times overcomplete dictionary that falls off too slowly to be integrated.) Neither moments
    nor exact draws are known.

    Parameters
    ----------
    patches : int
        How many are coded at once; they are independent. There are
        ``patches * overcomplete * patch_size**2`` coefficients.
    patch_size : int
        Pixels along a side.
    overcomplete : int
        Atoms per pixel.
    prior : {"cauchy", "laplace"}
    scale : float
        Of the prior.
    noise : float
        Standard deviation of the noise in a pixel.
    seed : int
    """
    densities = {"cauchy": _cauchy_code_density, "laplace": _laplace_code_density}
    if prior not in densities:
        raise ValueError(f"prior must be one of {sorted(densities)}, not {prior!r}.")
    count = dimension(patches, name="patches")
    side = dimension(patch_size, least=2, name="patch_size")
    atoms = dimension(overcomplete, name="overcomplete") * side**2
    sd = positive(noise, "noise")
    rng = np.random.default_rng(seed)
    dictionary = _gabor_dictionary(side, atoms, rng)
    images = _sparse_patches(dictionary, count, sd, rng)
    return Distribution(
        name=f"sparse_image_code_{prior}",
        ndim=count * atoms,
        density=densities[prior],
        # The last number rounds the Laplace prior's kink over a tenth of its scale.
        args=(dictionary, images, np.array([sd**-2, positive(scale, "scale"), 0.1])),
    )
