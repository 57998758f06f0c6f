"""The text of C functions around compiled code, and what its names mean.

The body of a C function finds its arrays in the table and calls the compiled code. No exception
may leave it: either the call catches its own, or a guard is put around the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray
from numba.np.numpy_support import from_dtype

from mjhmc_numba.density.signature import RAISED, SUCCESS
from mjhmc_numba.density.table import ArrayField, array_of
from mjhmc_numba.kernel.layout import as_pointer

__all__ = [
    "SHAPE_VARIES",
    "argument_names",
    "density_source",
    "expansion_source",
    "guard_source",
    "names_of",
]

# What an expansion returns when an output changes its shape from draw to draw: a code that no
# density returns.
SHAPE_VARIES = 3


def guard_source(on_exception: int = RAISED) -> str:
    """The C function: it returns what `body` returns, or `on_exception` if that raises.

    It is a function of its own because each statement within a `try` makes Numba's analysis
    longer: around twenty statements it took five seconds.
    """
    return f"""
def guard(a, b, c, d):
    try:
        return body(a, b, c, d)
    except Exception:
        return {on_exception}
"""


def density_source(
    fields: Sequence[ArrayField], call: str, ndim: int | None = None, *, code: str = str(SUCCESS)
) -> str:
    """The body of a density.

    Parameters
    ----------
    fields : sequence of ArrayField
        arrays of the table; the call knows them by `argument_names`
    call : str
        statements that write `grad` and `logp[0]`
    ndim : int, optional
        length of x, as a constant of the machine code; read from the table if None
    code : str
        expression of what is returned

    Notes
    -----
    Where the call raises, the log density is minus infinity.
    """
    length = "carray(table, (1,))[0].shape[0]" if ndim is None else str(ndim)
    return f"""
def body(x_, grad_, logp_, table):
    x = carray(x_, ({length},))
    grad = carray(grad_, ({length},))
    logp = carray(logp_, (1,))
    logp[0] = -np.inf
{_indent(_arrays(fields), 4)}
{_indent(call.strip().splitlines(), 4)}
    return {code}
"""


def expansion_source(
    fields: Sequence[ArrayField], outputs: Sequence[ArrayField], call: str, ndim: int
) -> str:
    """The body of a loop over draws.

    Parameters
    ----------
    fields, outputs : sequences of ArrayField
        arrays of the table, and what is written: `output_names`
    call : str
        expression of (x, *arrays) -> outputs, where x is called ``draws[i]``
    ndim : int
        length of x

    Notes
    -----
    Where an output has no address yet its shape is written into the table instead.
    """
    names = [f"out{k}" for k in range(len(outputs))]
    first = 1 + len(fields)
    store: list[str] = []
    for k, output in enumerate(outputs):
        store += _store(names[k], f"dtype{len(fields) + k}", output.ndim, first + k)
    return f"""
def body(draws_, start, stop, table):
    draws = carray(draws_, (stop, {ndim}))
    entries = carray(table, ({first + len(outputs)},))
{_indent(_arrays(fields), 4)}
    for i in range(start, stop):
        {", ".join(names)}, = {call}
{_indent(store, 8)}
    return {SUCCESS}
"""


def argument_names(fields: Sequence[ArrayField]) -> list[str]:
    """What the arrays of a table are called in a body."""
    return [f"a{k}" for k in range(len(fields))]


def names_of(fields: Sequence[ArrayField]) -> dict[str, Any]:
    """What the names in the text of a body mean, but for the compiled code."""
    dtypes = {f"dtype{k}": from_dtype(np.dtype(field.dtype)) for k, field in enumerate(fields)}
    return {"np": np, "carray": carray, "as_pointer": as_pointer, "array_of": array_of, **dtypes}


def _arrays(fields: Sequence[ArrayField]) -> list[str]:
    """Statements that make arrays of the table's records; record 0 is that of x."""
    return [
        f"{name} = array_of(table, {1 + k}, dtype{k}, {field.ndim})"
        for k, (name, field) in enumerate(zip(argument_names(fields), fields, strict=True))
    ]


def _store(name: str, dtype: str, ndim: int, position: int) -> list[str]:
    """Statements that write one output, or its shape when it has no address yet."""
    entry = f"entries[{position}]"
    shape = "".join(f"{entry}.shape[{d}], " for d in range(ndim))
    lines = [f"if {entry}.address == 0:"]
    lines += [f"    {entry}.shape[{d}] = {name}.shape[{d}]" for d in range(ndim)] or ["    pass"]
    if ndim:
        lines += [f"elif {name}.shape != ({shape}):", f"    return {SHAPE_VARIES}"]
    value = name if ndim else f"{name}.item()"
    where = f"carray(as_pointer({entry}.address), (stop, {shape}), {dtype})"
    return [*lines, "else:", f"    {where}[i] = {value}"]


def _indent(lines: Sequence[str], width: int) -> str:
    return "\n".join(" " * width + line for line in lines)
