"""A user's log density becomes the one compiled form that the kernel calls."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numba import cfunc
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher
from numpy.typing import ArrayLike

from mjhmc_numba.density.callback import PythonDensity
from mjhmc_numba.density.signature import DENSITY, NOT_FINITE, RAISED, evaluate
from mjhmc_numba.density.table import ArrayField, ArrayTable
from mjhmc_numba.density.wrapper import argument_names, density_source, names_of
from mjhmc_numba.errors import SlowDensityWarning, TargetError
from mjhmc_numba.kernel.user_warnings import warn_user
from mjhmc_numba.kernel.waiting import compile_in_thread, stop_if_cancelled

__all__ = ["Target", "as_target"]


class Target:
    """A log density behind an address.

    It keeps alive what the addresses need: `table` and `keepalive`. The caller that hands the
    addresses to the kernel keeps the target.

    Parameters
    ----------
    address : int
        of the C function; see `mjhmc_numba.kernel.density` for what it must do
    ndim : int
        number of dimensions
    table : ndarray, optional
        what the C function gets as its last argument; one record that tells `ndim` if None
    keepalive : object
        whatever else must live as long as the addresses are used
    error_at : callable, optional
        x -> the exception that the density raises at x, or None
    names : sequence of str, optional
        a name for each dimension
    rebuild : tuple, optional
        (function, arguments) that make the target again in another process

    Attributes
    ----------
    gradient_seconds : float
        what a gradient took when the kernel ran last, with all that the kernel does; infinite as
        long as it is not known
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
        self.table = ArrayTable(self.ndim).entries if table is None else table
        self.names = list(names) if names is not None else [f"x[{j}]" for j in range(ndim)]
        if len(self.names) != self.ndim:
            raise TargetError(f"{len(self.names)} names for {self.ndim} dimensions.")
        self.gradient_seconds = math.inf
        self._keepalive = keepalive
        self._error_at = error_at
        self._rebuild = rebuild

    @classmethod
    def from_address(cls, address: int, ndim: int, **options: Any) -> Target:
        """A target from the address of a C function that exists already."""
        return cls(address, ndim, **options)

    def __reduce__(self) -> tuple:
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

    def logp_and_grad(self, x: ArrayLike) -> tuple[float, np.ndarray]:
        """Log density and gradient at x; raises what the density raises."""
        x = np.array(x, dtype=float)
        if x.shape != (self.ndim,):
            raise TargetError(f"A point has shape ({self.ndim},), not {x.shape}.")
        code, logp, grad = evaluate(self.address, x, self.table)
        if code == RAISED:
            raise self.error_at(x)
        if code == NOT_FINITE and not np.isnan(logp):
            logp = -np.inf
        return logp, grad


def as_target(
    density: Any, ndim: int | None = None, args: Sequence = (), names: Sequence[str] | None = None
) -> Target:
    """Compile a density, given in any of the accepted forms.

    Parameters
    ----------
    density : callable, distribution or Target
        an `@njit` function ``(x, grad, *args) -> logp`` that writes the gradient; a plain
        Python function ``(x, *args) -> (logp, grad)``; anything with `density`, `args` and
        `ndim`, as the distributions of `mjhmc_numba.targets`; or a `Target`
    ndim : int, optional
        number of dimensions
    args : sequence
        arrays and numbers that an `@njit` density gets after `x` and `grad`; they are copied
    names : sequence of str, optional
        a name for each dimension
    """
    if not _is_sequence(args):
        raise TargetError(f"args is a sequence of arrays and numbers, not {args!r}.")
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
    _check_names(names)
    if isinstance(density, CPUDispatcher):
        return _compiled_target(density, int(ndim), tuple(args), names)
    return _python_target(density, int(ndim), tuple(args), names)


BEYOND_MACHINES = 10**9  # one position takes 8 GB: more is a slip of the pen


def _check_ndim(ndim: Any) -> None:
    if isinstance(ndim, bool) or not isinstance(ndim, Integral) or ndim < 1:
        raise TargetError(f"ndim is a whole number >= 1, not {ndim!r}.")
    if int(ndim) > BEYOND_MACHINES:
        raise TargetError(f"ndim={ndim} is beyond all machines: at most {BEYOND_MACHINES:.0e}.")


def _is_sequence(value: Any) -> bool:
    """Whether it has members in an order; text does not count."""
    return (
        hasattr(value, "__len__")
        and hasattr(value, "__getitem__")
        and not isinstance(value, (str, bytes, Mapping))
    )


