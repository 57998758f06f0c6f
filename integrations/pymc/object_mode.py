"""Why a graph has no native code, and what is said of that."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Constant
from pytensor.tensor.type import DenseTensorType

from mjhmc_numba.kernel.user_warnings import warn_user
from mjhmc_numba.pymc.errors import ObjectModeWarning
from mjhmc_numba.pymc.numba_backend import NumbaLinker

__all__ = ["collect_object_mode", "not_native", "warn_of_object_mode"]


@contextmanager
def collect_object_mode() -> Iterator[list[str]]:
    """Fill a list with what PyTensor warns has no native code; other warnings pass."""
    reasons: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield reasons
    for w in caught:
        text = str(w.message)
        if "object mode" in text:
            reasons.append(text.split(". ")[0].rstrip("."))
        else:
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)


def not_native(fgraph, compile_kwargs: Mapping[str, Any]) -> list[str]:
    """What keeps a compiled graph from being native code."""
    return _not_dense(fgraph) + _not_numba(compile_kwargs)


def _not_dense(fgraph) -> list[str]:
    """Inputs and constants that no table of addresses and shapes can describe."""
    variables = fgraph.inputs + [
        v for node in fgraph.apply_nodes for v in node.inputs if isinstance(v, Constant)
    ]
    return [
        f"{v.name or v} is no dense array but {v.type}"
        for v in variables
        if hasattr(v.type, "format") and not isinstance(v.type, DenseTensorType)
    ]


def _not_numba(compile_kwargs) -> list[str]:
    """Why the user's own mode keeps the density from being native code."""
    mode = compile_kwargs.get("mode")
    if mode is None or isinstance(get_mode(mode).linker, NumbaLinker):
        return []
    return [f"compile_kwargs asks for mode {mode!r}, which is not one of PyTensor's Numba backend"]


def warn_of_object_mode(reasons: Sequence[str]) -> None:
    """Say why a model is sampled through Python, and what that costs."""
    warn_user(
        f"{'; '.join(dict.fromkeys(reasons))}. The model is sampled through PyTensor's own "
        "function instead: correct, but every gradient costs 10 microseconds or more on "
        "top and the chains of one process share one core. Write that operation in terms "
        "of others, or register a Numba implementation of it.",
        ObjectModeWarning,
    )
