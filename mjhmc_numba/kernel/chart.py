r"""The coordinates in which the process runs, where they are not those of the density.

With a chart (see `mjhmc_numba.chart`) a rung holds z, and the density is asked at

.. math:: x_j = l_j + e^{s_j} (z_j + t_j), \qquad \log\pi(z) = \log\pi(x) + \sum_j s_j,

where l is linear in some other dimensions, the movers, s in features of others, the scalers, and t
in both. Coefficients lie one after the other, each for all rows j, so that loops run over the rows.
"""

import math

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.layout import indices, row_width, vector


@kernel_jit
def has_chart(p):
    """Whether the process has coordinates of its own."""
    return p.chart_rows > 0


@kernel_jit
def _hinge(t):
    """A smooth max(0, t), and its slope."""
    root = math.sqrt(t * t + 1.0)
    return 0.5 * (t + root), 0.5 * (1.0 + t / root)


@kernel_jit
def _find_features(p, z):
    """Write the features of the scalers, and after them their slopes."""
    k = p.chart_scalers
    scalers = indices(p.chart_scaler, k)
    features = vector(p.chart_features, 4 * k)
    for i in range(k):
        knots = vector(p.chart_knots + 32 * i, 4)
        u, width = z[scalers[i]], knots[3]
        at_low, slope_low = _hinge((u - knots[0]) / width)
        at_middle, slope_middle = _hinge((u - knots[1]) / width)
        at_high, slope_high = _hinge((u - knots[2]) / width)
        features[2 * i] = at_low - at_high
        features[2 * i + 1] = 2.0 * at_middle - at_low - at_high
        features[2 * (k + i)] = (slope_low - slope_high) / width
        features[2 * (k + i) + 1] = (2.0 * slope_middle - slope_low - slope_high) / width


@kernel_jit
def _coefficients(p, address, q):
    """Those of number q, 0 being the constant, for all rows."""
    return vector(address + 8 * p.chart_rows * q, p.chart_rows)


@kernel_jit
def _add(out, factor, along):
    for i in range(out.size):
        out[i] += factor * along[i]


@kernel_jit
def _rows_of_scratch(p, i):
    """A number for each row, in the scratch memory."""
    return vector(p.work + 8 * row_width(p.ndim) * i, p.chart_rows)


@kernel_jit
def _find_shape(p, z):
    """Location, scale and shift of the rows at the drivers of z, and the sum of log scales."""
    movers, n = indices(p.chart_mover, p.chart_movers), 2 * p.chart_scalers
    features = vector(p.chart_features, n)
    location, scale, shift = _rows_of_scratch(p, 8), _rows_of_scratch(p, 9), _rows_of_scratch(p, 10)
    _find_features(p, z)
    for out, address in (
        (location, p.chart_location),
        (scale, p.chart_log_scale),
        (shift, p.chart_shift),
    ):
        constant = _coefficients(p, address, 0)
        for i in range(out.size):
            out[i] = constant[i]
    for q in range(movers.size):
        _add(location, z[movers[q]], _coefficients(p, p.chart_location, 1 + q))
        _add(shift, z[movers[q]], _coefficients(p, p.chart_shift, 1 + q))
    for q in range(n):
        _add(scale, features[q], _coefficients(p, p.chart_log_scale, 1 + q))
        _add(shift, features[q], _coefficients(p, p.chart_shift, 1 + movers.size + q))
    log_volume = 0.0
    for i in range(scale.size):
        log_volume += scale[i]
        scale[i] = math.exp(scale[i])
    return location, scale, shift, log_volume


@kernel_jit
def to_density(p, z, x):
    """Write the density's coordinates of z to `x`; returns the log volume, the sum of s."""
    location, scale, shift, log_volume = _find_shape(p, z)
    rows = indices(p.chart_row, p.chart_rows)
    for j in range(z.size):
        x[j] = z[j]
    for i in range(rows.size):
        x[rows[i]] = location[i] + scale[i] * (z[rows[i]] + shift[i])
    return log_volume


@kernel_jit
def from_density(p, x, z):
    """The inverse of `to_density`."""
    location, scale, shift, log_volume = _find_shape(p, x)
    rows = indices(p.chart_row, p.chart_rows)
    for j in range(x.size):
        z[j] = x[j]
    for i in range(rows.size):
        z[rows[i]] = (x[rows[i]] - location[i]) / scale[i] - shift[i]
    return log_volume


@kernel_jit
def _product(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel_jit
def pull_gradient(p, z, grad):
    r"""Turn the gradient by x into that by z, in place; right after `to_density` of this z.

    Rows have :math:`\partial_{z_j} = e^{s_j} \partial_{x_j}`, and a driver u gets on top
    :math:`\sum_j \partial_{x_j} l_j'(u) + \partial_{z_j} t_j'(u)
    + (\partial_{z_j} (z_j + t_j) + 1) s_j'(u)`.
    """
    rows, n = indices(p.chart_row, p.chart_rows), 2 * p.chart_scalers
    movers, scalers = (
        indices(p.chart_mover, p.chart_movers),
        indices(p.chart_scaler, p.chart_scalers),
    )
    slopes = vector(p.chart_features + 8 * n, n)
    by_location, scale, shift = (
        _rows_of_scratch(p, 8),
        _rows_of_scratch(p, 9),
        _rows_of_scratch(p, 10),
    )
    by_shift = _rows_of_scratch(p, 11)
    for i in range(rows.size):
        by_location[i] = grad[rows[i]]
        by_shift[i] = scale[i] * grad[rows[i]]
        grad[rows[i]] = by_shift[i]
        scale[i] = by_shift[i] * (z[rows[i]] + shift[i]) + 1.0
    by_scale = scale
    for q in range(movers.size):
        grad[movers[q]] += _product(_coefficients(p, p.chart_location, 1 + q), by_location)
        grad[movers[q]] += _product(_coefficients(p, p.chart_shift, 1 + q), by_shift)
    for q in range(n):
        along = _product(_coefficients(p, p.chart_log_scale, 1 + q), by_scale)
        along += _product(_coefficients(p, p.chart_shift, 1 + movers.size + q), by_shift)
        grad[scalers[q // 2]] += slopes[q] * along
