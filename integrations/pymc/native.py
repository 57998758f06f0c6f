"""PyTensor's Numba code behind a C signature, cached on disk.

PyTensor names the code of a whole graph by a key made of its operations, their wiring and its
constants. The C function around that code is stored under the same key (and the versions of all
who had a hand in it), in PyTensor's own cache: a new process that meets the same model
loads machine code, whatever the data, and compiles nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numba
import numpy as np
import pytensor
from numba import carray, cfunc, njit, types
from numba.core.errors import NumbaWarning, TypingError
from numba.np.numpy_support import from_dtype
from pytensor.graph.basic import Constant
from pytensor.link.numba.cache import compile_numba_function_src
from pytensor.link.numba.dispatch.basic import numba_funcify, numba_funcify_and_cache_key
from pytensor.tensor.type import DenseTensorType

from mjhmc_numba.kernel.density import FINE, NOT_FINITE, RAISED
from mjhmc_numba.kernel.layout import as_pointer

__all__ = ["NativeCode", "SHAPE_VARIES", "density_code", "expansion_code", "lift_constants"]

# Raised whenever the text of the C functions below changes what they do.
VERSION = 2

# Constants of more bytes than this become arrays of the table: they would bloat the machine code,
# and Numba does not cache code around constants beyond a megabyte.
LARGEST_CONSTANT = 1024

# What an expansion returns when a variable changes its shape from draw to draw.
SHAPE_VARIES = 3

_double = types.CPointer(types.float64)
_table = types.CPointer(types.int64)
SIGNATURES = {
    "density": types.int64(_double, _double, _double, _table),
    "expansion": types.int64(_double, types.int64, types.int64, _table),
}

# No exception leaves the C function. It is a function of its own because each statement within a
# `try` makes Numba's analysis longer: around twenty statements it took five seconds.
GUARD = """
def guard(a, b, c, d):
    try:
        return body(a, b, c, d)
    except Exception:
        return {on_exception}
"""


@dataclass
class NativeCode:
    """The source of a C function and what it takes to get its machine code.

    Attributes
    ----------
    kind : "density" or "expansion"
    source : Python text of the C function's body
    on_exception : what the C function returns when its body raises
    dtypes : dtype of each array of the table, as the source numbers them
    key : name in PyTensor's cache, or None if the code cannot be cached
    constants : arrays that were lifted out of the graph, last in the table
    inner : the njit function that the C function calls; None after a pickle
    """

    kind: str
    source: str
    on_exception: int
    dtypes: tuple[str, ...]
    key: str | None
    constants: list = field(default_factory=list)
    inner: Any = None

    def __getstate__(self):
        return self.__dict__ | {"inner": None}

    def compile(self):
        """The Numba CFunc, from the cache if it is there; None if it is not and cannot be made."""
        env = {
            # Numba looks the module up when it loads a cached function.
            "__name__": __name__,
            "np": np,
            "carray": carray,
            "as_pointer": as_pointer,
            **{f"dtype{k}": from_dtype(np.dtype(code)) for k, code in enumerate(self.dtypes)},
        }
        if self.inner is not None:
            env["inner"] = self.inner
        cached = self.key is not None and pytensor.config.numba__cache
        if self.inner is None and not cached:
            return None
        body = njit(compile_numba_function_src(self.source, "body", global_env=env))
        function = compile_numba_function_src(
            GUARD.format(on_exception=self.on_exception),
            "guard",
            global_env={"__name__": __name__, "body": body},
            cache_key=self.key if cached else None,
        )
        with warnings.catch_warnings():
            # PyTensor's own functions warn so too, and silence it only for the names they know.
            warnings.filterwarnings("ignore", "(?s).*Cannot cache compiled", NumbaWarning)
            try:
                return cfunc(SIGNATURES[self.kind], cache=cached)(function)
            except TypingError:
                if self.inner is None:
                    return None  # not in the cache: `inner` is the name that has no type
                raise


def lift_constants(fgraph):
    """A copy of the graph whose large constants are inputs, and their values."""
    fgraph = fgraph.clone()
    large: dict = {}
    for node in fgraph.toposort():
        for variable in node.inputs:
            if (
                isinstance(variable, Constant)
                and isinstance(variable.type, DenseTensorType)
                and variable.data.nbytes > LARGEST_CONSTANT
            ):
                large.setdefault(variable, variable.type())
    for constant, new_input in large.items():
        fgraph.add_input(new_input)
        fgraph.replace(constant, new_input, import_missing=True)
    return fgraph, [constant.data for constant in large]


def density_code(fgraph, on_exception: int = RAISED) -> NativeCode:
    """The C function of a graph (x, *arrays) -> (logp, grad).

    Compiled code cannot tell one exception from another: all of them return `on_exception`.
    """
    fgraph, constants = lift_constants(fgraph)
    ndim = fgraph.inputs[0].type.shape[0]
    arrays, _ = _unpack(fgraph.inputs[1:])
    source = f"""
