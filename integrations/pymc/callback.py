"""The slow way: PyTensor's own compiled function, called from the kernel through Python.

An operation without native code runs in Numba's object mode; an exception there ends a process
that has released the GIL. Behind a callback the same kernel runs, and an exception is kept.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict

import numpy as np
from numpy.linalg import LinAlgError

from mjhmc_numba.kernel.density import FINE, NOT_FINITE, RAISED

__all__ = ["CALLBACK_TYPE", "PythonDensity"]

CALLBACK_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)

# What a density raises at an impossible point, as opposed to by mistake.
REJECTIONS = (AssertionError, LinAlgError, FloatingPointError)

KEPT_EXCEPTIONS = 64


class PythonDensity:
    """A function (x, *arrays) -> (logp, grad) behind the C signature of a density.

    Attributes
    ----------
    address : address of the C function
    """

    def __init__(self, function, ndim: int, table):
        self._function = function
        self._vector = ctypes.c_double * ndim
        self._table = table
        self._raised: OrderedDict[bytes, BaseException] = OrderedDict()
        self._callback = CALLBACK_TYPE(self._call)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value

    def _call(self, x_, grad_, logp_, table_):
        try:
            x = np.frombuffer(self._vector.from_address(x_)).copy()
            logp, grad = self._function(x, *self._table.arrays)
            np.frombuffer(self._vector.from_address(grad_))[:] = grad
            ctypes.c_double.from_address(logp_).value = logp
            return FINE if np.isfinite(logp) and np.isfinite(grad).all() else NOT_FINITE
        except REJECTIONS:
            return NOT_FINITE
        except BaseException as error:  # a C caller cannot take it: keep it and say so
            self._raised[x.tobytes()] = error
            while len(self._raised) > KEPT_EXCEPTIONS:
                self._raised.popitem(last=False)
            return RAISED

    def error_at(self, x: np.ndarray) -> BaseException | None:
        """The exception that the last call at x raised."""
        return self._raised.get(np.asarray(x, dtype=float).tobytes())
