"""The weighted states of the jump process, in the variables of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.expand import Expansion
from mjhmc_numba.pymc.packaging import add_group, as_dataset, to_arviz
from mjhmc_numba.results import Result

__all__ = ["GROUP", "TIMES", "add_record", "record_names"]

GROUP = "jump_record"
TIMES = ("holding_time", "expected_holding_time")
OWN = (*TIMES, "event", "chain", "jump")
ABOUT = {
    "holding_time": "system time spent in the state, as it was sampled",
    "expected_holding_time": "its expectation, one over the total rate of leaving the state",
    "event": "what ended the visit: a move (L), a flip (F) or a refresh (R)",
}


def record_names(density: ModelDensity, var_names: Sequence[str] | None, jumps: Any) -> list[str]:
    """The variables that a record keeps, `jumps` as a user gave it.

    Raises if these are no names, or names of the record's own.
    """
    if isinstance(jumps, bool):
        names = list(var_names) if var_names else [rv.name for rv in density.model.free_RVs]
    elif isinstance(jumps, Sequence):
        names = [jumps] if isinstance(jumps, str) else list(jumps)
    else:
        names = []
    if not names or not all(isinstance(name, str) for name in names):
        raise SettingsError(f"jumps is True, False, or names of variables to keep, not {jumps!r}.")
    dims = {dim for name in names for dim in density.model.named_vars_to_dims.get(name, ())}
    taken = sorted({*names, *dims} & set(OWN))
    if taken:
        raise SettingsError(
            f"A jump record has {', '.join(taken)} of its own, and so has the model. Name the "
            "variables to keep by jumps=[...], or rename them in the model."
        )
    return names


def add_record(
    data: Any,
    expansion: Expansion,
    density: ModelDensity,
    result: Result,
    attributes: Mapping[str, Any],
) -> None:
    """Add the group `jump_record` to what `pm.sample` returns.

    Chains make different numbers of jumps, so the states of all of them lie along one dimension,
    `jump`, and the coordinate `chain` says whose each is.
    """
    assert result.jumps is not None
    x, *times, event = (
        np.concatenate([chain[name] for chain in result.jumps]) for name in ("x", *TIMES, "event")
    )
    made = to_arviz(  # as one chain, for PyMC's dimensions and coordinates
        density,
        expansion(x[None], density=density),
        {"event": event[None]},
        n_tune=0,
        chains=[0],
        seconds=0.0,
        attributes={},
        idata_kwargs={},
    )["posterior"]
    record = as_dataset(made).isel(chain=0, drop=True).rename(draw="jump")
    numbers = np.repeat(result.chains, [len(chain["event"]) for chain in result.jumps])
    record = record.assign(dict(zip(TIMES, [("jump", time) for time in times], strict=True)))
    record = record.assign(event=("jump", event)).assign_coords(chain=("jump", numbers))
    for name, text in ABOUT.items():
        record[name].attrs["description"] = text
    record["event"].attrs |= {"flag_values": [1, 2, 3], "flag_meanings": "L F R"}
    record.attrs = dict(attributes)
    add_group(data, GROUP, record)
