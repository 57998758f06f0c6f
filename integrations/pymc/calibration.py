"""Simulation-based calibration: are posteriors of simulated data right on average?

Parameters are drawn from the prior, data given them, and the posterior given the data is sampled:
the rank of the former among the draws is uniform if model and sampler are right (Talts et al.,
2018). The band around the ECDF of the ranks is simultaneous (Säilynoja, Bürkner and Vehtari 2022).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pymc as pm
import xarray
from pymc.model import modelcontext
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors
from scipy import stats

from mjhmc_numba.pymc.compiled import CompiledModel
from mjhmc_numba.pymc.compiled import compile as compile_model
from mjhmc_numba.pymc.errors import ModelError
from mjhmc_numba.pymc.mapping import Mapped
from mjhmc_numba.pymc.unconstrain import unconstrain

__all__ = ["Calibration", "sbc"]

LOG_DENSITY = "log_density"
LEVELS = 99  # ranks are percentiles
NULL_SIMULATIONS = 2000  # of exact ranks: a band of 95 % is known to 0.5 %


@dataclass
class Calibration:
    """Ranks of simulated parameters among the draws of their posteriors.

    Parameters
    ----------
    ranks : xarray.Dataset
        From 0 to `levels`, along `dataset`; of the free variables and of the joint log density.
    levels : int
        Draws that each was ranked among.
    mapped : Mapped
        The posteriors, their statistics, and what failed.
    """

    ranks: xarray.Dataset
    levels: int
    mapped: Mapped

    def __repr__(self) -> str:
        worst = self.p_values()
        name = min(worst, key=worst.__getitem__)
        return (
            f"<Calibration: {self.ranks.sizes['dataset']} simulations, {len(worst)} quantities, "
            f"smallest p-value {worst[name]:.2g} ({name})>"
        )

    @property
    def failures(self) -> dict[Hashable, BaseException]:
        return self.mapped.failures

    def quantities(self) -> dict[str, np.ndarray]:
        """Ranks of each number, by its name."""
        found = {}
        for name, values in self.ranks.data_vars.items():
            flat = values.values.reshape(len(values), -1)
            for j in range(flat.shape[1]):
                index = np.unravel_index(j, values.shape[1:])
                label = f"{name}[{', '.join(map(str, index))}]" if index else str(name)
                found[label] = flat[:, j]
        return found

    def p_values(self, seed: int = 0) -> dict[str, float]:
        """For each quantity, how often uniform ranks stray at least as far from uniformity."""
        null = _null(self.ranks.sizes["dataset"], self.levels, seed)
        strayed = {
            name: _least_tail(_counts(ranks[None], self.levels), len(ranks), self.levels)[0]
            for name, ranks in self.quantities().items()
        }
        return {
            name: float((1 + (null <= value).sum()) / (1 + len(null)))
            for name, value in strayed.items()
        }

    def band(self, prob: float = 0.95, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the ECDF at 1 / (levels + 1), 2 / (levels + 1) ... 1; all of it
        lies between them with this probability.
        """
        n = self.ranks.sizes["dataset"]
        tail = np.quantile(_null(n, self.levels, seed), 1 - prob)
        points = np.arange(1, self.levels + 2) / (self.levels + 1)
        low, high = stats.binom.ppf([[tail / 2], [1 - tail / 2]], n, points)
        return low / n, high / n

    def plot(self, prob: float = 0.95, ax: Any = None) -> Any:
        """Differences of each ECDF of ranks from the uniform one, with their simultaneous band."""
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(7, 4))[1] if ax is None else ax
        points = np.arange(1, self.levels + 2) / (self.levels + 1)
        low, high = self.band(prob)
        label = f"{100 * prob:g} % band"
        ax.fill_between(points, low - points, high - points, color="0.85", step="mid", label=label)
        quantities = self.quantities()
        for name, ranks in quantities.items():
            ecdf = _counts(ranks[None], self.levels)[0] / len(ranks)
            ax.step(points, ecdf - points, where="mid", label=name, linewidth=1)
        ax.set(xlabel="fractional rank", ylabel="ECDF - uniform")
        if len(quantities) <= 12:  # more would hide the picture
            ax.legend(fontsize="small", ncols=2)
        return ax


