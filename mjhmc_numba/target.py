"""A user's log density becomes the one compiled form that the kernel calls.

The form is a C function ``int64 f(double *x, double *grad, double *logp, int64 *table)``; see
`mjhmc_numba.kernel.density`. The table holds the dimension and, for each extra argument, its
address and shape, so that new data of the same types needs no recompilation.
"""

from __future__ import annotations

import ctypes
import inspect
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numba import carray, cfunc, types
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher
from numba.np.numpy_support import from_dtype

from mjhmc_numba.errors import SlowDensityWarning, TargetError
from mjhmc_numba.kernel.density import FINE, NOT_FINITE, RAISED
from mjhmc_numba.kernel.layout import as_pointer

__all__ = ["Target", "as_target"]

_C_SIGNATURE = types.int64(
    types.CPointer(types.float64),
    types.CPointer(types.float64),
    types.CPointer(types.float64),
    types.CPointer(types.int64),
)
_CALLBACK_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)


class Target:
    """A log density behind an address.

    Parameters
    ----------
    address : address of the C function
    ndim : number of dimensions
    table : int64 array that the C function gets as its last argument
    keepalive : whatever must live as long as the address is used
    error_at : x -> the exception that the density raises at x, or None
    names : a name for each dimension
    rebuild : (function, arguments) that make the target again in another process
    """

    def __init__(
        self,
        address: int,
        ndim: int,
        *,
        table: np.ndarray | None = None,
        keepalive: Any = (),
        error_at: Callable[[np.ndarray], BaseException | None] | None = None,
        names: Sequence[str] | None = None,
        rebuild: tuple | None = None,
    ):
        if ndim < 1:
            raise TargetError(f"A density needs at least one dimension, not {ndim}.")
        self.address = int(address)
        self.ndim = int(ndim)
        self.table = np.zeros(1, np.int64) if table is None else table
        self.names = list(names) if names is not None else [f"x[{j}]" for j in range(ndim)]
        if len(self.names) != self.ndim:
            raise TargetError(f"{len(self.names)} names for {self.ndim} dimensions.")
        self._keepalive = keepalive
        self._error_at = error_at
        self._rebuild = rebuild

    @classmethod
    def from_address(cls, address: int, ndim: int, **options) -> Target:
        """A target from the address of a C function that exists already."""
        return cls(address, ndim, **options)

    def __reduce__(self):
        if self._rebuild is None:
            raise TypeError("A target made from an address cannot be pickled.")
        function, arguments = self._rebuild
        return function, arguments

    def error_at(self, x: np.ndarray) -> BaseException:
        """The exception that the density raised at x."""
        error = self._error_at(x) if self._error_at is not None else None
        if error is None:
            error = TargetError(f"The density raised an exception at x = {np.array2string(x)}.")
        return error

    def logp_and_grad(self, x) -> tuple[float, np.ndarray]:
        """Log density and gradient at x; raises what the density raises."""
        x = np.array(x, dtype=float)
        if x.shape != (self.ndim,):
            raise TargetError(f"A point has shape ({self.ndim},), not {x.shape}.")
        grad, logp = np.empty(self.ndim), np.empty(1)
        call = _CALLBACK_TYPE(self.address)
        addresses = (a.ctypes.data for a in (x, grad, logp, self.table))
        code = call(*addresses)
        if code == RAISED:
            raise self.error_at(x)
        if code == NOT_FINITE:
            return (logp[0] if np.isnan(logp[0]) else -np.inf), grad
        return logp[0], grad


def as_target(density, ndim: int | None = None, args: Sequence = (), names=None) -> Target:
    """Compile a density, given in any of the accepted forms.

    Parameters
    ----------
    density
        an `@njit` function ``(x, grad, *args) -> logp`` that writes the gradient; a plain
        Python function ``(x, *args) -> (logp, grad)``; anything with `density`, `args` and
        `ndim`, as the distributions of `mjhmc_numba.targets`; or a `Target`
    ndim : number of dimensions
    args : arrays and numbers that an `@njit` density gets after `x` and `grad`
    names : a name for each dimension
    """
    if isinstance(density, Target):
        if len(args) or names is not None:
            raise TargetError("A Target has its args and names already; make a new one for others.")
        _check_same_ndim(ndim, density.ndim)
        return density
    if hasattr(density, "density") and hasattr(density, "ndim"):
        _check_same_ndim(ndim, density.ndim)
        args = args if len(args) else density.args
        return as_target(density.density, density.ndim, args, names)
    if not callable(density):
        raise TargetError(
            f"A density is a function, not {type(density).__name__}: give an @njit function "
            "(x, grad) -> logp that writes the gradient, or x -> (logp, grad)."
        )
    if ndim is None:
        raise TargetError("How many dimensions? Give ndim= or initial=.")
    _check_ndim(ndim)
    if isinstance(density, CPUDispatcher):
        return _compiled_target(density, int(ndim), tuple(args), names)
    return _python_target(density, int(ndim), tuple(args), names)


def _check_ndim(ndim: Any) -> None:
    if isinstance(ndim, bool) or not isinstance(ndim, Integral) or ndim < 1:
        raise TargetError(f"ndim is a whole number >= 1, not {ndim!r}.")


def _check_same_ndim(given: int | None, known: int) -> None:
    if given is not None and given != known:
        raise TargetError(f"{given} dimensions were asked for, but the density has {known}.")


