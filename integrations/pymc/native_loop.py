"""A compiled graph in a native loop over draws."""

from __future__ import annotations

import ctypes

import numpy as np

from mjhmc_numba.kernel.density import FINE
from mjhmc_numba.pymc.arrays import ArrayTable
from mjhmc_numba.pymc.errors import ExpansionError
from mjhmc_numba.pymc.native import SHAPE_VARIES, expansion_code

__all__ = ["VARYING_SHAPE", "NativeLoop"]

VARYING_SHAPE = (
    "A Deterministic changes its shape from draw to draw. Give it a fixed shape, or leave it out."
)

_C_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


class NativeLoop:
    """Runs a rewritten graph (x, *arrays) -> outputs on many x, writing each output in place."""

    def __init__(self, fgraph):
        self._code = expansion_code(fgraph)
        self._cfunc = self._code.compile()
        self._code.inner = None
        self._ndims = [output.type.ndim for output in fgraph.outputs]
        self._dtypes = self._code.dtypes[-len(self._ndims) :]

    def __call__(self, draws: np.ndarray, arrays: list[np.ndarray]) -> list[np.ndarray]:
        inputs = ArrayTable([*arrays, *self._code.constants])
        starts = inputs.used + np.cumsum([0, *(1 + n for n in self._ndims)])
        table = np.zeros(starts[-1], np.int64)
        table[: inputs.used] = inputs.table[: inputs.used]
        self._run(draws, 1, table)  # no output has an address yet: this asks for their shapes
        outputs = []
        for at, ndim, dtype in zip(starts[:-1], self._ndims, self._dtypes, strict=True):
            shape = table[at + 1 : at + 1 + ndim].tolist()
            outputs.append(np.empty((len(draws), *shape), dtype))
            table[at] = outputs[-1].ctypes.data
        self._run(draws, len(draws), table)
        return outputs

    def _run(self, draws, stop, table) -> None:
        draws = np.ascontiguousarray(draws)
        call = _C_TYPE(self._cfunc.address)
        code = call(draws.ctypes.data, 0, stop, table.ctypes.data)
        if code == SHAPE_VARIES:
            raise ExpansionError(VARYING_SHAPE)
        if code != FINE:
            raise ExpansionError("an operation raised an exception in native code")