def sbc(
    model: pm.Model | CompiledModel | None = None,
    simulations: int = 500,
    draws: int = 1000,
    tune: int = 500,
    *,
    levels: int | None = None,
    random_seed: Any = None,
    **options: Any,
) -> Calibration:
    """Simulation-based calibration of a model and of the sampler on it.

    Parameters
    ----------
    model : pm.Model or CompiledModel, optional
        That of the `with` block by default. What is observed must be `pm.Data`.
    simulations : int
        Data sets to simulate.
    draws, tune : int
        Of one chain for each.
    levels : int, optional
        Draws, evenly spaced, that a parameter is ranked among. They should be nearly independent.
        99 by default, or all where there are fewer.
    random_seed : object
        Anything that `pm.sample` takes.
    **options
        Those of `CompiledModel.map`.

    Returns
    -------
    Calibration
    """
    compiled = model if isinstance(model, CompiledModel) else compile_model(modelcontext(model))
    density = compiled.density
    built: pm.Model = density.model
    levels = min(LEVELS, draws) if levels is None else levels
    if not 1 <= levels <= draws:
        raise ModelError(f"levels is a whole number from 1 to draws ({draws}), not {levels}.")
    data_of = {rv.name: _data_name(built, rv) for rv in built.observed_RVs}
    if not data_of:
        raise ModelError("The model observes nothing: there are no data to simulate.")
    generators = np.random.default_rng(random_seed).spawn(2)
    prior, observed = _simulate(built, simulations, generators[0])
    datasets = [{data_of[n]: v[i] for n, v in observed.items()} for i in range(simulations)]
    mapped = compiled.map(datasets, draws, tune, 1, random_seed=generators[1], **options)
    kept = mapped.posterior["dataset"].values
    chosen = np.linspace(0, draws - 1, levels).round().astype(int)
    ranks = {}
    for rv in built.free_RVs:
        values = mapped.posterior[rv.name]
        ranks[rv.name] = values.dims[3:], _ranks(values.values, prior[rv.name][kept], chosen)
    x = unconstrain(density, {name: values[None] for name, values in prior.items()})[0]
    truth = [density.with_data(**datasets[i]).logp_and_grad(x[i])[0] for i in kept]
    lp = mapped.sample_stats["lp"].values
    ranks[LOG_DENSITY] = (), _ranks(lp, np.array(truth), chosen)
    named = {name: (("dataset", *dims), values) for name, (dims, values) in ranks.items()}
    return Calibration(xarray.Dataset(named, {"dataset": kept}), levels, mapped)


def _data_name(model: pm.Model, rv: Any) -> str:
    """The `pm.Data` that a variable is observed as."""
    names = {v.name for v in model.data_vars}
    found = [
        v.name
        for v in ancestors([model.rvs_to_values[rv]])
        if isinstance(v, SharedVariable) and v.name in names
    ]
    if len(found) != 1:
        raise ModelError(
            f"{rv.name} is not observed as pm.Data, which simulated data could replace: write "
            f"observed=pm.Data(...)."
        )
    return found[0]


def _simulate(model: pm.Model, simulations: int, rng: np.random.Generator) -> tuple[dict, dict]:
    """Free variables from the prior, and what is observed given them; (simulation, ...) each."""
    with model:
        data = pm.sample_prior_predictive(
            simulations, random_seed=int(rng.integers(2**31)), var_names=None
        )
    prior = {rv.name: data["prior"][rv.name].values[0] for rv in model.free_RVs}
    observed = {rv.name: data["prior_predictive"][rv.name].values[0] for rv in model.observed_RVs}
    return prior, observed


def _ranks(draws: np.ndarray, truth: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """How many of the chosen draws (dataset, chain, draw, ...) of the first chain lie below."""
    return (draws[:, 0, chosen] < truth[:, None]).sum(axis=1)


# ---------------------------------------------------------------------- uniformity of ranks


def _counts(ranks: np.ndarray, levels: int) -> np.ndarray:
    """Of each row, the number of ranks <= 0, 1 ... levels."""
    return np.apply_along_axis(
        lambda row: np.bincount(row, minlength=levels + 1).cumsum(), 1, ranks
    )


def _least_tail(counts: np.ndarray, n: int, levels: int) -> np.ndarray:
    """Of each row, the smallest two-sided tail probability of its counts."""
    points = np.arange(1, levels + 1) / (levels + 1)
    inner = counts[:, :-1]  # the last count is n
    below, above = stats.binom.cdf(inner, n, points), stats.binom.sf(inner - 1, n, points)
    return np.minimum(1.0, 2 * np.minimum(below, above).min(axis=1))


@lru_cache(maxsize=8)  # a model after the other, some plots of each
def _null(n: int, levels: int, seed: int) -> np.ndarray:
    """The smallest tail probability of uniform ranks, many times."""
    ranks = np.random.default_rng(seed).integers(levels + 1, size=(NULL_SIMULATIONS, n))
    return _least_tail(_counts(ranks, levels), n, levels)
