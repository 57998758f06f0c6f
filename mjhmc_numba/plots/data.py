"""What the pictures are made of: draws and statistics by name, of any sampler that ArviZ knows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "as_arviz",
    "gradients_per_draw",
    "labels_of",
    "quantities",
    "statistic",
    "stored",
]


def as_arviz(data: Any) -> Any:
    """InferenceData or DataTree, from itself or from a `Result`."""
    return data.to_arviz() if hasattr(data, "to_arviz") else data


def statistic(data: Any, name: str, group: str = "sample_stats") -> np.ndarray | None:
    """A statistic (chain, draw), or None where there is none of that name."""
    if group not in data or name not in data[group]:
        return None
    return np.asarray(data[group][name].transpose("chain", "draw", ...), dtype=float)


def stored(data: Any, name: str) -> list:
    """What was written beside the statistics as JSON, one entry per chain; none if it was not."""
    return json.loads(data["sample_stats"].attrs.get(name, "[]"))


def gradients_per_draw(data: Any) -> float:
    """Mean over all draws after the warm-up; NaN where the sampler did not count them."""
    steps = statistic(data, "n_steps")
    return float("nan") if steps is None else float(steps.mean())


def _chosen(posterior: Any, var_names: str | Sequence[str] | None) -> list[str]:
    """ArviZ's `var_names`: some variables, or all but those with a "~"."""
    known = [str(name) for name in posterior.data_vars]
    if var_names is None:
        return known
    asked = [var_names] if isinstance(var_names, str) else list(var_names)
    for name in asked:
        if name.removeprefix("~") not in known:
            raise KeyError(f"{name} is none of the variables {', '.join(known)}.")
    if asked and all(name.startswith("~") for name in asked):
        return [name for name in known if f"~{name}" not in asked]
    return asked


def labels_of(array: Any) -> list[str]:
    """A label of each number of a variable's draw or state, such as ``theta[Choate, 0]``."""
    dims = [dim for dim in array.dims if dim not in ("chain", "draw", "jump")]
    if not dims:
        return [str(array.name)]
    coords = [array[dim].values for dim in dims]
    return [
        f"{array.name}[{', '.join(str(c[k]) for c, k in zip(coords, at, strict=True))}]"
        for at in np.ndindex(*(array.sizes[dim] for dim in dims))
    ]


def quantities(
    data: Any, var_names: str | Sequence[str] | None = None
) -> tuple[list[str], np.ndarray]:
    """Labels and values (chain, draw, quantity) of all numbers of some variables that vary."""
    posterior = data["posterior"]
    labels: list[str] = []
    parts = []
    for name in _chosen(posterior, var_names):
        array = posterior[name].transpose("chain", "draw", ...)
        labels += labels_of(array)
        parts.append(np.asarray(array, dtype=float).reshape(*array.shape[:2], -1))
    values = np.concatenate(parts, axis=2)
    moving = np.flatnonzero(np.ptp(values, axis=(0, 1)) > 0)
    if not moving.size:
        raise ValueError("None of the variables varies.")
    return [labels[j] for j in moving], values[:, :, moving]
