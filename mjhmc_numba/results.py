"""What sampling returns, and its bridge to ArviZ."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.convergence import least_effective, nested_r_hat, split_r_hat
from mjhmc_numba.markup import card
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Tuned, WarmupWindow

__all__ = [
    "FOUND",
    "Result",
    "Round",
    "chain_attributes",
    "found_by",
    "merged_attributes",
    "merged_found",
]

FEWEST_TO_JUDGE = 4  # draws, for halves of chains to have a variance

# Attributes that all chains of a run share.
SHARED = ("sampler", "sampler_version", "settings", "rates")
# Those of the statistics, that say what was found of the reparametrisation.
FOUND = ("reparametrisation", "exact_reparametrisation")


class Round(NamedTuple):
    """Where a run in rounds stood after one of them; see `mjhmc_numba.Until`.

    Parameters
    ----------
    draws : int
        Per chain, so far.
    quantity : str
        Whose Monte Carlo error was largest, over its tolerance.
    error, tolerance : float
        Of its mean.
    unit : str
        Of both: "sd" of the quantity, or "absolute".
    r_hat : float
        The largest split R-hat of what was named.
    r_hat_of : str
        Whose it is.
    """

    draws: int
    quantity: str
    error: float
    tolerance: float
    unit: str
    r_hat: float
    r_hat_of: str

    @property
    def shown_error(self) -> str:
        return f"{self.error:.2g}{' sd' if self.unit == 'sd' else ''}"

    def __str__(self) -> str:
        return (
            f"{self.draws} draws per chain: error of {self.quantity} {self.shown_error} "
            f"(wanted {self.tolerance:g}), R-hat {self.r_hat:.3f}"
        )


@dataclass(eq=False)
class Result:
    """Draws of several chains.

    Parameters
    ----------
    draws : (chain, draw, d) array
        Unweighted draws.
    stats : dict of str to (chain, draw) array
        The statistics of `mjhmc_numba.kernel.statistics`; on request `gradient`, of the log density
        at the draws, (chain, draw, d).
    tuned : list of Tuned
        What was tuned: what each chain ran with after its warm-up.
    settings : Settings
        What the user set.
    seed : object
        Entropy that makes the same draws again.
    names : list of str
        Of the dimensions.
    tune : int
        Draws of the warm-up.
    warmup_gradients : (chain,) array
        Gradients spent before the first draw.
    chains : list of int
        The number of each chain; an interrupted run may lack some.
    rerun : list of int
        Chains that were run again, with the same draws, because their worker died.
    superchains : list of int, optional
        After a pooled warm-up, for each chain the place that it started from.
    warmup_draws, warmup_stats
        The same of the warm-up, on request.
    jumps : list of dict, optional
        On request, for each chain its jump record: visited states `x`, `holding_time`
        sampled and `expected_holding_time`, the paper's importance weights, and the `event` that
        ended the visit (1 = L, 2 = F, 3 = R).
    warmup_windows : list of list of WarmupWindow
        For each chain, how its warm-up went.
    interrupted : bool
        Whether the run was cut short by the user.
    warnings : list of str
        What is wrong with the draws, and what to do.
    ends : list, optional
        What each chain needs to go on; None if the run was interrupted.
    stored : int, optional
        Draws of each chain in a store; then `draws` are some of them, evenly spaced, and counts
        among `stats` are of all draws since the one before.
    rounds : list of Round
        Of a run that was to end when errors are small enough, where it stood after each round.
    """

    draws: np.ndarray
    stats: dict[str, np.ndarray]
    tuned: list[Tuned]
    settings: Settings
    seed: Any
    names: list[str]
    tune: int
    warmup_gradients: np.ndarray
    chains: list[int]
    warmup_draws: np.ndarray | None = None
    warmup_stats: dict[str, np.ndarray] | None = None
    jumps: list[dict[str, np.ndarray]] | None = None
    warmup_windows: list[list[WarmupWindow]] = field(default_factory=list)
    interrupted: bool = False
    rerun: list[int] = field(default_factory=list)
    superchains: list[int] | None = None
    warnings: list[str] = field(default_factory=list)
    ends: list[Any] | None = field(default=None, repr=False)
    stored: int | None = None
    rounds: list[Round] = field(default_factory=list)
    # (result, draws, ...) -> result; holds the density, which not everywhere can be.
    _continue: Callable[..., Result] | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"ends": None, "_continue": None}

    def extend(self, draws: int, **how: Any) -> Result:
        """More draws of the same chains: what a longer run would have made, bit for bit.

        Parameters
        ----------
        draws : int
            More of each chain.
        **how
            `cores`, `progress` and `executor`, as in `sample`.

        Returns
        -------
        Result
            All draws, old and new; this one stays as it is.
        """
        if self._continue is None:
            raise RuntimeError(
                "These draws cannot be extended: the result was copied or unpickled, or was not "
                "made by mjhmc_numba.sample."
            )
        return self._continue(self, draws, **how)

    def __repr__(self) -> str:
        chains, draws, d = self.draws.shape
        n = len(self.warnings)
        return (
            f"<Result: {chains} chains x {draws} draws x {d} dimensions, "
            f"{self.gradients['warmup']:,} + {self.gradients['draws']:,} gradients, "
            f"{self.stats['diverging'].sum()} diverging, {n} warning{'' if n == 1 else 's'}>"
        )

    def _repr_html_(self) -> str:
        chains, draws, d = self.draws.shape
        facts: dict[str, Any] = {
            "chains x draws x dimensions": f"{chains} x {draws:,} x {d:,}",
            "gradients": f"{self.gradients['warmup']:,} in the warm-up, "
            f"{self.gradients['draws']:,} after it",
            "diverging draws": int(self.stats["diverging"].sum()),
        }
        if draws >= FEWEST_TO_JUDGE:
            size, dimension = least_effective(self.draws)
            facts["worst R-hat"] = f"{np.max(split_r_hat(self.draws)):.3f}"
            facts["worst effective size"] = f"{size:,.0f} ({self.names[dimension]})"
        facts |= {
            "integrator": ", ".join(sorted({t.integrator for t in self.tuned})),
            "settings": self.settings.given() or "all by default",
            "seed": self.seed,
        }
        return card("Result", facts, notes=self.warnings)

    @property
    def gradients(self) -> dict[str, int]:
        """Gradients of all chains, in the warm-up and after it."""
        return {
            "warmup": int(self.warmup_gradients.sum()),
            "draws": int(self.stats["n_steps"].sum()),
        }

    def nested_r_hat(self, superchains: Sequence[int] | None = None) -> np.ndarray:
        """R-hat of many short chains, for each dimension; see `convergence.nested_r_hat`.

        Parameters
        ----------
        superchains : sequence of int, optional
            For each chain a number that it shares with those that started where it did. Those of
            a pooled warm-up by default.
        """
        return nested_r_hat(self.draws, self.superchains_of(superchains))

    def superchains_of(self, given: Sequence[int] | None) -> Sequence[int]:
        """The superchain of each chain: as given, or those of a pooled warm-up."""
        groups = self.superchains if given is None else given
        if groups is None or len(groups) != len(self.chains):
            raise ValueError("Say for each chain which superchain it belongs to.")
        return groups

    def to_arviz(self, names: Sequence[str] | Mapping[str, tuple] | None = None) -> Any:
        """The draws for ArviZ: InferenceData (ArviZ 0.x) or DataTree (ArviZ 1.x).

        Parameters
        ----------
        names : sequence of str, or mapping of str to tuple, optional
            A name for each dimension; or names and shapes, which share out the dimensions in
            order. By default one variable "x".

        Returns
        -------
        InferenceData or DataTree
        """
        import arviz

        groups = {
            "posterior": self._named(self.draws, names),
            "sample_stats": dict(self.stats),
        }
        if self.warmup_draws is not None and self.warmup_stats is not None:
            groups["warmup_posterior"] = self._named(self.warmup_draws, names)
            groups["warmup_sample_stats"] = dict(self.warmup_stats)
        if int(arviz.__version__.split(".")[0]) >= 1:
            data = arviz.from_dict(groups, save_warmup=True)
        else:
            data = arviz.from_dict(**groups, save_warmup=True)
        for group in groups:
            data[group].coords["chain"] = self.chains  # ArviZ numbers them from 0 on
        for group in ("posterior", "sample_stats"):
            data[group].attrs.update(
                inference_library="mjhmc_numba",
                inference_library_version=version("mjhmc_numba"),
                tuning_steps=self.tune,
                seed=str(self.seed),
                **self.attributes(),
            )
        data["sample_stats"].attrs.update(self.warmup_attributes())
        return data

    def summary(
        self, names: Sequence[str] | Mapping[str, tuple] | None = None, **options: Any
    ) -> Any:
        """ArviZ's table of means, intervals, effective sample sizes and R-hat."""
        import arviz

        return arviz.summary(self.to_arviz(names), **options)

    def report(self, path: Any, names: Sequence[str] | Mapping[str, tuple] | None = None) -> Path:
        """Write one HTML file about the run, which needs no network and no other file.

        Summary, convergence, warnings with advice, traces of the worst quantities, energy, warm-up,
        settings, versions and seed.

        Parameters
        ----------
        path : path
            Where to write, such as "run.html".
        names : sequence of str, or mapping of str to tuple, optional
            As for `to_arviz`.

        Returns
        -------
        Path
            The file.
        """
        from mjhmc_numba.report import write_report

        return write_report(self.to_arviz(names), path, self.warnings)

    def _named(
        self, draws: np.ndarray, names: Sequence[str] | Mapping[str, tuple] | None
    ) -> dict[str, np.ndarray]:
        d = draws.shape[2]
        if names is None:
            return {"x": draws}
        shapes = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, ())
        sizes = [int(np.prod(shape, dtype=int)) for shape in shapes.values()]
        if sum(sizes) != d or (not isinstance(names, Mapping) and len(shapes) != len(names)):
            raise ValueError(f"The names stand for {sum(sizes)} numbers, but there are {d}.")
        named, at = {}, 0
        for (name, shape), size in zip(shapes.items(), sizes, strict=True):
            named[name] = draws[:, :, at : at + size].reshape(*draws.shape[:2], *shape)
            at += size
        return named

    def attributes(self) -> dict[str, Any]:
        """What was set and tuned, in types that every file format takes."""
        merged = merged_attributes(
            [
                chain_attributes(self.settings, tuned, self.names, int(gradients))
                for tuned, gradients in zip(self.tuned, self.warmup_gradients, strict=True)
            ]
        )
        if self.superchains is not None:
            merged["superchains"] = self.superchains
        if self.rounds:
            merged["rounds"] = json.dumps([r._asdict() for r in self.rounds])
        return merged | ({"rerun": self.rerun} if self.rerun else {})

    def warmup_attributes(self) -> dict[str, str]:
        """How the warm-up went and what it found, as JSON, for `mjhmc_numba.plots`; and all of the
        first chain's reparametrisation, for estimates.
        """
        windows = [[w._asdict() for w in chain] for chain in self.warmup_windows]
        found = merged_found([found_by(tuned, self.names) for tuned in self.tuned])
        return {"warmup_windows": json.dumps(windows), **found}


