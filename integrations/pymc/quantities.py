"""What a run in rounds looks at: variables of the model, and functions of the posterior."""

from __future__ import annotations

import numpy as np
import xarray

from mjhmc_numba.estimates import EstimateError, Until
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.expand import Expansion
from mjhmc_numba.pymc.packaging import as_dataset, to_arviz

__all__ = ["Quantities", "posterior_values"]


class Quantities:
    """Draws (chain, draw, d) -> what `until` names, each (chain, draw, ...).

    Parameters
    ----------
    until : Until
        What to look at: free variables, transformed ones, Deterministics, functions.
    density : ModelDensity
        Of the run, with its data.
    expansion : Expansion
        From draws to the variables that are kept, which functions get.

    Raises `UnknownVariableError` where the model has no such variable.
    """

    def __init__(self, until: Until, density: ModelDensity, expansion: Expansion):
        self._functions = dict(until.functions or {})
        self._density = density
        # Not `expansion` itself, which another thread may be at: PyTensor's functions are not
        # reentrant.
        names = expansion.names if until.names is None else until.names
        self._named, self._kept = (
            Expansion(expansion.density, wanted, take_transformed=True)
            for wanted in (names, expansion.names)
        )

    def __call__(self, draws: np.ndarray) -> dict[str, np.ndarray]:
        values = self._named(draws, density=self._density)
        if not self._functions:
            return values
        posterior = self._posterior(draws)
        return values | {
            name: posterior_values(name, function(posterior))
            for name, function in self._functions.items()
        }

    def _posterior(self, draws: np.ndarray) -> xarray.Dataset:
        """With the coordinates of the model."""
        data = to_arviz(
            self._density,
            self._kept(draws.copy(), density=self._density, in_place=True),
            {"lp": np.zeros(draws.shape[:2])},
            n_tune=0,
            chains=range(len(draws)),
            seconds=0.0,
            attributes={},
            idata_kwargs={},
        )
        return as_dataset(data["posterior"])


def posterior_values(name: str, values) -> np.ndarray:
    """What a function of the posterior returned, as (chain, draw, ...)."""
    if isinstance(values, xarray.DataArray):
        if not {"chain", "draw"} <= set(values.dims):
            raise EstimateError(f"{name} has dimensions {values.dims}, without chain and draw.")
        values = values.transpose("chain", "draw", ...).values
    return np.asarray(values)