def body(x_, grad_, logp_, table):
    x = carray(x_, ({ndim},))
    grad = carray(grad_, ({ndim},))
    logp = carray(logp_, (1,))
{_indent(arrays, 4)}
    value, slope = inner({_arguments("x", fgraph.inputs)})
    logp[0] = value.item()
    fine = np.isfinite(logp[0])
    for j in range({ndim}):
        grad[j] = slope[j]
        fine &= np.isfinite(slope[j])
    return {FINE} if fine else {NOT_FINITE}
"""
    return _code("density", source, on_exception, fgraph, constants)


def expansion_code(fgraph) -> NativeCode:
    """The C function of a graph (x, *arrays) -> outputs, in a loop over draws.

    ``int64 f(double *draws, int64 start, int64 stop, int64 *table)`` writes the outputs of draws
    start ... stop - 1. After the arrays the table holds an address and a shape for each output;
    where the address is 0 the shape is written instead.
    """
    fgraph, constants = lift_constants(fgraph)
    ndim = fgraph.inputs[0].type.shape[0]
    arrays, at = _unpack(fgraph.inputs[1:])
    names = [f"out{k}" for k in range(len(fgraph.outputs))]
    store = []
    for k, output in enumerate(fgraph.outputs):
        store += _store(names[k], f"dtype{len(fgraph.inputs) - 1 + k}", output.type.ndim, at)
        at += 1 + output.type.ndim
    source = f"""
def body(draws_, start, stop, table):
    draws = carray(draws_, (stop, {ndim}))
{_indent(arrays, 4)}
    for i in range(start, stop):
        {", ".join(names)}, = inner({_arguments("draws[i]", fgraph.inputs)})
{_indent(store, 8)}
    return {FINE}
"""
    return _code("expansion", source, RAISED, fgraph, constants, fgraph.outputs)


def _unpack(inputs: Sequence) -> tuple[list[str], int]:
    """Lines that make arrays of the table's entries, and the number of entries."""
    lines, at = [], 0
    for k, variable in enumerate(inputs):
        ndim = variable.type.ndim
        lines.append(f"a{k} = carray(as_pointer(table[{at}]), {_shape(at, ndim)}, dtype{k})")
        at += 1 + ndim
    return lines, at


def _shape(at: int, ndim: int) -> str:
    return "(" + "".join(f"table[{at + 1 + d}], " for d in range(ndim)) + ")"


def _store(name: str, dtype: str, ndim: int, at: int) -> list[str]:
    """Lines that write one output, or its shape when it has no address yet."""
    lines = [f"if table[{at}] == 0:"]
    lines += [f"    table[{at + 1 + d}] = {name}.shape[{d}]" for d in range(ndim)] or ["    pass"]
    if ndim:
        lines += [f"elif {name}.shape != {_shape(at, ndim)}:", f"    return {SHAPE_VARIES}"]
    value = name if ndim else f"{name}.item()"
    where = f"carray(as_pointer(table[{at}]), (stop, {_shape(at, ndim)[1:]}, {dtype})"
    return [*lines, "else:", f"    {where}[i] = {value}"]


def _arguments(x: str, inputs: Sequence) -> str:
    return ", ".join([x, *(f"a{k}" for k in range(len(inputs) - 1))])


def _indent(lines: Sequence[str], width: int) -> str:
    return "\n".join(" " * width + line for line in lines)


def _code(kind, source, on_exception, fgraph, constants, outputs=()) -> NativeCode:
    if pytensor.config.numba__cache:
        inner, graph_key = numba_funcify_and_cache_key(fgraph)
    else:
        inner, graph_key = numba_funcify(fgraph), None
    dtypes = tuple(v.type.dtype for v in [*fgraph.inputs[1:], *outputs])
    key = None
    if graph_key is not None:
        parts = (
            VERSION,
            pytensor.__version__,
            numba.__version__,
            np.__version__,
            bool(pytensor.config.numba__fastmath),
            graph_key,
            dtypes,
            source,
            on_exception,
        )
        key = f"mjhmc_{sha256(repr(parts).encode()).hexdigest()}"
    return NativeCode(kind, source, on_exception, dtypes, key, constants, inner)
