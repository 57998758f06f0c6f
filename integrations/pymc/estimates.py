"""Sharper posterior means and the evidence of PyMC models, from the draws of any sampler."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray

from mjhmc_numba.coordinates import Reparametrisation
from mjhmc_numba.estimates import EstimateError, Estimates, Evidence, estimate, evaluate
from mjhmc_numba.estimates import log_marginal_likelihood as bridge
from mjhmc_numba.estimates.table import COLUMNS
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.errors import DiscreteVariableError, ModelChangedError
from mjhmc_numba.pymc.expand import Expansion
from mjhmc_numba.pymc.packaging import as_dataset
from mjhmc_numba.pymc.unconstrain import unconstrain

__all__ = ["estimates", "log_marginal_likelihood"]

COMPARED = 8  # draws of each chain whose stored gradients or densities are compared with our own
IMPROPER = ("FlatRV", "HalfFlatRV")


def estimates(
    idata: Any,
    model: Any = None,
    var_names: Sequence[str] | str | None = None,
    functions: Mapping[str, Callable | np.ndarray] | None = None,
    *,
    fmt: str = "xarray",
    if_refused: str = "raise",
    cores: int | None = None,
) -> Any:
    """Posterior means and standard deviations, sharper than averages of the draws.

    Each draw has a gradient, and Stein's identity makes control variates of it: see
    `mjhmc_numba.estimates`. The draws may be those of any sampler; gradients are computed from the
    model, or taken from what ``mjhmc_numba.pymc.sample(store_gradients=True)`` or nutpie's
    ``store_gradient=True`` and ``store_unconstrained=True`` have stored. Where the warm-up of
    `mjhmc_numba.pymc.sample` has found better coordinates, they are used.

    Parameters
    ----------
    idata : InferenceData or DataTree
        With a posterior group that has all free variables.
    model : pm.Model or CompiledModel, optional
        With the data that it was sampled with; the model of the `with` block by default.
    var_names : str or list of str, optional
        Free variables, transformed ones (``sigma_log__``) and Deterministics; all but the
        transformed ones by default.
    functions : mapping of str to callable or array, optional
        More quantities by name: functions of the posterior (a Dataset) with results
        (chain, draw, ...). Truth values give probabilities.
    fmt : {"xarray", "wide"}
        A Dataset, or a DataFrame in the shape of `az.summary`.
    if_refused : {"raise", "plain"}
        What to do where Stein's identity does not hold: raise, or return plain averages.
    cores : int, optional
        Threads that compute gradients.

    Returns
    -------
    xarray.Dataset or pandas.DataFrame
        For each quantity, along the dimension `metric`: mean, sd, their Monte Carlo errors, the
        gains (how many times the draws a plain average would need) and the plain average's
        effective number of draws. Attributes `notes` and `refused` say what was left plain, and
        why. The DataFrame has a row for each number; `attrs` are the same.
    """
    if fmt not in ("xarray", "wide"):
        raise EstimateError(f'fmt is "xarray" or "wide", not {fmt!r}.')
    density = _density(model)
    posterior = _dataset(idata, "posterior")
    stats = _statistics(idata)
    draws, grads = _draws(density, posterior, stats)
    arrays = _quantities(density, posterior, draws, var_names, functions)
    found = estimate(
        draws,
        grads,
        {name: np.asarray(array.values) for name, array in arrays.items()},
        density=density.target(),
        names=density.layout.labels,
        reparametrisation=_coordinates(stats, density),
        if_refused=if_refused,
        cores=cores if density.is_native else 1,
    )
    return _to_xarray(found, arrays) if fmt == "xarray" else _to_frame(found)


def log_marginal_likelihood(
    idata: Any, model: Any = None, *, random_seed: Any = None, cores: int | None = None
) -> Evidence:
    """Log evidence of a model by bridge sampling, with its standard error.

    Parameters
    ----------
    idata : InferenceData or DataTree
        Draws of any sampler, of all free variables.
    model : pm.Model or CompiledModel, optional
        The model of the `with` block by default.
    random_seed : int, optional
        Seeds the proposals.
    cores : int, optional
        Threads that evaluate the density.

    Returns
    -------
    Evidence
        The difference of two models' `log_evidence` is the log of their Bayes factor.
    """
    density = _density(model)
    improper = [rv.name for rv in density.model.free_RVs if _kind(rv) in IMPROPER]
    if improper:
        raise EstimateError(
            f"The prior of {', '.join(improper)} is improper, so the evidence is not defined."
        )
    stats = _statistics(idata)
    draws, grads = _draws(density, _dataset(idata, "posterior"), stats)
    cores = cores if density.is_native else 1
    return bridge(
        draws,
        density.target(),
        grads=grads,
        reparametrisation=_coordinates(stats, density),
        seed=random_seed,
        cores=cores,
    )


# ------------------------------------------------------------------ model and draws


def _kind(rv) -> str:
    return type(rv.owner.op).__name__


def _density(model) -> ModelDensity:
    density = getattr(model, "density", None)
    if isinstance(density, ModelDensity):
        density.check_unchanged()
        density.update_data()
        return density
    density = ModelDensity(model)
    discrete = [v.name for v in density.model.discrete_value_vars]
    if discrete:
        raise DiscreteVariableError(
            f"{', '.join(discrete)} is discrete and has no gradient. Sum it out of the model."
        )
    return density


def _dataset(idata, group: str) -> xarray.Dataset:
    if group not in idata:
        raise EstimateError(f"There is no group {group} in what was given as idata.")
    return as_dataset(idata[group])


def _statistics(idata) -> xarray.Dataset:
    """Those of the draws, or none."""
    return _dataset(idata, "sample_stats") if "sample_stats" in idata else xarray.Dataset()


def _draws(density: ModelDensity, posterior, stats) -> tuple[np.ndarray, np.ndarray | None]:
    """Unconstrained draws, and gradients if some are stored that are this density's."""
    draws, grads = _stored(stats, density) or (unconstrain(density, posterior), None)
    some = slice(None, None, max(draws.shape[1] // COMPARED, 1))
    logp, ours = evaluate(density.target(), draws[:, some], 1)
    if "lp" in stats:
        _check_same_model(stats["lp"].transpose("chain", "draw").values[:, some], logp)
    # Another compiler or machine rounds otherwise; other data would change them by more.
    if grads is not None and not np.allclose(ours, grads[:, some], rtol=1e-6, atol=1e-8):
        return unconstrain(density, posterior), None
    return draws, grads


def _stored(stats, density: ModelDensity) -> tuple[np.ndarray, np.ndarray] | None:
    """Unconstrained draws and gradients that we or nutpie have stored."""
    if "gradient" not in stats or "unconstrained_draw" not in stats:
        return None
    draws, grads = (
        np.asarray(stats[name].transpose("chain", "draw", ...).values, dtype=float)
        for name in ("unconstrained_draw", "gradient")
    )
    if draws.ndim != 3 or draws.shape[2] != density.ndim:
        return None
    return draws, grads


def _coordinates(stats, density: ModelDensity) -> Reparametrisation | None:
    """Those that the warm-up of our chains has found, where there are any."""
    text = stats.attrs.get("exact_reparametrisation", "")
    if not text:
        return None
    found = Reparametrisation.from_json(text)
    found.check(density.ndim)
    return found


def _check_same_model(stored: np.ndarray, ours: np.ndarray) -> None:
    """Raise if log densities differ from the stored ones by more than a constant."""
    # Other code adds up in another order: 1e6 terms err by 1e-10. Other data change them by more.
    if not np.ptp(ours - stored) < 1e-6 * (1.0 + np.abs(ours).max()):
        raise ModelChangedError(
            "The log density of the model at the draws is not the one that was stored with them. "
            "Give the model, and the data in it, that the draws came from."
        )


def _quantities(
    density: ModelDensity, posterior, draws, var_names, functions
) -> dict[str, xarray.DataArray]:
    """What to estimate, by name, each (chain, draw, ...)."""
    model = density.model
    if isinstance(var_names, str):
        var_names = [var_names]
    if var_names is None:
        known = [v.name for v in model.free_RVs + model.deterministics]
        var_names = [name for name in known if name in posterior]
    absent = [name for name in var_names if name not in posterior]
    made: dict[str, Any] = {}
    if absent:
        made = Expansion(density, absent, take_transformed=True)(draws)
    arrays = {name: posterior.get(name, made.get(name)) for name in var_names}
    for name, function in (functions or {}).items():
        arrays[name] = function(posterior) if callable(function) else function
    return {name: _as_array(name, array) for name, array in arrays.items()}


def _as_array(name: str, values) -> xarray.DataArray:
    if isinstance(values, xarray.DataArray):
        return values.transpose("chain", "draw", ...)
    values = np.asarray(values)
    if values.ndim < 2:
        raise EstimateError(f"{name} has shape {values.shape}, not (chain, draw, ...).")
    dims = ["chain", "draw", *(f"{name}_dim_{k}" for k in range(values.ndim - 2))]
    return xarray.DataArray(values, dims=dims)


# ------------------------------------------------------------------ results


def _attributes(found: Estimates) -> dict[str, str]:
    return {"refused": found.refused, "notes": json.dumps(found.notes)}


def _to_xarray(found: Estimates, arrays: Mapping[str, xarray.DataArray]) -> xarray.Dataset:
    table = np.stack([getattr(found, column) for column in COLUMNS])
    variables, at = {}, 0
    for name, array in arrays.items():
        one = array.isel(chain=0, draw=0, drop=True)
        part = table[:, at : at + one.size].reshape(len(COLUMNS), *one.shape)
        at += one.size
        variables[name] = xarray.DataArray(part, dims=["metric", *one.dims], coords=one.coords)
    data = xarray.Dataset(variables, attrs=_attributes(found))
    return data.assign_coords(metric=list(COLUMNS))


def _to_frame(found: Estimates):
    import pandas as pd

    table = np.stack([getattr(found, column) for column in COLUMNS], axis=1)
    frame = pd.DataFrame(table, index=found.names, columns=list(COLUMNS))
    frame.attrs = _attributes(found)
    return frame
