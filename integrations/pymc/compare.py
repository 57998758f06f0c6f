"""Samplers side by side on one model: effective samples per gradient and per second."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import arviz
import numpy as np
import pymc as pm
import xarray
from pymc.model import modelcontext

import mjhmc_numba
from mjhmc_numba.density import Target, as_target
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.markup import escape, short
from mjhmc_numba.plots import plot_efficiency
from mjhmc_numba.pymc.bridge import model_of, nutpie_model_of
from mjhmc_numba.pymc.compiled import compile as compile_model
from mjhmc_numba.pymc.diagnosis import PYTHON_MODE

__all__ = ["SAMPLERS", "Comparison", "compare"]


class Run(NamedTuple):
    """What one sampler did."""

    data: Any  # InferenceData or DataTree
    warmup_gradients: int
    gradients: int
    compile_seconds: float
    seconds: float


@dataclass(repr=False)
class Comparison:
    """Samplers on one model.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per sampler; see `compare`.
    data : dict of str to InferenceData or DataTree
        The draws of each sampler.
    """

    table: Any
    data: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.summary().to_string()}\n\n{self.verdict}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{self.summary().to_html()}<p>{escape(self.verdict)}</p>"

    def summary(self, *, everything: bool = False) -> Any:
        """The numbers that matter most, or all of them, as text: a row per number.

        Parameters
        ----------
        everything : bool
            All that was measured, under the names of `table`.

        Returns
        -------
        pandas.DataFrame
        """
        if everything:
            return self.table.T.apply(lambda row: row.map(_form(row.name)), axis=1)
        rows = self.table[list(SHOWN)].T
        rows = rows.apply(lambda row: row.map(_form(row.name)), axis=1)
        return rows.rename(index=SHOWN)

    def plot(self, **options: Any) -> Any:
        """Effective samples per gradient and per second: `mjhmc_numba.plots.plot_efficiency`."""
        return plot_efficiency(self.table, **options)

    @property
    def verdict(self) -> str:
        """The first sampler beside the others, in one sentence."""
        first, *others = self.table.index
        if not others:
            row = self.table.loc[first]
            return (
                f"{first} made {short(row['ess_per_1000_grads_all'])} effective samples per 1000 "
                f"gradients and {short(row['ess_per_second_all'])} per second."
            )
        by_gradient = self._ratios("ess_per_1000_grads_all")
        by_second = self._ratios("ess_per_second_all")
        return (
            f"Warm-up included, {first} made {by_gradient} as many effective samples per gradient, "
            f"and {by_second} per second, compilation apart{self._doubts()}."
        )

    def _ratios(self, column: str) -> str:
        values = self.table[column]
        ratios = values.iloc[0] / values.iloc[1:]
        return " and ".join(f"{_times(ratio)} times ({name})" for name, ratio in ratios.items())

    def _doubts(self) -> str:
        """What speaks against a comparison of numbers alone."""
        table = self.table
        doubts = [
            f"{name} did not converge (R-hat {row['r_hat']:.3f})"
            for name, row in table.iterrows()
            if row["r_hat"] > UNCONVERGED
        ]
        far = table["mean_difference"].max()
        if far > FAR:
            name = table["mean_difference"].idxmax()
            doubts.append(
                f"means of {table.index[0]} and {name} differ by {far:.1f} standard errors, so "
                "that one of them is wrong"
            )
        return f"; but {', and '.join(doubts)}" if doubts else "; their means agree"


# What a comparison shows by default: columns of the table, and what they are called.
SHOWN = {
    "ess": "effective samples, worst quantity",
    "r_hat": "R-hat, worst quantity",
    "divergences": "divergences",
    "gradients_all": "gradients, with warm-up",
    "seconds_all": "seconds, with compilation",
    "compile_seconds": "of these, compilation",
    "ess_per_1000_grads_all": "ESS per 1000 gradients, with warm-up",
    "ess_per_second_all": "ESS per second, with warm-up",
}
UNCONVERGED = 1.01  # R-hat: Vehtari et al. (2021)
FAR = 5.0  # standard errors between two means: once in 2 million by chance


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"


def _form(name: Any) -> Callable[[float], str]:
    """How a number of the table is written."""
    if name == "r_hat":
        return "{:.3f}".format
    return lambda value: short(float(value))


# -------------------------------------------------------------------- the samplers

# Draws, tune, chains and cores have the same names everywhere: they are among the options. The
# seed and the progress bar have PyMC's names here, and other names in nutpie and for a density.


def _mjhmc(model, *, random_seed, progressbar, **options) -> Run:
    if isinstance(model, Target):
        return _mjhmc_alone(model, seed=random_seed, progress=progressbar, **options)
    began = time.perf_counter()
    compiled = compile_model(model, progressbar=progressbar)
    # What computes Deterministics is compiled beside the chains otherwise; here it is apart.
    compiled.expand(compiled.density.layout.ravel(model.initial_point())[None, None])
    ready = time.perf_counter()
    sampling = compiled.sample(
        random_seed=random_seed,
        progressbar=progressbar,
        compute_convergence_checks=False,
        blocking=False,
        **options,
    )
    data = sampling.wait()
    gradients = sampling.gradients
    ended = time.perf_counter()
    return Run(data, gradients["warmup"], gradients["draws"], ready - began, ended - ready)


def _mjhmc_alone(target, **options) -> Run:
    began = time.perf_counter()
    result = mjhmc_numba.sample(target, **options)
    seconds = time.perf_counter() - began
    gradients = result.gradients
    return Run(result.to_arviz(), gradients["warmup"], gradients["draws"], 0.0, seconds)


def _nuts(model, *, random_seed, progressbar, **options) -> Run:
    if isinstance(model, Target):
        model, options = model_of(model), {"compile_kwargs": {"mode": PYTHON_MODE}} | options
    began = time.perf_counter()
    with model:
        data = pm.sample(
            random_seed=random_seed,
            progressbar=progressbar,
            nuts_sampler="pymc",  # PyMC 6 would take nutpie
            discard_tuned_samples=False,
            compute_convergence_checks=False,
            **options,
        )
    whole = time.perf_counter() - began
    seconds = data["posterior"].attrs["sampling_time"]
    # One gradient more per draw: PyMC evaluates the start of each trajectory again.
    warmup, made = _gradients(data, more=1)
    return Run(data, warmup, made, whole - seconds, seconds)


def _nutpie(model, *, random_seed, progressbar, **options) -> Run:
    import nutpie

    began = time.perf_counter()
    if isinstance(model, Target):
        compiled = nutpie_model_of(model)
    else:
        compiled = nutpie.compile_pymc_model(model, backend="numba")
    ready = time.perf_counter()
    data = nutpie.sample(
        compiled, seed=random_seed, progress_bar=progressbar, save_warmup=True, **options
    )
    ended = time.perf_counter()
    warmup, made = _gradients(data)
    return Run(data, warmup, made, ready - began, ended - ready)


def _nutpie_lowrank(model, **options) -> Run:
    import nutpie

    is_new = "adaptation" in inspect.signature(nutpie.sample).parameters
    low_rank = {"adaptation": "low_rank"} if is_new else {"low_rank_modified_mass_matrix": True}
    return _nutpie(model, **low_rank | options)


SAMPLERS: dict[str, Callable[..., Run]] = {
    "mjhmc": _mjhmc,
    "nuts": _nuts,
    "nutpie": _nutpie,
    "nutpie_lowrank": _nutpie_lowrank,
}


def _default_samplers() -> list[str]:
    return ["mjhmc", *(["nutpie"] if _has_nutpie() else []), "nuts"]


def _has_nutpie() -> bool:
    return importlib.util.find_spec("nutpie") is not None


@contextmanager
def _log_level(level: int) -> Iterator[None]:
    """Nothing below the level in the logs of PyMC and PyTensor."""
    logs = [logging.getLogger(name) for name in ("pymc", "pytensor")]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(max(level, log.level))
    try:
        yield
    finally:
        for log, old in zip(logs, before, strict=True):
            log.setLevel(old)


def _check_samplers(names) -> None:
    unknown = [name for name in names if name not in SAMPLERS]
    if unknown or not names:
        raise SettingsError(f"samplers={list(names)}: known are {', '.join(SAMPLERS)}.")
    if not _has_nutpie() and any(name.startswith("nutpie") for name in names):
        raise SettingsError(
            "The sampler nutpie is not installed: pip install nutpie, or leave it out of samplers="
        )


def _gradients(data, more: int = 0) -> list[int]:
    """Gradients in the warm-up and after it: those counted, and `more` for each draw."""
    made = []
    for group in ("warmup_sample_stats", "sample_stats"):
        # Without a warm-up there may be no such group.
        steps = np.asarray(data[group]["n_steps"]) if group in data else np.zeros(0)
        made.append(int(steps.sum()) + more * steps.size)
    return made


# ------------------------------------------------------------------------- scoring


def _by_arviz(function, values: np.ndarray, **options) -> np.ndarray:
    """What ArviZ says of each quantity of values (chain, draw, quantity)."""
    data = xarray.Dataset({"x": (("chain", "draw", "quantity"), values)})
    return np.asarray(function(data, **options)["x"])


def _quantities(data, names: Sequence[str]) -> np.ndarray:
    """All scalars of the named variables: (chain, draw, quantity)."""
    arrays = [data["posterior"][name].transpose("chain", "draw", ...) for name in names]
    arrays = [np.asarray(a, dtype=float) for a in arrays]
    return np.concatenate([a.reshape(*a.shape[:2], -1) for a in arrays], axis=2)


def _score(run: Run, values: np.ndarray) -> dict[str, float]:
    squares = (values - values.mean(axis=(0, 1))) ** 2
    ess = {
        "bulk": float(_by_arviz(arviz.ess, values, method="bulk").min()),
        "tail": float(_by_arviz(arviz.ess, values, method="tail").min()),
        "squares": float(_by_arviz(arviz.ess, squares, method="bulk").min()),
    }
    row = {f"ess_{name}": size for name, size in ess.items()} | {
        "r_hat": float(_by_arviz(arviz.rhat, values).max()) if len(values) > 1 else np.nan,
        "divergences": int(np.sum(np.asarray(run.data["sample_stats"]["diverging"]))),
        "gradients_warmup": run.warmup_gradients,
        "gradients": run.gradients,
        "compile_seconds": run.compile_seconds,
        "seconds": run.seconds,
    }
    everything = run.gradients + run.warmup_gradients
    row |= {"gradients_all": everything, "seconds_all": run.compile_seconds + run.seconds}
    # Samplers do not time their warm-up alike, so it is taken as its share of gradients.
    costs = {
        "1000_grads": run.gradients / 1000,
        "1000_grads_all": everything / 1000,
        "second": run.seconds * run.gradients / everything,
        "second_all": run.seconds,
    }
    sizes = {"ess": min(ess["bulk"], ess["tail"]), **ess}
    row["ess"] = sizes["ess"]
    row["ess_per_second_compiled"] = sizes["ess"] / row["seconds_all"]
    for name, size in sizes.items():
        row |= {f"{name}_per_{unit}": size / cost for unit, cost in costs.items()}
    return row


def _largest_difference(one: np.ndarray, other: np.ndarray) -> float:
    """Largest difference of two sets of means, in units of its Monte Carlo error."""
    variance = sum(
        values.var(axis=(0, 1)) / np.maximum(_by_arviz(arviz.ess, values, method="mean"), 1.0)
        for values in (one, other)
    )
    difference = np.abs(one.mean(axis=(0, 1)) - other.mean(axis=(0, 1)))
    return float(np.max(difference / np.sqrt(variance)))


def compare(
    model: Any = None,
    samplers: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    random_seed: int | None = None,
    cores: int | None = None,
    progressbar: bool = True,
    quiet: bool = False,
    var_names: Sequence[str] | None = None,
) -> Comparison:
    """Run samplers side by side on a model, with the same draws, chains and seed.

    Parameters
    ----------
    model : pm.Model or Target, optional
        The PyMC model; that of the `with` block by default. Or a density of `mjhmc_numba` that
        knows its dimension: the other samplers then call it through Python, so their
        seconds mean little.
    samplers : sequence of str, or mapping of str to dict, optional
        Of "mjhmc", "nuts" (PyMC's own), "nutpie" and "nutpie_lowrank"; or a mapping of
        them to further options of theirs. By default "mjhmc", "nutpie" where it is installed (then
        `pm.sample` of PyMC 6 uses it too), and "nuts".
    draws, tune, chains, cores : int
        As for `pm.sample`.
    random_seed : int, optional
        The same for all.
    progressbar : bool
        Show each sampler's own.
    quiet : bool
        Show nothing at all: no progress, no lines of PyMC's log.
    var_names : sequence of str, optional
        Variables to score; all free ones and Deterministics by default.

    Returns
    -------
    Comparison
        It shows eight rows and a verdict; `summary(everything=True)` shows all. Its table has, for
        each sampler, the effective sample size of the worst quantity (bulk, tail, of squares, and
        `ess`, the smaller of bulk and tail), R-hat, divergences, gradients and seconds; then each
        size per 1000 gradients and per second, of the draws and with the warm-up (`_all`), and
        with compilation (`ess_per_second_compiled`); and `mean_difference`: the largest difference
        of a mean from the first sampler's, in standard errors. Quantities that do not vary are
        left out.
    """
    import pandas as pd

    samplers = _default_samplers() if samplers is None else samplers
    options = dict(samplers) if isinstance(samplers, Mapping) else {name: {} for name in samplers}
    _check_samplers(options)
    model, names = _model_and_names(model, var_names)
    if random_seed is None:
        random_seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
    how = {"draws": draws, "tune": tune, "chains": chains, "progressbar": progressbar and not quiet}
    rows, data, first = {}, {}, None
    for name, more in options.items():
        with warnings.catch_warnings(), _log_level(logging.ERROR if quiet else logging.NOTSET):
            warnings.simplefilter("ignore")  # the table says what they would
            run = SAMPLERS[name](model, **how, random_seed=random_seed, cores=cores, **more)
        values = _quantities(run.data, names)
        if first is None:
            moving = np.ptp(values, axis=(0, 1)) > 0
        values = values[..., moving]
        rows[name], data[name] = _score(run, values), run.data
        rows[name]["mean_difference"] = (
            np.nan if first is None else _largest_difference(first, values)
        )
        first = values if first is None else first
    return Comparison(pd.DataFrame.from_dict(rows, orient="index"), data)


def _model_and_names(model, var_names) -> tuple[Any, list[str]]:
    """The model or target, and the variables to score."""
    if model is None or isinstance(model, pm.Model):
        model = modelcontext(model)
        names = var_names or [v.name for v in model.free_RVs + model.deterministics]
        return model, list(names)
    if var_names is not None:
        raise SettingsError("var_names are those of a PyMC model; a density has one vector x.")
    return as_target(model), ["x"]
