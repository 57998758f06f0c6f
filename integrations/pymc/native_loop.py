"""A compiled graph in a native loop over draws."""

from __future__ import annotations

import ctypes

import numpy as np

from mjhmc_numba.density.signature import SUCCESS
from mjhmc_numba.density.table import ArrayTable
from mjhmc_numba.density.wrapper import SHAPE_VARIES
from mjhmc_numba.pymc.errors import ExpansionError
from mjhmc_numba.pymc.native import expansion_code

__all__ = ["VARYING_SHAPE", "NativeLoop"]

VARYING_SHAPE = (
    "A Deterministic changes its shape from draw to draw. Give it a fixed shape, or leave it out."
)

_C_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


class NativeLoop:
    """Runs a rewritten graph (x, *arrays) -> outputs on many x, writing each output in place.

    It owns the machine code and the constants of the graph. Each call makes a table of its own,
    so several threads may call it at once.
    """

    def __init__(self, fgraph):
        self._code = expansion_code(fgraph)
        self._cfunc = self._code.compile()
        self._code.inner = None

    def __call__(self, draws: np.ndarray, arrays: list[np.ndarray]) -> list[np.ndarray]:
        code = self._code
        values = [
            field.take(value)
            for field, value in zip(code.fields, [*arrays, *code.constants], strict=True)
        ]
        names = [field.name for field in code.fields]
        table = ArrayTable(draws.shape[1], values, names, code.outputs)
        self._run(draws, 1, table)  # no output has an address yet: this asks for their shapes
        outputs = []
        for k, field in enumerate(code.outputs):
            outputs.append(np.empty((len(draws), *table.output_shape(k)), field.dtype))
            table.connect(k, outputs[-1])
        self._run(draws, len(draws), table)
        return outputs

    def _run(self, draws, stop: int, table: ArrayTable) -> None:
        draws = np.ascontiguousarray(draws)
        call = _C_TYPE(self._cfunc.address)
        code = call(draws.ctypes.data, 0, stop, table.entries.ctypes.data)
        if code == SHAPE_VARIES:
            raise ExpansionError(VARYING_SHAPE)
        if code != SUCCESS:
            raise ExpansionError("an operation raised an exception in native code")
