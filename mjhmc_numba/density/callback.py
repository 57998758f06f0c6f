"""A Python function behind the C signature of a density.

Every gradient goes through the interpreter: correct, and slow. The kernel is the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from mjhmc_numba.density.signature import C_FUNCTION, NOT_FINITE, RAISED, SUCCESS
from mjhmc_numba.errors import TargetError

__all__ = ["PythonDensity"]

# The newest: one is asked for by each chain that runs, and there are as many as cores.
KEPT_EXCEPTIONS = 64

# Where there is a reparametrisation the kernel computes again where it has asked. Relative; the way
# to z and back rounds some times by 2e-16, and draws lie much further apart.
SAME_POINT = 1e-9


def _real(value: Any, what: str) -> np.ndarray:
    """As float64. NumPy would make NaN of None, and drop a part of what is complex."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise TypeError("it is complex")
        if array.dtype.kind == "O" and any(item is None for item in array.flat):
            raise TypeError("it is None")
        return array.astype(float, copy=False)
    except (TypeError, ValueError) as error:
        raise TargetError(f"The density returned a {what} that is no number: {error}.") from error


class PythonDensity:
    """A function x -> (logp, grad) that C code can call.

    What it raises is kept by the point where it did, of the last 64 such points, so that chains
    on several threads do not take each other's exceptions. It must live as long as its address
    is used.

    Parameters
    ----------
    function : callable
        x -> (logp, grad); gets an array of its own at each call
    ndim : int
        length of x
    rejections : tuple of exception types
        what it raises where the density is zero or not defined, as opposed to by mistake
    check_finite : bool
        whether to return NOT_FINITE where log density or gradient are not; the kernel looks at
        the log density in any case
    lock : context manager, optional
        held during a call, for a function that is not reentrant

    Attributes
    ----------
    address : int
        of the C function
    """

    def __init__(
        self,
        function: Callable[[np.ndarray], Any],
        ndim: int,
        *,
        rejections: tuple[type[BaseException], ...] = (),
        check_finite: bool = False,
        lock: AbstractContextManager | None = None,
    ):
        self._function, self._ndim = function, ndim
        self._rejections, self._check_finite = rejections, check_finite
        self._lock = contextlib.nullcontext() if lock is None else lock
        self._vector = ctypes.c_double * ndim
        self._raised: OrderedDict[bytes, BaseException] = OrderedDict()
        self._keeping = threading.Lock()
        self._callback = C_FUNCTION(self._call)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _call(self, x, grad, logp, table) -> int:
        try:
            return self._write(self._evaluate(self._at(x).copy()), self._at(grad), logp)
        except self._rejections:
            ctypes.c_double.from_address(logp).value = -np.inf
            return NOT_FINITE
        except BaseException as error:  # a C caller cannot take it: keep it and say so
            self._keep(self._at(x).tobytes(), error)
            return RAISED

    def _at(self, address: int) -> np.ndarray:
        return np.ctypeslib.as_array(self._vector.from_address(address))

    def _evaluate(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        with self._lock:
            returned = self._function(x)
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            raise TargetError(
                f"A Python density returns (logp, grad), not {type(returned).__name__}."
            )
        if np.ndim(returned[0]) != 0:
            raise TargetError(
                f"The density returned a log density of shape {np.shape(returned[0])}: it is one "
                "number."
            )
        value, slope = _real(returned[0], "log density"), _real(returned[1], "gradient")
        if slope.shape != (self._ndim,):
            raise TargetError(
                f"The density returned a gradient of shape {slope.shape} for a point of "
                f"shape ({self._ndim},)."
            )
        return float(value), slope

    def _write(self, found: tuple[float, np.ndarray], grad: np.ndarray, logp: int) -> int:
        value, slope = found
        grad[:] = slope
        ctypes.c_double.from_address(logp).value = value  # last: it removes the caller's mark
        if self._check_finite and not (np.isfinite(value) and np.isfinite(slope).all()):
            return NOT_FINITE
        return SUCCESS

    def _keep(self, point: bytes, error: BaseException) -> None:
        with self._keeping:  # a point that raises again takes no other's place
            self._raised[point] = error
            self._raised.move_to_end(point)
            if len(self._raised) > KEPT_EXCEPTIONS:
                self._raised.popitem(last=False)

    def error_at(self, x: np.ndarray) -> BaseException | None:
        """The exception that the last call at x raised."""
        with self._keeping:
            kept = list(self._raised.items())
        for point, error in reversed(kept):
            if np.allclose(np.frombuffer(point), x, SAME_POINT, SAME_POINT, equal_nan=True):
                return error
        return None