# ------------------------------------------------------------------ compiled densities


class _Argument:
    """An extra argument: an array that we own, a scalar in an array of one element."""

    def __init__(self, value, position: int):
        array = np.array(value, order="C")
        if array.dtype.kind not in "fiub":
            raise TargetError(
                f"args[{position}] has dtype {array.dtype}; numbers and arrays of numbers only."
            )
        self.is_scalar = array.ndim == 0
        self.array = array.reshape(1) if self.is_scalar else array
        self.kind = (array.dtype.str, array.ndim)

    def entries(self) -> list[int]:
        return [self.array.ctypes.data, *self.array.shape]


def _wrapper_source(kinds: Sequence[tuple[str, int]]) -> str:
    """Source of the C function for arguments of the given dtypes and numbers of dimensions."""
    lines = [
        "def wrapper(x_, grad_, logp_, table):",
        "    x = carray(x_, table[0])",
        "    grad = carray(grad_, table[0])",
        "    logp = carray(logp_, 1)",
    ]
    at = 1
    for k, (_, ndim) in enumerate(kinds):
        shape = ", ".join(f"table[{at + 1 + j}]" for j in range(max(ndim, 1)))
        lines.append(f"    a{k} = carray(as_pointer(table[{at}]), ({shape},), dtype{k})")
        at += 1 + max(ndim, 1)
    values = "".join(f", a{k}" if ndim else f", a{k}[0]" for k, (_, ndim) in enumerate(kinds))
    lines += [
        "    try:",
        f"        logp[0] = density(x, grad{values})",
        "    except Exception:",
        f"        return {RAISED}",
        f"    return {FINE}",
    ]
    return "\n".join(lines)


# One C function per density and argument types, for as long as the density lives.
_compiled: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _c_function(density, kinds):
    known = _compiled.setdefault(density, {})
    if kinds not in known:
        names = {"density": density, "carray": carray, "as_pointer": as_pointer}
        names |= {f"dtype{k}": from_dtype(np.dtype(code)) for k, (code, _) in enumerate(kinds)}
        exec(_wrapper_source(kinds), names)  # the number of arguments is part of the source
        try:
            known[kinds] = cfunc(_C_SIGNATURE)(names["wrapper"])
        except NumbaError as error:
            given = inspect.signature(density.py_func)
            raise TargetError(
                f"The density {density.py_func.__name__}{given} does not compile as "
                f"(x, grad{', ...' if kinds else ''}) -> logp with {len(kinds)} extra arguments. "
                f"Numba says:\n{error}"
            ) from error
    return known[kinds]


def _compiled_target(density, ndim, args, names) -> Target:
    arguments = [_Argument(value, k) for k, value in enumerate(args)]
    function = _c_function(density, tuple(a.kind for a in arguments))
    table = np.array([ndim] + [entry for a in arguments for entry in a.entries()], np.int64)

    def error_at(x):
        values = [a.array[0] if a.is_scalar else a.array for a in arguments]
        try:
            density(np.array(x), np.empty(ndim), *values)
        except Exception as error:
            return error
        return None

    return Target(
        function.address,
        ndim,
        table=table,
        keepalive=(function, arguments),
        error_at=error_at,
        names=names,
        rebuild=(as_target, (density, ndim, args, names)),
    )


# -------------------------------------------------------------------- Python densities


class _PythonDensity:
    """A Python function behind the C signature; keeps what it raised, thread by thread."""

    def __init__(self, function, ndim, args):
        self.function, self.ndim, self.args = function, ndim, args
        self.raised = threading.local()
        self.callback = _CALLBACK_TYPE(self._call)

    def _vector(self, address, n):
        return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_double)), (n,))

    def _call(self, x, grad, logp, table):
        try:
            returned = self.function(self._vector(x, self.ndim).copy(), *self.args)
            if not isinstance(returned, tuple | list) or len(returned) != 2:
                raise TargetError(
                    f"A Python density returns (logp, grad), not {type(returned).__name__}."
                )
            value, slope = returned
            slope = np.asarray(slope, dtype=float)
            if slope.shape != (self.ndim,):
                raise TargetError(
                    f"The density returned a gradient of shape {slope.shape} for a point of "
                    f"shape ({self.ndim},)."
                )
            self._vector(grad, self.ndim)[:] = slope
            self._vector(logp, 1)[0] = value
            return FINE
        except BaseException as error:  # a C caller cannot take it: keep it and say so
            self.raised.error = error
            return RAISED

    def error_at(self, x):
        return getattr(self.raised, "error", None)


def _python_target(function, ndim, args, names) -> Target:
    _warn_slow(function)
    return _wrap_python(function, ndim, args, names)


def _warn_slow(function) -> None:
    label = getattr(function, "__name__", type(function).__name__)
    warnings.warn(
        f"The density {label} is a Python function, so every gradient goes through the "
        "interpreter and chains share one core. Give an @njit function (x, grad) -> logp that "
        "writes the gradient to sample natively.",
        SlowDensityWarning,
        stacklevel=5,
    )


def _wrap_python(function, ndim, args, names) -> Target:
    density = _PythonDensity(function, ndim, args)
    return Target(
        ctypes.cast(density.callback, ctypes.c_void_p).value or 0,
        ndim,
        keepalive=density,
        error_at=density.error_at,
        names=names,
        rebuild=(_wrap_python, (function, ndim, args, names)),  # which does not warn again
    )
