"""Samplers side by side on one model: effective samples per gradient and per second."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pymc.model import modelcontext

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.pymc.sampling import compile as compile_model

__all__ = ["SAMPLERS", "Comparison", "compare"]


class Run(NamedTuple):
    """What one sampler did."""

    data: Any  # InferenceData or DataTree
    warmup_gradients: int
    gradients: int
    compile_seconds: float
    seconds: float


@dataclass
class Comparison:
    """Samplers on one model.

    Attributes
    ----------
    table : a data frame with one row a sampler; see `compare`
    data : the draws of each sampler, as ArviZ takes them
    """

    table: Any
    data: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return self.table.T.to_string(float_format=lambda value: f"{value:.4g}")

    def plot(self, axes=None):
        """Bars of effective samples per 1000 gradients and per second; returns the figure."""
        import matplotlib.pyplot as plt

        if axes is None:
            _, axes = plt.subplots(1, 2, figsize=(9, 1.2 + 0.6 * len(self.table)))
        _bars(
            axes[0],
            self.table,
            {"after warm-up": "ess_per_1000_grads", "with warm-up": "ess_per_1000_grads_all"},
            "effective samples per 1000 gradients",
        )
        _bars(
            axes[1],
            self.table,
            {"after warm-up": "ess_per_second", "with warm-up": "ess_per_second_all"},
            "effective samples per second",
        )
        axes[0].figure.tight_layout()
        return axes[0].figure


def _bars(ax, table, columns: Mapping[str, str], title: str) -> None:
    """Horizontal bars, with the values written beside them."""
    place = np.arange(len(table))
    height = 0.8 / len(columns)
    for k, (label, column) in enumerate(columns.items()):
        at = place + (k - (len(columns) - 1) / 2) * height
        bars = ax.barh(at, table[column], height, label=label, color=("#3b78c4", "#a9c7ea")[k])
        ax.bar_label(bars, fmt=lambda value: f" {value:,.3g}", fontsize=8)
    ax.set_yticks(place, table.index)
    ax.invert_yaxis()
    ax.set_xlim(right=1.15 * max(table[column].max() for column in columns.values()))
    ax.set_title(title, fontsize=10)
    ax.legend(fontsize=8, frameon=False, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)


# -------------------------------------------------------------------- the samplers


def _mjhmc(model, *, draws, tune, chains, seed, cores, progressbar) -> Run:
    began = time.perf_counter()
    compiled = compile_model(model)
    ready = time.perf_counter()
    sampling = compiled.sample(
        draws,
        tune,
        chains,
        random_seed=seed,
        cores=cores,
        progressbar=progressbar,
        compute_convergence_checks=False,
        blocking=False,
    )
    data = sampling.wait()
    gradients = sampling.gradients
    ended = time.perf_counter()
    return Run(data, gradients["warmup"], gradients["draws"], ready - began, ended - ready)


def _nuts(model, *, draws, tune, chains, seed, cores, progressbar) -> Run:
    began = time.perf_counter()
    with model:
        step = pm.NUTS()
        ready = time.perf_counter()
        data = pm.sample(
            draws,
            tune=tune,
            chains=chains,
            cores=cores,
            random_seed=seed,
            progressbar=progressbar,
            step=step,
            discard_tuned_samples=False,
            compute_convergence_checks=False,
        )
    ended = time.perf_counter()
    # One gradient more a draw: PyMC evaluates the start of each trajectory again.
    made = [_gradients(data, group) for group in ("warmup_sample_stats", "sample_stats")]
    made = [made[0] + tune * chains, made[1] + draws * chains]
    return Run(data, *made, ready - began, ended - ready)


def _nutpie(model, *, draws, tune, chains, seed, cores, progressbar, low_rank=False) -> Run:
    try:
        import nutpie
    except ImportError as error:
        raise SettingsError(
            "The sampler nutpie is not installed: pip install nutpie, or leave it out of samplers="
        ) from error
    began = time.perf_counter()
    compiled = nutpie.compile_pymc_model(model)
    ready = time.perf_counter()
    options = {"low_rank_modified_mass_matrix": True} if low_rank else {}
    data = nutpie.sample(
        compiled,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=cores,
        seed=seed,
        progress_bar=progressbar,
        **options,
    )
    ended = time.perf_counter()
    made = [_gradients(data, group) for group in ("warmup_sample_stats", "sample_stats")]
    return Run(data, *made, ready - began, ended - ready)


def _nutpie_lowrank(model, **options) -> Run:
    return _nutpie(model, low_rank=True, **options)


SAMPLERS: dict[str, Callable[..., Run]] = {
    "mjhmc": _mjhmc,
    "nuts": _nuts,
    "nutpie": _nutpie,
    "nutpie_lowrank": _nutpie_lowrank,
}


def _gradients(data, group: str) -> int:
    return int(np.sum(np.asarray(data[group]["n_steps"])))


# ------------------------------------------------------------------------- scoring


def _array_ess(values: np.ndarray, method: str) -> float:
    """Effective sample size of one quantity (chain, draw), as the installed ArviZ has it."""
    try:
        from arviz_stats.base import array_stats
    except ImportError:
        import arviz

        return float(arviz.ess(values, method=method))
    options = {"prob": (0.05, 0.95)} if method == "tail" else {}
    return float(array_stats.ess(values, chain_axis=0, draw_axis=1, method=method, **options))


def _array_r_hat(values: np.ndarray) -> float:
    try:
        from arviz_stats.base import array_stats
    except ImportError:
        import arviz

        return float(arviz.rhat(values))
    return float(array_stats.rhat(values, chain_axis=0, draw_axis=1))


def _quantities(data, names: Sequence[str]) -> np.ndarray:
    """All scalars of the named variables: (chain, draw, quantity)."""
    arrays = [np.asarray(data["posterior"][name], dtype=float) for name in names]
    return np.concatenate([a.reshape(*a.shape[:2], -1) for a in arrays], axis=2)


def _score(run: Run, names: Sequence[str]) -> dict[str, float]:
    values = _quantities(run.data, names)
    squares = (values - values.mean(axis=(0, 1))) ** 2
    columns = range(values.shape[2])
    bulk = min(_array_ess(values[:, :, j], "bulk") for j in columns)
    tail = min(_array_ess(values[:, :, j], "tail") for j in columns)
    square = min(_array_ess(squares[:, :, j], "bulk") for j in columns)
    ess, everything = min(bulk, tail), run.gradients + run.warmup_gradients
    warm_share = run.warmup_gradients / everything
    return {
        "ess_bulk": bulk,
        "ess_tail": tail,
        "ess_squares": square,
        "r_hat": max(_array_r_hat(values[:, :, j]) for j in columns),
        "divergences": int(np.sum(np.asarray(run.data["sample_stats"]["diverging"]))),
        "gradients_warmup": run.warmup_gradients,
        "gradients": run.gradients,
        "ess_per_1000_grads": 1000 * ess / run.gradients,
        "ess_per_1000_grads_all": 1000 * ess / everything,
        "squares_per_1000_grads": 1000 * square / run.gradients,
        "squares_per_1000_grads_all": 1000 * square / everything,
        "compile_seconds": run.compile_seconds,
        "seconds": run.seconds,
        # Samplers do not time their warm-up alike, so it is taken as its share of gradients.
        "ess_per_second": ess / (run.seconds * (1 - warm_share)),
        "ess_per_second_all": ess / run.seconds,
    }


def _largest_difference(one: np.ndarray, other: np.ndarray) -> float:
    """Largest difference of two sets of means, in units of its Monte Carlo error."""
    errors = []
    for values in (one, other):
        size = [max(_array_ess(values[:, :, j], "mean"), 1.0) for j in range(values.shape[2])]
        errors.append(values.var(axis=(0, 1)) / np.array(size))
    difference = np.abs(one.mean(axis=(0, 1)) - other.mean(axis=(0, 1)))
    return float(np.max(difference / np.sqrt(errors[0] + errors[1])))


def compare(
    model=None,
    samplers: Sequence[str] = ("mjhmc", "nuts"),
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    seed: int | None = None,
    cores: int | None = None,
    var_names: Sequence[str] | None = None,
    progressbar: bool = True,
) -> Comparison:
    """Run samplers side by side on a PyMC model, with the same draws, chains and seed.

    Parameters
    ----------
    model : the PyMC model; that of the `with` block by default
    samplers : of "mjhmc", "nuts" (PyMC's own), "nutpie" and "nutpie_lowrank"
    draws, tune, chains, cores : as for `pm.sample`
    seed : the same for all
    var_names : variables to score; all free ones and Deterministics by default
    progressbar : show each sampler's own

    Returns
    -------
    Comparison
        Its table has, for each sampler, the effective sample size of the worst quantity (bulk,
        tail, and of squares), R-hat, divergences, gradients, `ess_per_1000_grads` (the smaller of
        bulk and tail) with (`_all`) and without warm-up, the same per second, and
        `mean_difference`: the largest difference of a mean from the first sampler's, in units
        of its Monte Carlo error.
    """
    import pandas as pd

    model = modelcontext(model)
    unknown = [name for name in samplers if name not in SAMPLERS]
    if unknown or not samplers:
        raise SettingsError(f"samplers={list(samplers)}: known are {', '.join(SAMPLERS)}.")
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
    names = var_names or [v.name for v in model.free_RVs + model.deterministics]
    rows, data = {}, {}
    for name in samplers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table says what they would
            run = SAMPLERS[name](
                model,
                draws=draws,
                tune=tune,
                chains=chains,
                seed=seed,
                cores=cores,
                progressbar=progressbar,
            )
        rows[name], data[name] = _score(run, names), run.data
    first = _quantities(data[samplers[0]], names)
    for name in samplers[1:]:
        rows[name]["mean_difference"] = _largest_difference(first, _quantities(data[name], names))
    return Comparison(pd.DataFrame.from_dict(rows, orient="index"), data)
