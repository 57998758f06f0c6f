"""Lengths of the dimensions of a model, which follow its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pytensor.graph.basic import Constant

from mjhmc_numba.pymc.errors import ModelChangedError, UnknownVariableError

__all__ = ["with_dim_lengths"]


def with_dim_lengths(model, data: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The data and the lengths of the dimensions that change with it."""
    known = {v.name for v in model.data_vars}
    pinned = {}
    for name, value in data.items():
        if name not in known:
            raise UnknownVariableError(
                f"The model has no data {name}; it has {', '.join(sorted(known)) or 'none'}."
            )
        pinned[name] = value = np.asarray(value)
        for dim, length in zip(model.named_vars_to_dims.get(name, ()), value.shape, strict=False):
            pinned.update(_dim_length(model, dim, length))
    return pinned


def _dim_length(model, dim, length) -> dict[str, np.ndarray]:
    symbol = model.dim_lengths.get(dim)
    if symbol is None or int(symbol.eval()) == length:
        return {}
    resized = [rv.name for rv in model.free_RVs if dim in model.named_vars_to_dims.get(rv.name, ())]
    if resized or isinstance(symbol, Constant):
        who = f"{', '.join(resized)} would be resized" if resized else "its length is fixed"
        raise ModelChangedError(
            f"Dimension {dim} would have length {length}, but {who}. Set the data in the model "
            "and compile it again."
        )
    return {symbol.name: np.asarray(length)}
