r"""Balancing functions and jump rates, in the log domain.

A rung of the ladder has energy :math:`H_i`, so :math:`\pi_i \propto e^{-H_i}`. A balancing
function obeys :math:`g(t) = t\,g(1/t)`; it gives every edge between neighbouring rungs the flow
:math:`f = \pi_i\,g(\pi_j / \pi_i)`, the same from both ends. The rates out of a state are

.. math::
    \Gamma_L &= g(\pi_{ahead} / \pi), \\
    \Gamma_F &= \max[0,\; g(\pi_{behind} / \pi) - g(\pi_{ahead} / \pi)],

which for :math:`g(t) = \sqrt t` is the paper's equation (MJHMC). Only differences of energies
are exponentiated, and the larger part has been taken out before.
"""

import math

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mjhmc_numba.kernel.compilation import kernel_jit

# Codes of the balancing functions.
SQRT, METROPOLIS, BARKER, CUSTOM = 0, 1, 2, 3

# exp(700) is the largest round power below the largest double. A rate beyond it is a state that
# is left at once; capped, sums and differences of rates stay finite.
LARGEST_LOG_RATE = 700.0


@intrinsic
def call_balancing(typingctx, address, t):
    """Call the C function ``double g(double)`` at `address`."""

    def codegen(context, builder, signature, args):
        double = ir.DoubleType()
        pointer = builder.inttoptr(args[0], ir.FunctionType(double, [double]).as_pointer())
        return builder.call(pointer, [args[1]])

    return types.float64(types.int64, types.float64), codegen


@kernel_jit
def balancing(kind, log_ratio, g_address):
    r"""The balancing function :math:`g(t)` at :math:`\log t` = `log_ratio`.

    A custom g is only ever asked for t in [0, 1]; above, :math:`g(t) = t\,g(1/t)`.
    """
    if math.isnan(log_ratio) or log_ratio == -math.inf:
        return 0.0
    if kind == SQRT:
        return math.exp(min(0.5 * log_ratio, LARGEST_LOG_RATE))
    if kind == METROPOLIS:
        return math.exp(min(log_ratio, 0.0))
    if kind == BARKER:
        if log_ratio > 0.0:
            return 2.0 / (1.0 + math.exp(-log_ratio))
        t = math.exp(log_ratio)
        return 2.0 * t / (1.0 + t)
    if log_ratio <= 0.0:
        return call_balancing(g_address, math.exp(log_ratio))
    log_ratio = min(log_ratio, LARGEST_LOG_RATE)  # 1/t must not vanish
    g_inverse = call_balancing(g_address, math.exp(-log_ratio))
    if g_inverse <= 0.0:
        return 0.0
    return math.exp(min(log_ratio + math.log(g_inverse), LARGEST_LOG_RATE))


@kernel_jit
def log_probability_ratio(energy_from, energy_to):
    r""":math:`\log(\pi_{to} / \pi_{from})`, where a non-finite energy means probability 0."""
    if not math.isfinite(energy_to):
        return -math.inf
    if not math.isfinite(energy_from):
        return math.inf
    return energy_from - energy_to


@kernel_jit
def flip_rate(g_ahead, g_behind):
    r""":math:`\Gamma_F`, the flow that is left after opposing flips have cancelled."""
    return max(0.0, g_behind - g_ahead)


@kernel_jit
def jump_rates(kind, energy, energy_ahead, energy_behind, g_address):
    """Rates (rate_L, rate_F) out of a state with the given energies ahead and behind."""
    rate_L = balancing(kind, log_probability_ratio(energy, energy_ahead), g_address)
    g_behind = balancing(kind, log_probability_ratio(energy, energy_behind), g_address)
    return rate_L, flip_rate(rate_L, g_behind)
