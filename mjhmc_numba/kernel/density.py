"""The one way in which the kernel calls a log density: a C function behind an address.

    int64 density(double *x, double *grad, double *logp, entry *table)

It writes the gradient and the log density and returns SUCCESS, NOT_FINITE (the density is zero or
not defined at x) or RAISED (stop). The kernel is compiled once, whatever the density; what the
table holds is known to the density alone (see `mjhmc_numba.density`).

A function that fails without a word must not pass for one that succeeded. A ctypes callback that
lets an exception out returns whatever lies on the stack: 0, or the code of the call before. So
success is not 0, and the kernel leaves a mark in the place of the log density: where it still
stands after the call, the function did not finish, whatever it returned.

Every call is an occasion to come back, also in the middle of a path. After `poll_at` gradients in
all the kernel calls the function at `poll`, if there is one: a thread that runs the handlers of
signals hears of them there, and says when to call it again. If `abort` is set then, the density is
not called, and RAISED is returned. To abort is to set that, and then `poll_at` to 0.
"""

import math

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.layout import ASKED_ROW, LOGP_ROW, NEVER, OFFSETS, scratch
from mjhmc_numba.kernel.reparametrisation import forward, is_reparametrised, pullback_gradient

# What a density returns. A callback of ctypes that fails returns 0, so that is no success.
RAISED, SUCCESS, NOT_FINITE = 0, 1, 2

# The mark: bits of a NaN that no arithmetic makes.
UNWRITTEN = 0x7FF8_6D6A_686D_6331


def _field(builder, record, name: str):
    """Pointer to a number of the record at an address."""
    word = ir.IntType(64)
    place = builder.add(record, word(OFFSETS[name]))
    return builder.inttoptr(place, word.as_pointer())


def _define_checked_call(function: ir.Function) -> None:
    """The body of ``int64 f(record, x, grad, logp)``, which returns one of the codes."""
    word = ir.IntType(64)
    # Kept out of its callers: a larger body would change what LLVM inlines there, and with it which
    # operations are fused or reordered: the rounding of draws.
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    record, x, grad, logp = function.args
    due = builder.load(_field(builder, record, "poll_at"))
    gradients = builder.load(_field(builder, record, "all_gradients"))
    with builder.if_then(builder.icmp_signed(">=", gradients, due), likely=False):
        _define_poll(builder, record)
    mark = builder.inttoptr(logp, word.as_pointer())
    builder.store(word(UNWRITTEN), mark)
    address, table = (builder.load(_field(builder, record, n)) for n in ("density", "table"))
    density = builder.inttoptr(address, ir.FunctionType(word, [word] * 4).as_pointer())
    code = builder.call(density, [x, grad, logp, table])
    is_written = builder.icmp_signed("!=", builder.load(mark), word(UNWRITTEN))
    is_success = builder.icmp_signed("==", code, word(SUCCESS))
    is_not_finite = builder.icmp_signed("==", code, word(NOT_FINITE))
    is_code = builder.and_(is_written, builder.or_(is_success, is_not_finite))
    builder.ret(builder.select(is_code, code, word(RAISED)))


def _define_poll(builder: ir.IRBuilder, record) -> None:
    """Call the function at `poll`, and return RAISED if the kernel is wanted back."""
    word = ir.IntType(64)
    builder.store(word(NEVER), _field(builder, record, "poll_at"))
    address = builder.load(_field(builder, record, "poll"))
    with builder.if_then(builder.icmp_signed("!=", address, word(0))):
        poll = ir.FunctionType(ir.VoidType(), []).as_pointer()
        builder.call(builder.inttoptr(address, poll), [])
    aborted = builder.load(_field(builder, record, "abort"))
    with builder.if_then(builder.icmp_signed("!=", aborted, word(0))):
        builder.store(word(0), _field(builder, record, "poll_at"))
        builder.ret(word(RAISED))


@intrinsic
def call_density(typingctx, record, x, grad, logp):
    """Call the density of a record of `layout.STATE`, in place; x, grad and logp are addresses.

    Returns one of the codes.
    """

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(word, [word] * 4), "mjhmc_call_density"
        )
        if not function.blocks:
            _define_checked_call(function)
        return builder.call(function, [builder.ptrtoint(args[0], word), *args[1:]])

    word = types.int64
    return word(record, word, word, word), codegen


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
    code = call_density(p, at.ctypes.data, grad.ctypes.data, out.ctypes.data)
    p.n_gradients += 1
    p.all_gradients += 1
    if code == RAISED:
        write_position(p, x, scratch(p, ASKED_ROW))
        return True, -math.inf
    if code != SUCCESS or not math.isfinite(out[0]):
        return False, -math.inf
    if is_reparametrised(p):
        pullback_gradient(p, x, grad)
    return False, out[0] + log_volume
