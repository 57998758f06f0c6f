r"""The coordinates in which the process runs, where they are not those of the density.

With a reparametrisation (see `mjhmc_numba.coordinates.reparametrisation`) a rung holds z, and the
density is asked at

.. math:: x_j = l_j + e^{s_j} (z_j + t_j), \qquad \log\pi(z) = \log\pi(x) + \sum_j s_j,

for the children j. Their location l is linear in some other dimensions, the location parents, the
log scale s in features of others, the scale parents, and t in both. Coefficients lie one after the
other, each for all children, so that loops run over the children.
"""

import math

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.layout import CHILD_ROWS, row_of, vector_of

_children = vector_of("children")
_location_parents = vector_of("location_parents")
_scale_parents = vector_of("scale_parents")
_knots = row_of("knots")
_location_coefficients = row_of("location_coefficients")
_log_scale_coefficients = row_of("log_scale_coefficients")
_shift_coefficients = row_of("shift_coefficients")
_features = row_of("features")  # row 0; their slopes are row 1
_of_children = row_of("work", part="n_children")


@kernel_jit
def is_reparametrised(p):
    """Whether the process has coordinates of its own."""
    return p.n_children > 0


@kernel_jit
def _hinge(t):
    """A smooth max(0, t), and its slope."""
    root = math.sqrt(t * t + 1.0)
    return 0.5 * (t + root), 0.5 * (1.0 + t / root)


@kernel_jit
def _find_features(p, z):
    """Write the features of the scale parents, and their slopes."""
    parents, features, slopes = _scale_parents(p), _features(p, 0), _features(p, 1)
    for i in range(parents.size):
        knots = _knots(p, i)
        u, width = z[parents[i]], knots[3]
        at_low, slope_low = _hinge((u - knots[0]) / width)
        at_middle, slope_middle = _hinge((u - knots[1]) / width)
        at_high, slope_high = _hinge((u - knots[2]) / width)
        features[2 * i] = at_low - at_high
        features[2 * i + 1] = 2.0 * at_middle - at_low - at_high
        slopes[2 * i] = (slope_low - slope_high) / width
        slopes[2 * i + 1] = (2.0 * slope_middle - slope_low - slope_high) / width


@kernel_jit
def _add(out, factor, along):
    for i in range(out.size):
        out[i] += factor * along[i]


@kernel_jit
def _find_shape(p, z):
    """Location, scale and shift of the children at the parents of z, and the sum of log scales."""
    parents, features = _location_parents(p), _features(p, 0)
    location = _of_children(p, CHILD_ROWS[0])
    scale = _of_children(p, CHILD_ROWS[1])
    shift = _of_children(p, CHILD_ROWS[2])
    _find_features(p, z)
    for out, constant in (
        (location, _location_coefficients(p, 0)),
        (scale, _log_scale_coefficients(p, 0)),
        (shift, _shift_coefficients(p, 0)),
    ):
        for i in range(out.size):
            out[i] = constant[i]
    for q in range(parents.size):
        _add(location, z[parents[q]], _location_coefficients(p, 1 + q))
        _add(shift, z[parents[q]], _shift_coefficients(p, 1 + q))
    for q in range(features.size):
        _add(scale, features[q], _log_scale_coefficients(p, 1 + q))
        _add(shift, features[q], _shift_coefficients(p, 1 + parents.size + q))
    log_volume = 0.0
    for i in range(scale.size):
        log_volume += scale[i]
        scale[i] = math.exp(scale[i])
    return location, scale, shift, log_volume


@kernel_jit
def forward(p, z, x):
    """Write the density's coordinates of z to `x`; returns the log volume, the sum of s."""
    location, scale, shift, log_volume = _find_shape(p, z)
    children = _children(p)
    for j in range(z.size):
        x[j] = z[j]
    for i in range(children.size):
        x[children[i]] = location[i] + scale[i] * (z[children[i]] + shift[i])
    return log_volume


@kernel_jit
def inverse(p, x, z):
    """The inverse of `forward`."""
    location, scale, shift, log_volume = _find_shape(p, x)
    children = _children(p)
    for j in range(x.size):
        z[j] = x[j]
    for i in range(children.size):
        z[children[i]] = (x[children[i]] - location[i]) / scale[i] - shift[i]
    return log_volume


@kernel_jit
def _product(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel_jit
def pullback_gradient(p, z, grad):
    r"""Turn the gradient by x into that by z, in place; right after `forward` of this z.

    Children have :math:`\partial_{z_j} = e^{s_j} \partial_{x_j}`, and a parent u gets on top
    :math:`\sum_j \partial_{x_j} l_j'(u) + \partial_{z_j} t_j'(u)
    + (\partial_{z_j} (z_j + t_j) + 1) s_j'(u)`.
    """
    children, slopes = _children(p), _features(p, 1)
    location_parents, scale_parents = _location_parents(p), _scale_parents(p)
    by_location = _of_children(p, CHILD_ROWS[0])
    scale = _of_children(p, CHILD_ROWS[1])
    shift = _of_children(p, CHILD_ROWS[2])
    by_shift = _of_children(p, CHILD_ROWS[3])
    for i in range(children.size):
        by_location[i] = grad[children[i]]
        by_shift[i] = scale[i] * grad[children[i]]
        grad[children[i]] = by_shift[i]
        scale[i] = by_shift[i] * (z[children[i]] + shift[i]) + 1.0
    by_scale = scale
    for q in range(location_parents.size):
        parent = location_parents[q]
        grad[parent] += _product(_location_coefficients(p, 1 + q), by_location)
        grad[parent] += _product(_shift_coefficients(p, 1 + q), by_shift)
    for q in range(slopes.size):
        along = _product(_log_scale_coefficients(p, 1 + q), by_scale)
        along += _product(_shift_coefficients(p, 1 + location_parents.size + q), by_shift)
        grad[scale_parents[q // 2]] += slopes[q] * along
