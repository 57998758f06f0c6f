"""What is to be estimated, as columns of numbers with names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from mjhmc_numba.estimates.error import in_pieces
from mjhmc_numba.estimates.errors import EstimateError

__all__ = ["as_columns", "labels"]

Functions = np.ndarray | Callable | Mapping[str, Any] | None


def labels(name: str, shape: Sequence[int]) -> list[str]:
    """A name for each number of an array, such as ``theta[2, 0]``."""
    return [
        f"{name}[{', '.join(map(str, index))}]" if index else name
        for index in product(*map(range, shape))
    ]


def as_columns(
    functions: Functions, draws: np.ndarray, names: Sequence[str]
) -> tuple[np.ndarray, list[str]]:
    """Values (chain, draw, q) of functions of the draws, each in one piece of memory, and q names.

    Parameters
    ----------
    functions : None, array, callable, or mapping of names to these
        None is the draws themselves. An array has shape (chain, draw, ...). A callable takes the
        draws (chain, draw, d) and returns such an array; truth values give a probability.
    draws : (chain, draw, d) array
    names : sequence of str
        Of the d dimensions.
    """
    if functions is None:
        return in_pieces(draws), list(names)
    if not isinstance(functions, Mapping):
        functions = {getattr(functions, "__name__", "f"): functions}
    columns, all_names = [], []
    for name, function in functions.items():
        values = np.asarray(function(draws) if callable(function) else function)
        if values.shape[:2] != draws.shape[:2]:
            raise EstimateError(
                f"{name} has shape {values.shape}, but a function of the draws has shape "
                f"(chain, draw, ...), here {draws.shape[:2]} and more."
            )
        columns.append(values.reshape(*values.shape[:2], -1))
        all_names += labels(name, values.shape[2:])
    rows = np.empty((len(all_names), *draws.shape[:2]))
    np.concatenate([a.transpose(2, 0, 1) for a in columns], out=rows)
    return rows.transpose(1, 2, 0), all_names
