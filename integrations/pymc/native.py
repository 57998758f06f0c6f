"""PyTensor's Numba code behind a C signature, cached on disk.

PyTensor names the code of a whole graph by a key made of its operations, their wiring and its
constants. The C function around that code is stored under the same key (and the versions of all
who had a hand in it), beside the kernel: a new process that meets the same model loads machine
code, whatever the data, and compiles nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytensor
from numba import njit
from numba.core.ccallback import CFunc
from numba.core.errors import NumbaError, TypingError
from numba.core.sigutils import normalize_signature
from pytensor.graph.basic import Constant
from pytensor.tensor.type import DenseTensorType

from mjhmc_numba import density
from mjhmc_numba.density.signature import DENSITY, EXPANSION, NOT_FINITE, RAISED, SUCCESS
from mjhmc_numba.density.table import ArrayField
from mjhmc_numba.density.wrapper import (
    argument_names,
    density_source,
    expansion_source,
    guard_source,
    names_of,
)
from mjhmc_numba.kernel.compilation import StoredCode
from mjhmc_numba.kernel.store import sources_stamp
from mjhmc_numba.kernel.waiting import compile_in_thread
from mjhmc_numba.pymc import op_functions
from mjhmc_numba.pymc.numba_backend import (
    compile_numba_function_src,
    numba_funcify,
    numba_funcify_and_cache_key,
)
from mjhmc_numba.pymc.op_functions import compiled_in_one_go

__all__ = ["NativeCode", "density_code", "expansion_code", "lift_constants"]

# All that has a hand in the machine code beside the kernel, PyTensor and Numba.
SOURCES = (
    Path(density.__file__).parent,
    Path(op_functions.__file__),
    Path(__file__),
)

# Constants of more bytes than this become arrays of the table: they would bloat the machine code,
# and Numba does not cache code around constants beyond a megabyte. With 0, 1024 and no limit
# nes2000 compiles in 1.8, 2.5 and 3.1 CPU s, and a gradient takes 2.9, 3.0 and 3.3 us.
LARGEST_CONSTANT = 1024

SIGNATURES = {"density": DENSITY, "expansion": EXPANSION}


@dataclass
class NativeCode:
    """The source of a C function and what it takes to get its machine code.

    Attributes
    ----------
    kind : str
        "density" or "expansion"
    source : str
        Python text of the C function's body
    on_exception : int
        what the C function returns when its body raises
    fields : tuple of ArrayField
        the arrays that the source reads, lifted constants last
    outputs : tuple of ArrayField
        the arrays that it writes
    key : str or None
        name in the cache; None if the code cannot be cached
    constants : list of ndarray
        values that were lifted out of the graph
    inner : callable or None
        the njit function that the C function calls; None after a pickle
    """

    kind: str
    source: str
    on_exception: int
    fields: tuple[ArrayField, ...]
    outputs: tuple[ArrayField, ...]
    key: str | None
    constants: list = field(default_factory=list)
    inner: Any = None

    def __getstate__(self):
        return self.__dict__ | {"inner": None}

    def compile(self):
        """The Numba CFunc, from the cache if it is there; None if it is not and cannot be made."""
        # Numba looks the module up when it loads a cached function.
        env = {"__name__": __name__} | names_of([*self.fields, *self.outputs])
        if self.inner is not None:
            env["inner"] = self.inner
        cached = self.key is not None and pytensor.config.numba__cache
        if self.inner is None and not cached:
            return None
        # Only the C function is called from outside.
        body = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(
            compile_numba_function_src(self.source, "body", global_env=env)
        )
        function = compile_numba_function_src(
            guard_source(self.on_exception),
            "guard",
            global_env={"__name__": __name__, "body": body},
        )
        c_function = CFunc(function, normalize_signature(SIGNATURES[self.kind]), {}, {})
        loaded = self.inner is None
        if cached:
            assert self.key is not None
            c_function._cache = StoredCode(self.key)
            loaded |= c_function._cache.holds(c_function._sig)
        try:
            if loaded:
                _compile(c_function)
            else:
                compile_in_thread("machine code", lambda: _compile(c_function))
        except TypingError:
            if self.inner is None:
                return None  # not in the cache: `inner` is the name that has no type
            raise
        return c_function


def _compile(c_function: CFunc) -> None:
    try:
        with compiled_in_one_go():
            c_function.compile()
    except NumbaError:  # a function may have types only where it is inlined
        with compiled_in_one_go(inlining=True):
            c_function.compile()


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


# The graph returns new arrays; a density writes into those of its caller.
DENSITY_CALL = """
value, slope = {inner}
logp[0] = value.item()
finite = np.isfinite(logp[0])
for j in range({ndim}):
    grad[j] = slope[j]
    finite &= np.isfinite(slope[j])
"""


def density_code(fgraph, on_exception: int = RAISED) -> NativeCode:
    """The C function of a graph (x, *arrays) -> (logp, grad).

    Compiled code cannot tell one exception from another: all of them return `on_exception`.
    """
    fgraph, constants = lift_constants(fgraph)
    ndim, fields = fgraph.inputs[0].type.shape[0], _fields(fgraph.inputs[1:])
    call = DENSITY_CALL.format(inner=_inner("x", fields), ndim=ndim)
    code = f"{SUCCESS} if finite else {NOT_FINITE}"
    source = density_source(fields, call, ndim, code=code)
    return _code("density", source, on_exception, fgraph, constants, fields)


def expansion_code(fgraph) -> NativeCode:
    """The C function of a graph (x, *arrays) -> outputs, in a loop over draws.

    ``int64 f(double *draws, int64 start, int64 stop, entry *table)`` writes the outputs of draws
    start ... stop - 1; see `mjhmc_numba.density.wrapper.expansion_source`.
    """
    fgraph, constants = lift_constants(fgraph)
    ndim, fields = fgraph.inputs[0].type.shape[0], _fields(fgraph.inputs[1:])
    outputs = _fields(fgraph.outputs)
    source = expansion_source(fields, outputs, _inner("draws[i]", fields), ndim)
    return _code("expansion", source, RAISED, fgraph, constants, fields, outputs)


def _fields(variables: Sequence) -> tuple[ArrayField, ...]:
    return tuple(
        ArrayField(v.name or f"array {k}", np.dtype(v.type.dtype), v.type.ndim)
        for k, v in enumerate(variables)
    )


def _inner(x: str, fields: Sequence[ArrayField]) -> str:
    return f"inner({', '.join([x, *argument_names(fields)])})"


def _code(kind, source, on_exception, fgraph, constants, fields, outputs=()) -> NativeCode:
    if pytensor.config.numba__cache:
        inner, graph_key = numba_funcify_and_cache_key(fgraph)
    else:
        inner, graph_key = numba_funcify(fgraph), None
    key = None
    if graph_key is not None:
        parts = (
            sources_stamp(*SOURCES),
            pytensor.__version__,
            numba.__version__,
            np.__version__,
            bool(pytensor.config.numba__fastmath),
            graph_key,
            [field.dtype.str for field in (*fields, *outputs)],  # not their names
            source,
            on_exception,
        )
        key = f"mjhmc_{sha256(repr(parts).encode()).hexdigest()}"
    return NativeCode(kind, source, on_exception, fields, outputs, key, constants, inner)
