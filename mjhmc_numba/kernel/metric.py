r"""The kinetic energy: momentum draws, velocity, kinetic energy.

The inverse mass is :math:`M^{-1} = S (I + U^\top \mathrm{diag}(\lambda - 1) U) S`, a diagonal
scale S and a few orthonormal directions U in which the scaled target is longer or shorter by
:math:`\sqrt\lambda`. Its cost is linear in the dimension. No directions make it diagonal, as
many as there are dimensions make it dense.
"""

import math

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.layout import keeps_velocity, random_stream, row, scratch, vector
from mjhmc_numba.kernel.random import fill_normal


@kernel_jit
def _stretch_along(p, factors, z):
    r"""In place :math:`z \leftarrow (I + U^\top \mathrm{diag}(factors) U) z`.

    The rows of U are orthonormal, so some after the others is the same as all at once; four in
    one pass over z are faster than one.
    """
    whole = p.rank - p.rank % 4
    for r in range(0, whole, 4):
        u0, u1 = row(p.directions, p, r), row(p.directions, p, r + 1)
        u2, u3 = row(p.directions, p, r + 2), row(p.directions, p, r + 3)
        a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
        for j in range(z.size):
            a0 += u0[j] * z[j]
            a1 += u1[j] * z[j]
            a2 += u2[j] * z[j]
            a3 += u3[j] * z[j]
        a0 *= factors[r]
        a1 *= factors[r + 1]
        a2 *= factors[r + 2]
        a3 *= factors[r + 3]
        for j in range(z.size):
            z[j] += a0 * u0[j] + a1 * u1[j] + a2 * u2[j] + a3 * u3[j]
    for r in range(whole, p.rank):
        direction = row(p.directions, p, r)
        along = 0.0
        for j in range(z.size):
            along += direction[j] * z[j]
        along *= factors[r]
        for j in range(z.size):
            z[j] += along * direction[j]


@kernel_jit
def apply_inverse_mass(p, v, out):
    r"""Write :math:`M^{-1} v` to `out`."""
    scale = vector(p.scale, p.ndim)
    for j in range(v.size):
        out[j] = scale[j] * v[j]
    _stretch_along(p, vector(p.stretch, p.rank), out)
    for j in range(v.size):
        out[j] *= scale[j]


@kernel_jit
def pull_to_centre(p, x, out):
    r"""Write :math:`M (x - m)` to `out`: minus the gradient of the Gaussian that M describes."""
    scale, centre = vector(p.scale, p.ndim), vector(p.centre, p.ndim)
    for j in range(x.size):
        out[j] = (x[j] - centre[j]) / scale[j]
    _stretch_along(p, vector(p.shrink, p.rank), out)
    for j in range(x.size):
        out[j] /= scale[j]


@kernel_jit
def kinetic_energy(p, v, velocity):
    r""":math:`\tfrac12 v^\top M^{-1} v`; the velocity is read only where points have one."""
    total = 0.0
    if p.rank == 0:
        scale = vector(p.scale, p.ndim)
        for j in range(v.size):
            total += (scale[j] * v[j]) ** 2
    else:
        for j in range(v.size):
            total += v[j] * velocity[j]
    return 0.5 * total


@kernel_jit
def draw_momentum(p, v, velocity):
    r"""Write a draw of :math:`N(0, M)` to `v`, with its velocity; returns its kinetic energy.

    The draw is :math:`M^{1/2} n` with :math:`n \sim N(0, I)`, so that energy is
    :math:`\tfrac12 |n|^2`.
    """
    scale = vector(p.scale, p.ndim)
    fill_normal(random_stream(p), v)
    total = 0.0
    for j in range(v.size):
        total += v[j] * v[j]
    _stretch_along(p, vector(p.root, p.rank), v)
    for j in range(v.size):
        v[j] /= scale[j]
    if keeps_velocity(p):
        apply_inverse_mass(p, v, velocity)
    return 0.5 * total


@kernel_jit
def refresh_momentum(p, alpha, v, velocity):
    r"""R: :math:`v \leftarrow \alpha v + \sqrt{1 - \alpha^2}\, n` with :math:`n \sim N(0, M)`.

    alpha = 0 is the paper's full refresh. The velocity follows; rows 1 and 2 of the scratch memory
    are used. Returns the new kinetic energy.
    """
    if alpha == 0.0:
        return draw_momentum(p, v, velocity)
    drawn, drawn_velocity = scratch(p, 1), scratch(p, 2)
    draw_momentum(p, drawn, drawn_velocity)
    fresh = math.sqrt(1.0 - alpha * alpha)
    for j in range(v.size):
        v[j] = alpha * v[j] + fresh * drawn[j]
    if keeps_velocity(p):
        for j in range(v.size):
            velocity[j] = alpha * velocity[j] + fresh * drawn_velocity[j]
    return kinetic_energy(p, v, velocity)
