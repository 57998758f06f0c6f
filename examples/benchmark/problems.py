"""The problems of the efficiency benchmark, each ready for every sampler.

A problem is compiled once and then sampled as often as wanted. There are built-in ones, made of
`mjhmc_numba.targets`, and those of a folder of PyMC models: a `models.py` with `MODELS[name]()`
that builds a model, and `.var_names`, `.param_names(shapes)` and `.reference()`. Four folders lie
beside this file: `posteriors` (the default), `case_studies`, `gallery` and `several_modes`.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import warnings
from abc import ABC, abstractmethod
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType

import numpy as np
from effective import Moments, Run

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.process import Process

HERE = Path(__file__).resolve().parent
POSTERIORS = HERE / "posteriors"
CHAINS = 4


def ill_conditioned(ndim: int, condition: float) -> targets.Distribution:
    """A Gaussian with rotated axes; `condition` is that of its covariance."""
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.normal(size=(ndim, ndim)))[0]
    return targets.correlated_gaussian((axes * np.geomspace(1, condition, ndim)) @ axes.T)


BUILT_IN = {
    "normal_10": lambda: targets.standard_normal(10),
    "normal_100": lambda: targets.standard_normal(100),
    "normal_1000": lambda: targets.standard_normal(1000),
    "scales_50": lambda: targets.gaussian(np.geomspace(0.01, 1.0, 50), name="scales"),
    "rotated_50": lambda: ill_conditioned(50, 1e4),
    "banana": lambda: targets.banana(),
    "student_t_20": lambda: targets.student_t(5.0, 20),
    "log_gamma_10": lambda: targets.log_gamma(np.geomspace(0.5, 10.0, 10), 10),
    "rough_well_2": lambda: targets.rough_well(),
}


def folder(name: str) -> Path:
    """A folder of models: a path, or the name of one beside this file."""
    path = Path(name)
    chosen = path if (path / "models.py").exists() else HERE / name
    if not (chosen / "models.py").exists():
        raise argparse.ArgumentTypeError(f"there is no models.py in {name!r}")
    return chosen.resolve()


def add_folder(parser: argparse.ArgumentParser) -> None:
    """The option that all programs have."""
    parser.add_argument(
        "--bench",
        type=folder,
        default=POSTERIORS,
        help="folder of PyMC models: a path, posteriors (the default), case_studies or gallery",
    )


def bench_models(bench: Path) -> dict:
    """`MODELS` of the folder's models.py."""
    return bench_module(bench).MODELS


@cache
def bench_module(bench: Path) -> ModuleType:
    """The folder's models.py.

    Its modules are forgotten afterwards: those of another folder may have the same names.
    """
    before = set(sys.modules)
    sys.path.insert(0, str(bench))
    try:
        return importlib.import_module("models")
    finally:
        sys.path.remove(str(bench))
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "").parent == bench:
                del sys.modules[name]


def choose(names: str | None, bench: Path) -> list[str]:
    """Names that are separated by commas, or all of the folder; an unknown one raises."""
    chosen = names.split(",") if names else list(bench_models(bench))
    wanted = set(chosen) - set(BUILT_IN)
    unknown = wanted - set(bench_models(bench)) if wanted else set()
    if unknown:
        known = ", ".join([*bench_models(bench), *BUILT_IN])
        raise SystemExit(f"unknown models: {', '.join(sorted(unknown))}; known: {known}")
    return chosen


def load(name: str, bench: Path = POSTERIORS) -> Problem:
    """A problem by its name: a built-in one, or one of the folder."""
    if name in BUILT_IN:
        return BuiltIn(name, BUILT_IN[name]())
    return ModelProblem(name, bench_models(bench)[name])


class Problem(ABC):
    """A target for all samplers.

    Attributes
    ----------
    name : str
    dim : int
        of what is sampled; more or fewer parameters may be scored
    """

    name: str
    dim: int

    @property
    @abstractmethod
    def moments(self) -> Moments | None:
        """Known moments of the scored parameters, if any."""

    @abstractmethod
    def target(self):
        """What `mjhmc_numba.sample` takes."""

    @abstractmethod
    def centre(self) -> np.ndarray:
        """The point around which the chains start, within 1 in each dimension, as PyMC's do."""

    @abstractmethod
    def scored(self, draws: np.ndarray) -> np.ndarray:
        """Draws (chain, draw, k) of the scored parameters, from those of the vector."""

    @property
    @abstractmethod
    def nutpie_model(self):
        """The problem as nutpie takes it, and the names of its variables."""

    def compile(self, sampler: str) -> None:
        """All that is done once, whatever the number of runs."""
        if sampler.startswith("nutpie"):
            _ = self.nutpie_model
        elif sampler.startswith("mjhmc"):
            self.target()
            Process.compile_kernel()

    def mjhmc(self, seed: int, draws: int, tune: int, **options) -> tuple[Run, mj.Result]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mj.SamplingWarning)
            result = mj.sample(
                self.target(),
                self.centre(),
                spread=1.0,
                chains=CHAINS,
                cores=1,
                draws=draws,
                tune=tune,
                seed=seed,
                progress=False,
                **options,
            )
        notes = " ".join(
            f"{t.integrator}/{t.metric.rank}/{t.num_steps}/{t.step_size:.2g}" for t in result.tuned
        )
        run = Run(
            draws=self.scored(result.draws),
            logp=result.stats["lp"],
            gradients=result.gradients,
            divergences=int(result.stats["diverging"].sum()),
            warnings=len(result.warnings),
            notes=notes,
        )
        return run, result

    def nutpie(self, seed: int, draws: int, tune: int, low_rank: bool) -> Run:
        import nutpie

        compiled, variables = self.nutpie_model
        trace = nutpie.sample(
            compiled,
            chains=CHAINS,
            cores=1,
            draws=draws,
            tune=tune,
            seed=seed,
            progress_bar=False,
            save_warmup=True,
            **(low_rank_options(nutpie.sample) if low_rank else {}),
        )
        stats, posterior = trace["sample_stats"], trace["posterior"]
        parts = [np.asarray(posterior[v].values, dtype=float) for v in variables]
        return Run(
            draws=np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2),
            logp=stats["logp"].values,
            # One gradient for each leapfrog step; that at its start is known.
            gradients={
                "warmup": int(trace["warmup_sample_stats"]["n_steps"].values.sum()),
                "draws": int(stats["n_steps"].values.sum()),
            },
            divergences=int(stats["diverging"].values.sum()),
        )

    def pymc(self, seed: int, draws: int, tune: int) -> Run:
        """NUTS of PyMC itself, which needs a PyMC model."""
        raise SystemExit(f"{self.name} is no PyMC model: leave out the sampler 'pymc'")


