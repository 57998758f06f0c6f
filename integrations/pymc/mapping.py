"""One model on many data sets, with one compilation.

Data sets come in groups of neighbours. The first of a group has a warm-up of its own; what it has
tuned, and some of its draws, are carried over to the others (`neighbours`), which begin with them
and burn in. One whose chains then look poor has a warm-up of its own after all. Who is whose
neighbour depends on the order of the data sets alone, so the draws are the same on any number of
cores or workers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np
import xarray
from pymc.util import get_random_generator

from mjhmc_numba.convergence import least_effective, split_r_hat
from mjhmc_numba.density import Target
from mjhmc_numba.executors import Shipped
from mjhmc_numba.initial import Region
from mjhmc_numba.progress import ChainProgress, Progress
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.errors import ModelError
from mjhmc_numba.pymc.neighbours import Neighbour
from mjhmc_numba.pymc.packaging import data_in_model, initial_point_functions
from mjhmc_numba.pymc.start import (
    JITTER_RETRIES,
    chain_seed,
    find_start,
    jitter_tries,
    start_region,
)
from mjhmc_numba.run import ChainOutput, ChainTask, run_chains
from mjhmc_numba.settings import Settings
from mjhmc_numba.stats import COLUMN

__all__ = ["Mapped", "map_datasets"]

# Chosen, not tuned; what they come to beside nutpie is in examples/benchmark/SCALING.md.
NEIGHBOURS = 20  # data sets of a group: one warm-up in 20 is 5 % of the time
BATCH = 512  # chains that are held at once beside the result: a bound on the memory
BURN_IN = 0.25  # of the warm-up, for chains that begin with a neighbour's
# A data set is warmed up by itself where its neighbour's settings serve it worse than this.
LARGEST_R_HAT_OF_MAP = 1.1  # the classic bar (Gelman and Rubin 1992): these chains may be short
SMALLEST_ACCEPTANCE = 0.6  # of the neighbour's
SMALLEST_ESS = 0.3  # likewise: what a warm-up of its own would cost
SUMMARIES = ("r_hat", "ess", "divergences", "gradients", "warmup_gradients", "has_own_warmup")


class Mapped(NamedTuple):
    """What many data sets gave.

    Parameters
    ----------
    posterior : xarray.Dataset
        Variables along (dataset, chain, draw, ...), of the data sets that could be sampled.
    sample_stats : xarray.Dataset
        For each of them: the largest split R-hat and the smallest effective size of its dimensions
        (of the unconstrained vector), diverging draws, gradients after and in the warm-up, and
        whether that was its own; and for each draw the log density `lp`.
    failures : dict
        What the others raised, by their name.
    """

    posterior: xarray.Dataset
    sample_stats: xarray.Dataset
    failures: dict[Hashable, BaseException]


@dataclass
class _Fit:
    """One data set on its way."""

    name: Hashable
    density: ModelDensity | None = None
    target: Target | None = None
    rngs: list[np.random.Generator] = field(default_factory=list)
    tasks: list[ChainTask] = field(default_factory=list)
    draws: np.ndarray | None = None  # (chain, draw, d)
    lp: np.ndarray | None = None  # (chain, draw)
    acceptance: float = np.nan
    tuned: list = field(default_factory=list)
    summary: dict[str, float] = field(default_factory=dict)
    carrying: int = 0  # gradients that it took to begin with a neighbour's warm-up
    spent: np.ndarray | None = None  # gradients of each chain
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.draws is not None

    def take(self, draws: np.ndarray, outputs: Sequence[ChainOutput]) -> None:
        """Keep what its chains made, or why one of them did not."""
        self.error = next((o.error for o in outputs if o.error is not None), None)
        if self.error is not None:
            return
        stats = np.stack([output.rows.stats for output in outputs])
        self.draws = draws.copy()
        self.lp = stats[:, :, COLUMN["lp"]].copy()
        rates = stats[:, :, COLUMN["acceptance_rate"]]
        self.acceptance = float(np.nanmean(rates)) if np.isfinite(rates).any() else np.nan
        self.tuned = [output.tuned for output in outputs]
        self.spent = stats[:, :, COLUMN["n_gradients"]].sum(axis=1)
        self.summary = {
            "r_hat": float(np.max(split_r_hat(draws))),
            "ess": least_effective(draws)[0],
            "divergences": float(stats[:, :, COLUMN["n_diverging"]].astype(bool).sum()),
            "gradients": float(self.spent.sum()),
            "warmup_gradients": float(
                self.carrying + sum(output.warmup_gradients for output in outputs)
            ),
            "has_own_warmup": float(self.tasks[0].tuned is None),
        }

    def is_poor(self, leader: _Fit) -> bool:
        if self.error is not None:
            return True
        refused = self.acceptance < SMALLEST_ACCEPTANCE * leader.acceptance
        slow = self.summary["ess"] < SMALLEST_ESS * leader.summary["ess"]
        return refused or slow or not self.summary["r_hat"] <= LARGEST_R_HAT_OF_MAP


class _Counted:
    """All chains as one line of the progress display."""

    def __init__(self, display: Progress, total: int):
        self._display, self._before, self._total = display, 0, total
        self.compiling = display.compiling

    def update(self, rows: Iterable[ChainProgress]) -> None:
        if not self._display.enabled:
            return
        rows = list(rows)
        done = min(self._before + sum(row.phase == "done" for row in rows), self._total)
        gradients = sum(row.gradients for row in rows)
        phase = "done" if done == self._total else "draws"
        self._display.update([ChainProgress(done, self._total, phase, gradients=gradients)])

    def end(self, chains: int) -> None:
        self._before += chains


def map_datasets(
    density: ModelDensity,
    expand: Callable,
    datasets: Mapping[Hashable, Mapping[str, Any]] | Iterable[Mapping[str, Any]],
    *,
    draws: int,
    tune: int,
    chains: int,
    random_seed: Any,
    settings: Settings,
    warm_start: bool,
    cores: int | None,
    executor: Any,
    progress: Progress,
) -> Mapped:
    """See `CompiledModel.map`; `expand` makes variables of draws."""
    named: list = list(datasets.items() if isinstance(datasets, Mapping) else enumerate(datasets))
    rngs = get_random_generator(random_seed).spawn(len(named))
    density = density.snapshot()
    model = Shipped(density)  # a worker gets it once
    fits = [
        _prepared(model, name, data, rng.spawn(chains))
        for (name, data), rng in zip(named, rngs, strict=True)
    ]
    shown = _Counted(progress, len(fits) * chains)
    starts = _Starts(density.model, chains)

    def run(chosen: list[_Fit], make: Callable[[_Fit], list[ChainTask]]) -> None:
        for at in range(0, len(chosen), max(BATCH // chains, 1)):
            _run(chosen[at : at + max(BATCH // chains, 1)], make, cores, executor, shown)

    def own(fit: _Fit) -> list[ChainTask]:
        return starts.tasks(fit, settings, draws, tune)

    with progress:
        leaders, followers = _grouped(fits, NEIGHBOURS if warm_start and tune > 0 else 1)
        run(leaders, own)
        burn_in = max(round(BURN_IN * tune), 1)
        led = {id(fit): leader for fit, leader in followers if leader.is_done}
        lead = _Lead(settings, draws, burn_in)
        run(
            [fit for fit, _ in followers if id(fit) in led],
            lambda fit: lead.tasks(fit, led[id(fit)]),
        )
        again = [f for f, leader in followers if id(f) not in led or f.is_poor(leader)]
        run(again, own)
    return _collect(density.model, fits, expand)


def _prepared(model: Shipped, name: Hashable, data: Mapping, rngs: list) -> _Fit:
    try:
        density = model.value.with_data(**data)
        target = density.target(rebuild=(_target, (model, dict(data))))
    except Exception as error:
        return _Fit(name, error=error)
    return _Fit(name, density, target, rngs)


def _target(model: Shipped, data: dict[str, Any]) -> Target:
    return model.value.with_data(**data).target()


def _grouped(fits: list[_Fit], size: int) -> tuple[list[_Fit], list[tuple[_Fit, _Fit]]]:
    """The first of each group; and the others, each with its leader."""
    leaders, followers = [], []
    for at in range(0, len(fits), size):
        group = [fit for fit in fits[at : at + size] if fit.density is not None]
        leaders += group[:1]
        followers += [(fit, group[0]) for fit in group[1:]]
    return leaders, followers


class _Starts:
    """Tasks with a warm-up of their own. PyMC's functions of initial points are compiled once."""

    def __init__(self, model: Any, chains: int):
        self._model, self._chains = model, chains
        self._functions: list[Callable] = []

    def tasks(self, fit: _Fit, settings: Settings, draws: int, tune: int) -> list[ChainTask]:
        assert fit.density is not None
        assert fit.target is not None
        target, tasks = fit.target, []
        tries = jitter_tries(tune > 0, JITTER_RETRIES)
        if not self._functions:
            self._functions = initial_point_functions(self._model, None, self._chains)
        for k, (function, parent) in enumerate(zip(self._functions, fit.rngs, strict=True)):
            rng = _again(parent)
            with data_in_model(fit.density):
                point = function(int(rng.integers(2**30)))
            x = find_start(fit.density, target, point, rng, tries=tries)
            region = start_region(fit.density, point, jitter=True)
            seed = chain_seed(rng)
            tasks.append(ChainTask(target, settings, draws, tune, seed, region, x, number=k))
        return tasks


