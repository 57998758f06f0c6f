"""From the weighted states of the jump process to draws, and to a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray

from mjhmc_numba import weights as weighting
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.plots.data import labels_of
from mjhmc_numba.pymc.errors import UnknownVariableError
from mjhmc_numba.pymc.jump_record import GROUP, TIMES
from mjhmc_numba.pymc.packaging import as_dataset, from_groups
from mjhmc_numba.settings import check_counts

__all__ = ["resample", "weighted_summary"]

TIME_OF = dict(zip(("sampled", "expected"), TIMES, strict=True))
QUANTILES = {"5%": 0.05, "50%": 0.5, "95%": 0.95}
# They belong to the model and its data, whatever the draws.
KEPT_GROUPS = ("observed_data", "constant_data")


def resample(
    idata: Any,
    draws: int | None = None,
    *,
    method: weighting.Resampling = "systematic",
    weights: str = "expected",
    var_names: Sequence[str] | str | None = None,
    random_seed: Any = None,
) -> Any:
    """An ordinary posterior from the jump record, by the time that was spent in each state.

    This is the last line of the paper's algorithm. Each chain is resampled by itself, and its
    draws keep the order of the process, so R-hat and effective sample sizes mean what they always
    do.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``mjhmc_numba.pymc.sample(jumps=True)`` returned.
    draws : int, optional
        Draws of each chain; as many as the posterior has by default.
    method : {"systematic", "stratified", "multinomial"}
        How states are chosen; see `mjhmc_numba.weights.resample`.
    weights : {"expected", "sampled"}
        Which holding times are the weights. Expected ones are no less accurate.
    var_names : str or sequence of str, optional
        Variables to keep; all of the record by default.
    random_seed : object
        Anything that `numpy.random.default_rng` takes.

    Returns
    -------
    InferenceData or DataTree
        With a group posterior, and observed_data and constant_data as they were.
    """
    record = _record(idata, var_names)
    if draws is None:
        draws = idata["posterior"].sizes["draw"]
    check_counts(draws=draws)
    rng = np.random.default_rng(random_seed)
    parts, numbers = [], []
    for number, chain in _chains(record):
        chosen = weighting.resample(_weights(chain, weights), draws, method, rng)
        part = chain.drop_vars([*TIMES, "event", "chain", "jump"]).isel(jump=np.sort(chosen))
        parts.append(part.rename(jump="draw"))
        numbers.append(number)
    posterior = xarray.concat(parts, dim="chain", coords="minimal", compat="override", join="exact")
    posterior = posterior.assign_coords(chain=numbers, draw=np.arange(draws))
    posterior.attrs = record.attrs | {"resampled": method, "weights": TIME_OF[weights]}
    groups = {name: as_dataset(idata[name]) for name in KEPT_GROUPS if name in idata}
    return from_groups({"posterior": posterior, **groups}, like=idata)


def weighted_summary(
    idata: Any, var_names: Sequence[str] | str | None = None, *, weights: str = "expected"
) -> Any:
    """Posterior means and their errors, straight from the weighted jump record.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``mjhmc_numba.pymc.sample(jumps=True)`` returned.
    var_names : str or sequence of str, optional
        Variables of the record; all by default.
    weights : {"expected", "sampled"}
        Which holding times are the weights.

    Returns
    -------
    pandas.DataFrame
        A row for each number: mean, sd, quantiles, the mean's Monte Carlo error, the effective
        sample size and R-hat; see `mjhmc_numba.weights.summary`.
    """
    import pandas as pd

    record = _record(idata, var_names)
    chains = [chain for _, chain in _chains(record)]
    times = [_weights(chain, weights) for chain in chains]
    rows = {}
    for name in record.data_vars:
        if name in (*TIMES, "event"):
            continue
        values = [np.asarray(chain[name], float).reshape(len(chain.jump), -1) for chain in chains]
        together = np.concatenate(values), list(QUANTILES.values()), np.concatenate(times)
        made = weighting.summary(values, times)
        quantiles = dict(zip(QUANTILES, weighting.quantile(*together), strict=True))
        columns = {"mean": made.pop("mean"), "sd": made.pop("sd"), **quantiles, **made}
        for k, label in enumerate(labels_of(record[name])):
            rows[label] = {column: float(array[k]) for column, array in columns.items()}
    return pd.DataFrame.from_dict(rows, orient="index")


def _record(idata: Any, var_names: Sequence[str] | str | None) -> xarray.Dataset:
    if GROUP not in idata:
        raise SettingsError(
            f"There is no group {GROUP}: sample with mjhmc_numba.pymc.sample(jumps=True)."
        )
    record = as_dataset(idata[GROUP])
    if var_names is None:
        return record
    names = [var_names] if isinstance(var_names, str) else list(var_names)
    unknown = [name for name in names if name not in record]
    if unknown:
        raise UnknownVariableError(
            f"The jump record has no {', '.join(unknown)}. What it keeps is chosen by "
            "sample(jumps=[...])."
        )
    return record[[*names, *TIMES, "event"]]


def _chains(record: xarray.Dataset) -> Iterator[tuple[int, xarray.Dataset]]:
    numbers = record["chain"].values
    for number in np.unique(numbers):
        yield int(number), record.isel(jump=np.flatnonzero(numbers == number))


def _weights(chain: xarray.Dataset, which: str) -> np.ndarray:
    if which not in TIME_OF:
        raise SettingsError(f"weights={which!r} is none of {', '.join(map(repr, TIME_OF))}.")
    return np.asarray(chain[TIME_OF[which]])
