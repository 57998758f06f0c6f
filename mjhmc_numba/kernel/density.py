"""The one way in which the kernel calls a log density: a C function behind an address.

    int64 density(double *x, double *grad, double *logp, int64 *table)

It writes the log density and its gradient and returns 0 (fine), 1 (it raised: stop) or
2 (not finite here). The kernel is compiled once, whatever the density.
"""

import math

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.layout import ASKED_ROW, LOGP_ROW, scratch
from mjhmc_numba.kernel.reparametrisation import forward, is_reparametrised, pullback_gradient

FINE, RAISED, NOT_FINITE = 0, 1, 2


@intrinsic
def call_density(typingctx, address, x, grad, logp, table):
    """Call the density at `address`; all arguments are addresses."""

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        pointer = builder.inttoptr(args[0], ir.FunctionType(word, [word] * 4).as_pointer())
        return builder.call(pointer, list(args[1:]))

    word = types.int64
    return word(word, word, word, word, word), codegen


@kernel_jit
def write_position(p, x, out):
    """Write where the density is asked at x to `out`; returns log density at x less that there."""
    if is_reparametrised(p):
        return forward(p, x, out)
    for j in range(x.size):
        out[j] = x[j]
    return 0.0


@kernel_jit
def evaluate(p, x, grad):
    """Log density at x, in the coordinates of the process; writes its gradient and counts it.

    Returns (raised, logp), where logp is -inf if it is not finite.
    """
    out, at, log_volume = scratch(p, LOGP_ROW), x, 0.0
    if is_reparametrised(p):
        at = scratch(p, ASKED_ROW)
        log_volume = forward(p, x, at)
    code = call_density(p.density, at.ctypes.data, grad.ctypes.data, out.ctypes.data, p.table)
    p.n_steps += 1
    p.all_gradients += 1
    if code == RAISED:
        write_position(p, x, scratch(p, ASKED_ROW))
        return True, -math.inf
    if code != FINE or not math.isfinite(out[0]):
        return False, -math.inf
    if is_reparametrised(p):
        pullback_gradient(p, x, grad)
    return False, out[0] + log_volume