def _again(rng: np.random.Generator) -> np.random.Generator:
    """The generator as it was made: a second try has the same numbers."""
    return np.random.default_rng(cast("np.random.SeedSequence", rng.bit_generator.seed_seq))


class _Lead:
    """Tasks that begin with what a leader has tuned, at draws of its posterior."""

    def __init__(self, settings: Settings, draws: int, burn_in: int):
        self._settings, self._counts = settings, (draws, burn_in)
        self._may_carry = isinstance(settings.metric, str)  # a metric that is given stays
        self._known: dict[int, Neighbour | None] = {}
        self._led: dict[int, int] = {}  # data sets of each leader so far

    def tasks(self, fit: _Fit, leader: _Fit) -> list[ChainTask]:
        assert fit.target is not None
        assert leader.draws is not None
        made = leader.draws.shape[1]
        # Each from other draws: what chance there is in them should not be that of all neighbours.
        nth = self._led[id(leader)] = self._led.get(id(leader), -1) + 1
        x, tuned = leader.draws[:, made - 1 - nth * made // NEIGHBOURS], list(leader.tuned)
        carried = self._carried(fit, leader, x)
        if carried is not None:
            one, x, fit.carrying = carried
            tuned = [one] * len(x)
        seeds = [chain_seed(_again(parent)) for parent in fit.rngs]
        return [
            replace(
                ChainTask(
                    fit.target, self._settings, *self._counts, seed, Region(x[k].copy(), 0.0)
                ),
                number=k,
                tuned=tuned[k],
            )
            for k, seed in enumerate(seeds)
        ]

    def _carried(self, fit: _Fit, leader: _Fit, x: np.ndarray) -> tuple | None:
        assert fit.target is not None
        if not self._may_carry:
            return None
        if id(leader) not in self._known:
            assert leader.target is not None
            self._known[id(leader)] = Neighbour.of(leader.target, _best(leader))
        neighbour = self._known[id(leader)]
        return None if neighbour is None else neighbour.carry(fit.target, x)


def _best(leader: _Fit) -> Any:
    """What the chain was tuned to whose draws are worth most per gradient."""
    assert leader.draws is not None
    assert leader.spent is not None
    sizes = [least_effective(draws[None])[0] for draws in leader.draws]
    return leader.tuned[int(np.argmax(np.array(sizes) / leader.spent))]


def _run(fits: list[_Fit], make: Callable, cores, executor, shown: _Counted) -> None:
    """Run the chains of some data sets; each fit takes its own."""
    ready = []
    for fit in fits:
        try:
            fit.tasks = make(fit)
            ready.append(fit)
        except Exception as error:  # no finite start: this data set's own trouble
            fit.error = error
    if not ready:
        return
    tasks = [task for fit in ready for task in fit.tasks]
    out, outputs, interrupted = run_chains(
        tasks,
        cores=cores,
        progress=shown,  # type: ignore[arg-type]
        executor=executor,
        keep_going=True,
    )
    if interrupted:
        raise KeyboardInterrupt
    shown.end(len(tasks))
    per_fit = len(ready[0].tasks)
    for k, fit in enumerate(ready):
        part = slice(k * per_fit, (k + 1) * per_fit)
        fit.take(out[part], outputs[part])


# ------------------------------------------------------------------ collecting


def _collect(model: Any, fits: list[_Fit], expand: Callable) -> Mapped:
    failures = {fit.name: fit.error for fit in fits if fit.error is not None}
    made = [fit for fit in fits if fit.error is None and fit.is_done]
    names = [fit.name for fit in made]
    if not made:
        return Mapped(xarray.Dataset(), xarray.Dataset(), failures)
    stacked: dict[str, np.ndarray] = {}
    for place, fit in enumerate(made):
        for name, values in expand(fit.draws, density=fit.density).items():
            if name not in stacked:
                stacked[name] = np.empty((len(made), *values.shape), values.dtype)
            if stacked[name].shape[1:] != values.shape:
                raise ModelError(
                    f"{name} has another shape for some data sets: choose the variables to keep "
                    "with compile(model, var_names=...)."
                )
            stacked[name][place] = values
    coords: dict[str, Any] = {"dataset": names}
    posterior = {name: _named(model, name, values, coords) for name, values in stacked.items()}
    stats: dict[str, Any] = {
        name: ("dataset", [fit.summary[name] for fit in made]) for name in SUMMARIES
    }
    stats["lp"] = ("dataset", "chain", "draw"), np.array([fit.lp for fit in made])
    return Mapped(
        xarray.Dataset(posterior, coords),
        xarray.Dataset(stats, {"dataset": names}),
        failures,
    )


def _named(model: Any, name: str, values: np.ndarray, coords: dict) -> tuple[tuple, np.ndarray]:
    """A variable with its dimensions; notes their coordinates."""
    given = model.named_vars_to_dims.get(name) or ()
    inner = values.shape[3:]
    dims = []
    for j, length in enumerate(inner):
        dim = given[j] if j < len(given) and given[j] is not None else f"{name}_dim_{j}"
        labels = model.coords.get(dim)
        if labels is not None and len(labels) == length:
            coords[dim] = list(labels)
        dims.append(dim)
    return ("dataset", "chain", "draw", *dims), values