def low_rank_options(sample) -> dict:
    """The option for nutpie's low-rank mode, which has had two names."""
    if "adaptation" in inspect.signature(sample).parameters:
        return {"adaptation": "low_rank"}
    return {"low_rank_modified_mass_matrix": True}


class BuiltIn(Problem):
    """A distribution of `mjhmc_numba.targets`; all its coordinates are scored."""

    def __init__(self, name: str, distribution: targets.Distribution):
        self.name, self.distribution, self.dim = name, distribution, distribution.ndim

    @property
    def moments(self):
        known = self.distribution
        if known.mean is None or known.variance is None:
            return None
        return Moments(known.mean, known.variance)

    def target(self):
        return self.distribution

    def centre(self):
        return np.zeros(self.dim)

    def scored(self, draws):
        return draws

    @cached_property
    def nutpie_model(self):
        from nutpie.compiled_pyfunc import from_pyfunc

        known, ndim = self.distribution, self.dim

        def logp_and_grad(x):
            grad = np.empty(ndim)
            return known.density(x, grad, *known.args), grad

        compiled = from_pyfunc(
            ndim,
            lambda: logp_and_grad,
            lambda *_: lambda x: {"x": x},
            [np.dtype(np.float64)],
            [(ndim,)],
            ["x"],
            make_initial_point_fn=lambda seed: np.random.default_rng(seed).uniform(-1, 1, ndim),
        )
        return compiled, ["x"]


class ModelProblem(Problem):
    """A PyMC model; some of what is scored may be Deterministics."""

    def __init__(self, name: str, entry):
        self.name, self.entry, self.model = name, entry, entry()
        self.point = self.model.initial_point()
        self.dim = int(sum(np.size(value) for value in self.point.values()))

    @cached_property
    def density(self):
        from mjhmc_numba.pymc.density import ModelDensity

        return ModelDensity(self.model)

    @cached_property
    def expansion(self):
        from mjhmc_numba.pymc.expand import Expansion

        return Expansion(self.density, self.entry.var_names)

    def target(self):
        return self.density.target()

    def centre(self):
        return self.density.layout.ravel(self.point)

    def scored(self, draws):
        values = self.expansion(draws)
        return np.concatenate(
            [values[v].reshape(*draws.shape[:2], -1) for v in self.entry.var_names], axis=2
        )

    @cached_property
    def moments(self):
        known = self.entry.reference()
        if known is None:
            return None
        shapes = {v: tuple(self.model[v].shape.eval()) for v in self.entry.var_names}
        known = known.take(self.entry.param_names(shapes))
        return Moments(known.mean, known.var, known.mcse_mean, known.mcse_var)

    @cached_property
    def nutpie_model(self):
        import nutpie

        return nutpie.compile_pymc_model(self.model, backend="numba"), self.entry.var_names

    def pymc(self, seed, draws, tune):
        import pymc

        with self.model, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = pymc.sample(
                draws,
                tune=tune,
                chains=CHAINS,
                cores=1,
                random_seed=seed,
                # PyMC 6 would take nutpie where it is installed.
                nuts_sampler="pymc",
                discard_tuned_samples=False,
                progressbar=False,
                compute_convergence_checks=False,
            )
        stats, posterior = trace["sample_stats"], trace["posterior"]
        warmup, made = (
            trace[group]["n_steps"].values for group in ("warmup_sample_stats", "sample_stats")
        )
        parts = [np.asarray(posterior[v].values, dtype=float) for v in self.entry.var_names]
        return Run(
            draws=np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2),
            logp=stats["lp"].values,
            # One for each leapfrog step, and one at the start of each draw, which is made again.
            gradients={
                "warmup": int(warmup.sum() + warmup.size),
                "draws": int(made.sum() + made.size),
            },
            divergences=int(stats["diverging"].values.sum()),
        )
