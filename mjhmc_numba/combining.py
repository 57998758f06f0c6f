"""Chains that ran apart, put together."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from mjhmc_numba.diagnostics import diagnose
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.results import Result

__all__ = ["combine"]

# Fields of a result that have an entry for each chain, by how they are put together.
STACKED = ("draws", "warmup_draws", "warmup_gradients")
NAMED = ("stats", "warmup_stats")
LISTED = ("tuned", "chains", "rerun", "jumps", "warmup_windows", "superchains")
# Attributes of a group that do.
OF_EACH_CHAIN = (
    "integrator",
    "step_size",
    "num_steps",
    "refresh_rate",
    "draw_interval",
    "metric_rank",
    "warmup_gradients",
    "warmup_windows",
    "reparametrisation",
    "reparametrisation_parents",
)
# What must agree.
SHARED = ("seed", "names", "tune", "settings")


def combine(parts: Iterable[Any]) -> Any:
    """Put chains together that ran apart, such as those of `run_chain`.

    Parameters
    ----------
    parts : iterable of Result, of InferenceData or DataTree, or of paths
        The chains, in any order, each number once. Paths are files or stores (netCDF, zarr) of
        ArviZ objects.

    Returns
    -------
    Result, InferenceData or DataTree
        One `Result` of results, whose warnings also compare the chains; else what ArviZ has.
    """
    parts = list(parts)
    if not parts:
        raise SettingsError("There is nothing to combine.")
    if all(isinstance(part, Result) for part in parts):
        return _combine_results(parts)
    if any(isinstance(part, Result) for part in parts):
        raise SettingsError("Results are combined with results, ArviZ objects with their like.")
    return _combine_arviz([_read(p) if isinstance(p, str | os.PathLike) else p for p in parts])


def _order(chains: list[int]) -> np.ndarray:
    twice = sorted({k for k in chains if chains.count(k) > 1})
    if twice:
        raise SettingsError(f"These chains are there twice: {', '.join(map(str, twice))}.")
    return np.argsort(chains)


def _combine_results(parts: list[Result]) -> Result:
    first = parts[0]
    for name in SHARED:
        if any(getattr(part, name) != getattr(first, name) for part in parts):
            raise SettingsError(f"The chains are not of one run: their {name} differ.")
    if any(part.draws.shape[1:] != first.draws.shape[1:] for part in parts):
        shapes = ", ".join(str(part.draws.shape[1:]) for part in parts)
        raise SettingsError(f"The chains have different numbers of draws: {shapes}.")
    order = _order([k for part in parts for k in part.chains])
    joined: dict[str, Any] = {
        name: _stacked([getattr(part, name) for part in parts], order) for name in STACKED
    }
    for name in NAMED:
        dicts = [getattr(part, name) for part in parts]
        whole = all(values is not None for values in dicts)
        joined[name] = (
            {key: _stacked([values[key] for values in dicts], order) for key in dicts[0]}
            if whole
            else None
        )
    for name in LISTED:
        joined[name] = _listed([getattr(part, name) for part in parts], order)
    joined["interrupted"] = any(part.interrupted for part in parts)
    result = dataclasses.replace(first, **joined, ends=None, _continue=None)
    result.warnings = diagnose(result) if result.draws.shape[1] else []
    return result


def _stacked(arrays: list, order: np.ndarray) -> np.ndarray | None:
    if any(array is None for array in arrays):
        return None
    return np.concatenate(arrays)[order]


def _listed(lists: list, order: np.ndarray) -> list | None:
    if any(values is None for values in lists):
        return None
    joined = [value for values in lists for value in values]
    return [joined[k] for k in order] if len(joined) == len(order) else sorted(joined)


# ---------------------------------------------------------------------------- ArviZ objects


def _read(path: str | os.PathLike) -> Any:
    import arviz
    import xarray

    if not Path(path).is_dir():
        return arviz.from_netcdf(str(path))
    tree = xarray.open_datatree(str(path), engine="zarr", consolidated=False)
    # ArviZ 0.x reads no zarr of the third generation, which xarray does.
    return arviz.from_datatree(tree) if hasattr(arviz, "from_datatree") else tree


def _combine_arviz(parts: list) -> Any:
    import xarray

    groups = [_groups(part) for part in parts]
    if any(set(part) != set(groups[0]) for part in groups):
        raise SettingsError("The chains have different groups: they are not of one run.")
    joined = {}
    for name, dataset in groups[0].items():
        if "chain" not in dataset.dims:
            joined[name] = dataset
            continue
        datasets = [part[name] for part in groups]
        order = _order([int(k) for d in datasets for k in d["chain"].values])
        whole = xarray.concat(datasets, "chain", join="exact", combine_attrs="drop")
        joined[name] = whole.isel(chain=order).assign_attrs(_attributes(datasets, order))
    if hasattr(parts[0], "from_dict"):
        return type(parts[0]).from_dict({f"/{name}": d for name, d in joined.items()})
    return type(parts[0])(**joined)


def _groups(part: Any) -> dict[str, Any]:
    """Datasets by the name of their group, in InferenceData and in a DataTree."""
    if hasattr(part, "children"):
        return {name: node.to_dataset() for name, node in part.children.items()}
    return {name: part[name] for name in part.groups()}


def _attributes(datasets: list, order: np.ndarray) -> dict[str, Any]:
    """Those that agree, and those that have an entry for each chain."""
    attributes = {}
    lengths = [dataset.sizes["chain"] for dataset in datasets]
    for name, first in datasets[0].attrs.items():
        values = [dataset.attrs.get(name) for dataset in datasets]
        unpack, pack = PACKED.get(name, (np.atleast_1d, _plain))
        if name in OF_EACH_CHAIN and None not in values:
            entries = [unpack(value) for value in values]
            if [len(e) for e in entries] == lengths:
                joined = [entry for e in entries for entry in e]
                attributes[name] = pack([joined[k] for k in order])
        elif all(np.array_equal(value, first) for value in values):
            attributes[name] = first
    return attributes


def _plain(values: list) -> list:
    """Python's own numbers and strings, which every file format takes."""
    return np.array(values).tolist()


# How attributes are written that are no lists.
PACKED: dict[str, tuple[Callable, Callable]] = {
    "integrator": (lambda text: text.split(", "), ", ".join),
    "warmup_windows": (json.loads, json.dumps),
    "reparametrisation": (json.loads, json.dumps),
}
