"""A page about the draws of a PyMC model, whichever way they were sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mjhmc_numba.coordinates import Metric
from mjhmc_numba.diagnostics import diagnose
from mjhmc_numba.plots.data import quantities, statistic
from mjhmc_numba.report import write_report
from mjhmc_numba.results import Result
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Tuned

__all__ = ["report", "warnings_of"]

# Statistics that the rules ask for, and what they are taken for where a sampler has none.
ASKED = {
    "acceptance_rate": np.nan,
    "longest_stay": 0.0,
    "n_capped": 0.0,
    "n_R": 1.0,
    "n_steps": 0.0,
    "lp": 0.0,
    "diverging": 0.0,
}


def report(data: Any, path: Any, *, title: str = "Sampling report") -> Path:
    """Write one HTML file about a run, which needs no network and no other file.

    Summary, convergence, warnings with advice, traces of the worst quantities, energy, warm-up,
    settings, versions and seed.

    Parameters
    ----------
    data : InferenceData or DataTree
        What `mjhmc_numba.pymc.sample` or `pm.sample` returned.
    path : path
        Where to write, such as "run.html".
    title : str
        Of the page.

    Returns
    -------
    Path
        The file.
    """
    return write_report(data, path, warnings_of(data), title=title)


def warnings_of(data: Any) -> list[str]:
    """What was warned of when the draws were made; or what is wrong with them, looked at again."""
    told = data["sample_stats"].attrs.get("warnings")
    if told is not None:
        return told.splitlines()
    return diagnose(_as_result(data))


def _as_result(data: Any) -> Result:
    """Draws in the model's variables, as the rules of `diagnostics` take them."""
    names, values = quantities(data)
    shape = values.shape[:2]
    stats = {}
    for name, otherwise in ASKED.items():
        known = statistic(data, name)
        stats[name] = np.full(shape, otherwise) if known is None else known
    stats["diverging"] = stats["diverging"] > 0
    energy = statistic(data, "energy")
    stats["energy"] = np.zeros(shape) if energy is None else energy
    integrators = str(data["sample_stats"].attrs.get("integrator", "rotation")).split(", ")
    metric = Metric.diagonal(np.ones(len(names)))
    tuned = [Tuned(1.0, 1, 1.0, 1.0, name, metric) for name in integrators]
    return Result(
        draws=values,
        stats=stats,
        tuned=(tuned * shape[0])[: shape[0]],
        settings=Settings(),
        seed=None,
        names=names,
        tune=0,
        warmup_gradients=np.zeros(shape[0]),
        chains=np.asarray(data["posterior"]["chain"]).tolist(),
    )
