r"""The kinetic energy: momentum draws, velocity, kinetic energy.

The inverse mass is :math:`M^{-1} = S (I + U^\top \mathrm{diag}(\lambda - 1) U) S`, a diagonal
scale S and a few orthonormal directions U in which the scaled target is longer or shorter by
:math:`\sqrt\lambda`. Its cost is linear in the dimension. No directions make it diagonal, as
many as there are dimensions make it dense.

Powers of it have the same shape, :math:`A(f) = S^2 + W^\top \mathrm{diag}(f) W` with W = U S:

.. math:: M^{-1} = A(\lambda - 1), \quad M^{1/2} = S^{-2} A(\lambda^{-1/2} - 1) S^{-1}, \quad
          M = S^{-2} A(\lambda^{-1} - 1) S^{-2},

so W is what Python hands over.
"""

import math

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.layout import (
    MOMENTUM_ROW,
    POINT_ROWS,
    keeps_velocity,
    random_stream,
    row_of,
    scratch,
    vector_of,
)
from mjhmc_numba.kernel.random import fill_normal

scale_of, centre_of = vector_of("scale"), vector_of("centre")
_direction = row_of("directions")
_inverse_mass_factors = vector_of("inverse_mass_factors")
_root_mass_factors = vector_of("root_mass_factors")
_mass_factors = vector_of("mass_factors")

# So many rows of W are read at once; rows of zeros complete the last ones. In 500 dimensions, six
# directions take 3.7, 1.8, 1.2 and 1.5 us with 1, 4, 6 and 8 rows, twelve 7.3, 2.7, 2.2 and 2.8.
ROWS_AT_ONCE = 6


@kernel_jit
def _apply_factors(p, factors, z, out):
    r"""Write :math:`A(factors) z` to `out`, which is not z."""
    scale = scale_of(p)
    if p.rank == 0:
        for j in range(z.size):
            out[j] = scale[j] * scale[j] * z[j]
    for r in range(0, p.rank, ROWS_AT_ONCE):
        w0, w1 = _direction(p, r), _direction(p, r + 1)
        w2, w3 = _direction(p, r + 2), _direction(p, r + 3)
        w4, w5 = _direction(p, r + 4), _direction(p, r + 5)
        a0, a1, a2, a3, a4, a5 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(z.size):
            a0 += w0[j] * z[j]
            a1 += w1[j] * z[j]
            a2 += w2[j] * z[j]
            a3 += w3[j] * z[j]
            a4 += w4[j] * z[j]
            a5 += w5[j] * z[j]
        a0, a1, a2 = factors[r] * a0, factors[r + 1] * a1, factors[r + 2] * a2
        a3, a4, a5 = factors[r + 3] * a3, factors[r + 4] * a4, factors[r + 5] * a5
        if r == 0:  # the diagonal comes along, which saves a pass over `out`
            for j in range(z.size):
                along = a0 * w0[j] + a1 * w1[j] + a2 * w2[j] + a3 * w3[j] + a4 * w4[j] + a5 * w5[j]
                out[j] = scale[j] * scale[j] * z[j] + along
        else:
            for j in range(z.size):
                along = a0 * w0[j] + a1 * w1[j] + a2 * w2[j] + a3 * w3[j] + a4 * w4[j] + a5 * w5[j]
                out[j] += along


@kernel_jit
def apply_inverse_mass(p, v, out):
    r"""Write :math:`M^{-1} v` to `out`, which is not v."""
    _apply_factors(p, _inverse_mass_factors(p), v, out)


@kernel_jit
def pull_to_centre(p, x, out):
    r"""Write :math:`M (x - m)` to `out`: minus the gradient of the Gaussian that M describes.

    `MOMENTUM_ROW` of the scratch memory is used.
    """
    scale, centre, z = scale_of(p), centre_of(p), scratch(p, MOMENTUM_ROW)
    for j in range(x.size):
        z[j] = (x[j] - centre[j]) / (scale[j] * scale[j])
    _apply_factors(p, _mass_factors(p), z, out)
    for j in range(x.size):
        out[j] /= scale[j] * scale[j]


@kernel_jit
def kinetic_energy(p, v, velocity):
    r""":math:`\tfrac12 v^\top M^{-1} v`; the velocity is read only where points have one."""
    total = 0.0
    if p.rank == 0:
        scale = scale_of(p)
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
    :math:`\tfrac12 |n|^2`. `MOMENTUM_ROW` of the scratch memory is used.
    """
    scale = scale_of(p)
    z = scratch(p, MOMENTUM_ROW) if p.rank > 0 else v
    fill_normal(random_stream(p), z)
    total = 0.0
    for j in range(z.size):
        total += z[j] * z[j]
        z[j] /= scale[j]
    if p.rank > 0:
        _apply_factors(p, _root_mass_factors(p), z, v)
        for j in range(v.size):
            v[j] /= scale[j] * scale[j]
    if keeps_velocity(p):
        apply_inverse_mass(p, v, velocity)
    return 0.5 * total


@kernel_jit
def refresh_momentum(p, alpha, v, velocity):
    r"""R: :math:`v \leftarrow \alpha v + \sqrt{1 - \alpha^2}\, n` with :math:`n \sim N(0, M)`.

    alpha = 0 is the paper's full refresh. The velocity follows; the scratch memory of a
    point is used. Returns the new kinetic energy.
    """
    if alpha == 0.0:
        return draw_momentum(p, v, velocity)
    drawn, drawn_velocity = scratch(p, POINT_ROWS[0]), scratch(p, POINT_ROWS[1])
    draw_momentum(p, drawn, drawn_velocity)
    fresh = math.sqrt(1.0 - alpha * alpha)
    for j in range(v.size):
        v[j] = alpha * v[j] + fresh * drawn[j]
    if keeps_velocity(p):
        for j in range(v.size):
            velocity[j] = alpha * velocity[j] + fresh * drawn_velocity[j]
    return kinetic_energy(p, v, velocity)