@cache
def _own_version() -> str:
    """To look it up takes longer than a short chain."""
    return version("mjhmc_numba")


def _reparametrised(tuned: Tuned, names: Sequence[str]) -> dict[str, list]:
    """Names of children and parents, and how much of the parents is taken out of each child."""
    r = tuned.reparametrisation
    if r is None:
        return {}
    return {
        "children": [names[j] for j in r.children],
        "scale_parents": [names[j] for j in r.scale_parents],
        "scale_slopes": r.scale_slopes.round(3).tolist(),
        "location_parents": [names[j] for j in r.location_parents],
        "location_slopes": r.location[:, 1:].round(3).tolist(),
    }


def chain_attributes(
    settings: Settings, tuned: Tuned, names: Sequence[str], warmup_gradients: int
) -> dict[str, Any]:
    """What a chain was told and what it was tuned to, as numbers and strings.

    Parameters
    ----------
    settings : Settings
        What the user set.
    tuned : Tuned
        What the chain runs with after its warm-up.
    names : sequence of str
        Of the dimensions.
    warmup_gradients : int
        Gradients spent before the first draw.
    """
    parents = () if tuned.reparametrisation is None else tuned.reparametrisation.parents
    return {
        "sampler": "mjhmc_numba",
        "sampler_version": _own_version(),
        "settings": settings.given(),
        "rates": settings.rates if isinstance(settings.rates, str) else "custom",
        "integrator": tuned.integrator,
        "step_size": tuned.step_size,
        "num_steps": tuned.num_steps,
        "refresh_rate": tuned.refresh_rate,
        "draw_interval": tuned.draw_interval,
        "metric_rank": tuned.metric.rank,
        "reparametrisation_parents": ", ".join(names[k] for k in parents),
        "warmup_gradients": warmup_gradients,
    }


def merged_attributes(chains: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The attributes of a run, from those of its chains: lists, but for what they share."""
    merged: dict[str, Any] = {name: chains[0][name] for name in SHARED}
    for name in chains[0]:
        if name not in SHARED:
            merged[name] = [chain[name] for chain in chains]
    merged["integrator"] = ", ".join(merged["integrator"])
    return merged


def found_by(tuned: Tuned, names: Sequence[str]) -> dict[str, str]:
    """What the warm-up of a chain found of its reparametrisation, as JSON: by name, and exactly."""
    r = tuned.reparametrisation
    return {
        "reparametrisation": json.dumps(_reparametrised(tuned, names)),
        "exact_reparametrisation": "" if r is None else r.to_json(),
    }


def merged_found(chains: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Those of the chains of a run, from those of each: all by name, and the first one exactly."""
    by_name, exactly = ([chain[name] for chain in chains] for name in FOUND)
    return {
        "reparametrisation": f"[{', '.join(by_name)}]",
        "exact_reparametrisation": exactly[0] if exactly else "",
    }
