r"""The kinetic energy: momentum draws, velocity, kinetic energy.

The inverse mass is :math:`M^{-1} = S (I + U^\top \mathrm{diag}(\lambda - 1) U) S`, a diagonal
scale S and a few orthonormal directions U in which the scaled target is longer or shorter by
:math:`\sqrt\lambda`. Its cost is linear in the dimension. No directions make it diagonal, as
many as there are dimensions make it dense.
"""

import math

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.layout import random_stream, row, vector
from mjhmc_numba.kernel.random import fill_normal


@kernel_jit
def _stretch_along(p, factors, z):
    r"""In place :math:`z \leftarrow (I + U^\top \mathrm{diag}(factors) U) z`.

    The rows of U are orthonormal, so one after the other is the same as all at once.
    """
    for r in range(p.rank):
        direction = row(p.directions, p, r)
        along = 0.0
        for j in range(z.size):
            along += direction[j] * z[j]
        along *= factors[r]
        for j in range(z.size):
            z[j] += along * direction[j]


@kernel_jit
def velocity(p, v, out):
    r"""Write :math:`M^{-1} v` to `out`."""
    scale = vector(p.scale, p.ndim)
    for j in range(v.size):
        out[j] = scale[j] * v[j]
    _stretch_along(p, vector(p.stretch, p.rank), out)
    for j in range(v.size):
        out[j] *= scale[j]


@kernel_jit
def pull_to_centre(p, x, out):
    r"""Write :math:`M (x - m)` to `out`: minus the gradient of the Gaussian N(m, :math:`M^{-1}`)."""
    scale, centre = vector(p.scale, p.ndim), vector(p.centre, p.ndim)
    for j in range(x.size):
        out[j] = (x[j] - centre[j]) / scale[j]
    _stretch_along(p, vector(p.shrink, p.rank), out)
    for j in range(x.size):
        out[j] /= scale[j]


@kernel_jit
def kinetic_energy(p, v, work):
    r""":math:`\tfrac12 v^\top M^{-1} v`."""
    total = 0.0
    if p.rank == 0:
        scale = vector(p.scale, p.ndim)
        for j in range(v.size):
            total += (scale[j] * v[j]) ** 2
    else:
        velocity(p, v, work)
        for j in range(v.size):
            total += v[j] * work[j]
    return 0.5 * total


@kernel_jit
def draw_momentum(p, out):
    r"""Write a draw of :math:`N(0, M)` to `out`."""
    scale = vector(p.scale, p.ndim)
    fill_normal(random_stream(p), out)
    _stretch_along(p, vector(p.root, p.rank), out)
    for j in range(out.size):
        out[j] /= scale[j]


@kernel_jit
def refresh_momentum(p, alpha, v, work):
    r"""R: :math:`v \leftarrow \alpha v + \sqrt{1 - \alpha^2}\, n` with :math:`n \sim N(0, M)`.

    alpha = 0 is the paper's full refresh.
    """
    draw_momentum(p, work)
    fresh = math.sqrt(1.0 - alpha * alpha)
    for j in range(v.size):
        v[j] = alpha * v[j] + fresh * work[j]