def _check_names(names: Any) -> None:
    if names is None:
        return
    if not _is_sequence(names) or not all(isinstance(name, str) for name in names):
        raise TargetError(f"names is a sequence of strings, not {names!r}.")


def _check_same_ndim(given: int | None, known: int) -> None:
    if given is not None and given != known:
        raise TargetError(f"{given} dimensions were asked for, but the density has {known}.")


# ------------------------------------------------------------------ compiled densities


# C functions of a density, by the types of its arguments, are an attribute of the density. They
# hold it (through the globals of their text), so a dictionary here, however weak its keys, would
# never let it go; a circle of references is collected.
_C_FUNCTIONS = "_mjhmc_c_functions"


def _argument(value: Any, position: int) -> np.ndarray:
    array = np.asarray(value)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind not in "fiub" or array.dtype == np.float16:
        raise TargetError(
            f"args[{position}] has dtype {array.dtype}; numbers and arrays of numbers only."
        )
    return array


def _call_source(fields: Sequence[ArrayField]) -> str:
    """A number comes as a number, not as an array of no dimensions.

    The arguments are put together outside of the `try`: within it Numba compiles no call of more
    than 30, for which Python has other instructions.
    """
    named = zip(argument_names(fields), fields, strict=True)
    values = [name if field.ndim else f"{name}[()]" for name, field in named]
    return f"""
arguments = ({", ".join(["x", "grad", *values])})
try:
    logp[0] = density(*arguments)
except Exception:
    return {RAISED}
"""


def _c_function(density: Any, fields: Sequence[ArrayField]) -> Any:
    known = density.__dict__.setdefault(_C_FUNCTIONS, {})
    kinds = tuple((field.dtype.str, field.ndim) for field in fields)
    if kinds not in known:
        try:
            known[kinds] = _compile(density, fields)
        except NumbaError as error:
            given = inspect.signature(density.py_func)
            raise TargetError(
                f"The density {density.py_func.__name__}{given} does not compile as "
                f"(x, grad{', ...' if kinds else ''}) -> logp with {len(kinds)} extra arguments. "
                f"Numba says:\n{error}"
            ) from error
    return known[kinds]


def _compile(density: Any, fields: Sequence[ArrayField]) -> Any:
    # One function, and no guard around an `@njit` body: Numba holds the globals of every function
    # that it compiles for other code to call, and with them the density, until that function goes.
    names = names_of(fields) | {"density": density}
    exec(density_source(fields, _call_source(fields)), names)

    def compiled() -> Any:
        with global_compiler_lock:  # others may have been at it for long
            stop_if_cancelled()
            return cfunc(DENSITY)(names["body"])

    return compile_in_thread("density", compiled)


def _compiled_target(
    density: Any, ndim: int, args: Sequence, names: Sequence[str] | None
) -> Target:
    arrays = [_argument(value, k) for k, value in enumerate(args)]
    table = ArrayTable(ndim, arrays, [f"args[{k}]" for k in range(len(arrays))])
    function = _c_function(density, table.fields)

    def error_at(x: np.ndarray) -> BaseException | None:
        values = [array if array.ndim else array[()] for array in table.arrays]
        try:
            density(np.array(x), np.empty(ndim), *values)
        except Exception as error:
            return error
        return None

    return Target(
        function.address,
        ndim,
        table=table.entries,
        keepalive=(function, table),
        error_at=error_at,
        names=names,
        rebuild=(as_target, (density, ndim, args, names)),
    )


# -------------------------------------------------------------------- Python densities


def _python_target(
    function: Callable, ndim: int, args: Sequence, names: Sequence[str] | None
) -> Target:
    _warn_slow(function)
    return _wrap_python(function, ndim, args, names)


def _warn_slow(function: Callable) -> None:
    label = getattr(function, "__name__", type(function).__name__)
    warn_user(
        f"The density {label} is a Python function, so every gradient goes through the "
        "interpreter and chains share one core. Give an @njit function (x, grad) -> logp that "
        "writes the gradient to sample natively.",
        SlowDensityWarning,
    )


def _wrap_python(
    function: Callable, ndim: int, args: Sequence, names: Sequence[str] | None
) -> Target:
    density = PythonDensity(lambda x: function(x, *args), ndim)
    return Target(
        density.address,
        ndim,
        keepalive=density,
        error_at=density.error_at,
        names=names,
        rebuild=(_wrap_python, (function, ndim, args, names)),  # which does not warn again
    )
