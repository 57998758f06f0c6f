"""From draws to what `pm.sample` returns. All that leans on PyMC's inner parts is in this file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray
from pymc.backends.base import MultiTrace
from pymc.backends.ndarray import NDArray
from pymc.initial_point import make_initial_point_fns_per_chain
from pymc.sampling import mcmc
from pymc.stats.convergence import (
    SamplerWarning,
    WarningType,
    log_warnings,
    run_convergence_checks,
)
from pymc.stats.log_density import compute_log_likelihood, compute_log_prior
from pymc.util import get_random_generator
from pytensor.compile.sharedvalue import SharedVariable

from mjhmc_numba.convergence import is_converged
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.pymc.arguments import refuse_for_made_step
from mjhmc_numba.pymc.density import ModelDensity, model_lock
from mjhmc_numba.pymc.errors import StartError, UnknownVariableError
from mjhmc_numba.pymc.python_machine import in_python_machine
from mjhmc_numba.results import FOUND, merged_attributes, merged_found
from mjhmc_numba.stats import longest_rectangle

__all__ = [
    "add_group",
    "answer_arguments",
    "as_dataset",
    "chain_generators",
    "convergence_is_unclear",
    "data_in_model",
    "from_groups",
    "initial_point_functions",
    "InitialPoints",
    "log_convergence",
    "mark_results",
    "to_arviz",
    "unfinished_traces",
]

# Groups that say how the draws were made.
MARKED_GROUPS = ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats")


def chain_generators(random_seed, chains: int) -> tuple[list[np.random.Generator], list[int]]:
    """For each chain its generator and the seed of its initial point, as `pm.sample` makes them."""
    try:
        rngs = get_random_generator(random_seed).spawn(chains)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"random_seed={random_seed!r} is none of NumPy's: {error}") from error
    return rngs, [int(rng.integers(2**30)) for rng in rngs]


def initial_point_functions(model, initvals, chains: int) -> list[Callable]:
    """For each chain, seed -> PyMC's initial point, without jitter."""
    with in_python_machine():
        return make_initial_point_fns_per_chain(
            model=model, overrides=initvals, jitter_rvs=set(), chains=chains
        )


class InitialPoints:
    """PyMC's initial points of a model, without jitter; what it compiles for them is kept."""

    def __init__(self, model: pm.Model):
        self._model = model
        self._usual: Callable | None = None

    def __call__(self, initvals, seeds: Sequence[int]) -> list[dict[str, np.ndarray]]:
        """That of each chain."""
        if initvals is not None:
            return _initial_points(self._model, initvals, seeds)
        if self._usual is None:
            (self._usual,) = initial_point_functions(self._model, None, 1)
        return [self._usual(seed) for seed in seeds]


def _initial_points(model, initvals, seeds: Sequence[int]) -> list[dict[str, np.ndarray]]:
    try:
        functions = initial_point_functions(model, initvals, len(seeds))
        return [function(seed) for function, seed in zip(functions, seeds, strict=True)]
    except KeyError as error:
        raise UnknownVariableError(f"initvals has {error}, which the model has not.") from error
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise StartError(f"initvals cannot be the start of this model: {error}") from error


@contextmanager
def data_in_model(density: ModelDensity) -> Iterator[None]:
    """Let the model hold the data that the density reads, where it holds other data."""
    model = density.model
    shared = [*model.data_vars, *model.dim_lengths.values()]
    with model_lock:
        replaced = []
        try:
            for variable in shared:
                if not isinstance(variable, SharedVariable):
                    continue
                own = variable.get_value(borrow=True)
                value = density.data_value(variable)
                if value is not own and not _is_equal(value, own):
                    replaced.append((variable, own))
                    variable.set_value(value, borrow=True)
            yield
        finally:
            for variable, own in replaced:
                variable.set_value(own, borrow=True)


def _is_equal(value, own) -> bool:
    own = np.asarray(own)
    return np.array_equal(value, own, equal_nan=own.dtype.kind == "f")


def to_arviz(
    density: ModelDensity,
    variables: Mapping[str, np.ndarray],
    stats: Mapping[str, np.ndarray],
    *,
    n_tune: int,
    chains: Sequence[int],
    seconds: float,
    attributes: Mapping[str, Any],
    idata_kwargs: Mapping[str, Any],
    warmup: tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]] | None = None,
):
    """InferenceData (ArviZ 0.x) or DataTree (ArviZ 1.x) of a model, as PyMC converts a trace.

    PyMC copies what it converts. So it is shown one draw of one chain, from which it makes groups,
    dimensions and coordinates; then the arrays take their places as they are. Statistics that are
    one number per draw have no dimensions of their own: one of them stands for all.

    Parameters
    ----------
    density : ModelDensity
        Of the model, with the data it was sampled with.
    variables, stats : mapping of str to (chain, draw, ...) array
        These will be those of the result.
    n_tune : int
        Draws of the warm-up that were made.
    chains : sequence of int
        Number of each chain.
    seconds : float
        That sampling took.
    attributes : mapping
        Stored beside the draws.
    idata_kwargs : mapping
        Handed to `pm.to_inference_data`.
    warmup : pair of mappings, optional
        Variables and statistics of the warm-up.
    """
    model = density.model
    options = {"save_warmup": warmup is not None, **idata_kwargs}
    later = {name: options.pop(name, False) for name in _FROM_DRAWS}
    coords = {**_coords_of_new_lengths(density), **options.pop("coords", {})}
    trace = _shown_trace(model, (variables, stats), warmup)
    trace.report._n_tune = n_tune
    trace.report._t_sampling = seconds
    arrays = {"posterior": variables, "sample_stats": stats}
    if warmup is not None:
        arrays |= dict(zip(("warmup_posterior", "warmup_sample_stats"), warmup, strict=True))
    with data_in_model(density):
        data = pm.to_inference_data(trace, model=model, coords=coords, **options)
        for group in [name for name in arrays if name in data]:
            shown, made = as_dataset(data[group]), arrays[group]
            if group.endswith("posterior"):  # PyMC leaves out transformed ones, unless asked
                made = {name: made[str(name)] for name in shown.data_vars}
            _replace(data, group, _filled(shown, made, chains))
        for name, wanted in later.items():
            if wanted:
                names = None if wanted is True else wanted
                _FROM_DRAWS[name](data, var_names=names, model=model, progressbar=False)
    for group in data:
        if group not in arrays and "chain" in data[group].dims:  # PyMC numbers from 0 on
            data[group].coords["chain"] = list(chains)
    for group in MARKED_GROUPS:
        if group in data:
            data[group].attrs.update(attributes)
    return data


# Options of `pm.to_inference_data` for what is computed of all draws.
_FROM_DRAWS = {"log_likelihood": compute_log_likelihood, "log_prior": compute_log_prior}


def _shown_trace(model, made, warmup) -> MultiTrace:
    """PyMC's trace of the first draw, and the first of the warm-up, of one chain."""
    made = made[0], _shown_stats(made[1])
    warmup = warmup and (warmup[0], _shown_stats(warmup[1]))
    parts = [part for part in (warmup, made) if part is not None]
    variables, stats = (
        {
            name: np.concatenate([part[k][name][0, :1] for part in parts])
            for name in made[k]
            if all(name in part[k] for part in parts)
        }
        for k in (0, 1)
    )
    shown = NDArray(
        model=model,
        vars=[_Named(name) for name in variables],
        fn=_nothing_to_compute,
        var_shapes={name: array.shape[1:] for name, array in variables.items()},
        var_dtypes={name: array.dtype for name, array in variables.items()},
    )
    shown.setup(0, 0, [{name: array.dtype for name, array in stats.items()}])
    shown.samples, shown._stats = variables, [stats]
    shown.draws = shown.draw_idx = len(next(iter(stats.values())))
    trace = MultiTrace([shown])
    trace.report._n_draws = next(iter(made[1].values()))[0, :1].shape[0]
    return trace


class _Named(NamedTuple):
    """What a trace asks of a variable; to make those of a model anew takes longer than the rest."""

    name: str


def _shown_stats(stats: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those with dimensions of their own, and one of the others."""
    number = next(name for name, array in stats.items() if array.ndim == 2)
    return {name: array for name, array in stats.items() if array.ndim > 2 or name == number}


def _filled(
    shown: xarray.Dataset, arrays: Mapping[str, np.ndarray], chains: Sequence[int]
) -> xarray.Dataset:
    """A group with all chains and draws, after one that PyMC made of a single draw."""
    dims = {name: variable.dims for name, variable in shown.variables.items()}
    made = {name: (dims.get(name, ("chain", "draw")), array) for name, array in arrays.items()}
    draws = next(iter(arrays.values())).shape[1]
    coords = {name: of for name, of in shown.coords.items() if name not in ("chain", "draw")}
    coords |= {"chain": list(chains), "draw": shown["draw"].values[0] + np.arange(draws)}
    return xarray.Dataset(made, coords, shown.attrs)


def _replace(data: Any, group: str, dataset: xarray.Dataset) -> None:
    if isinstance(data, xarray.DataTree):
        data[group].dataset = dataset
    else:
        setattr(data, group, dataset)


def unfinished_traces(traces: Sequence, tune: int):
    """What PyMC has recorded of chains that have not ended, in equal lengths; None if nothing.

    Parameters
    ----------
    traces : sequence of NDArray
        PyMC's, of each chain.
    tune : int
        Tuning draws among them, which come first.
    """
    if not all(isinstance(trace, NDArray) for trace in traces):
        return None  # in a store of the user's own, where they are
    lengths = [len(trace) for trace in traces]
    kept = longest_rectangle(lengths)
    if not kept:
        return None
    length = min(lengths[k] for k in kept)
    trace = MultiTrace([traces[k][:length] for k in kept])
    trace.report._n_tune = min(tune, length)
    trace.report._n_draws = max(length - tune, 0)
    return pm.to_inference_data(trace, save_warmup=True, model=traces[0].model)


def _nothing_to_compute(*point):
    raise AssertionError("Nothing is recorded into a finished trace.")


def _coords_of_new_lengths(density: ModelDensity) -> dict[str, np.ndarray]:
    """Numbers instead of the coordinates of a dimension that has another length now."""
    model, coords = density.model, {}
    for dim, symbol in model.dim_lengths.items():
        values = model.coords.get(dim)
        if values is None or not isinstance(symbol, SharedVariable):
            continue
        length = int(density.data_value(symbol))
        if length != len(values):
            coords[dim] = np.arange(length)
    return coords


def convergence_is_unclear(draws: np.ndarray, *, is_warned_of: bool) -> bool:
    """Whether PyMC's checks may say something new of unconstrained draws (chain, draw, d).

    They take longer than many a run. Where warnings of ours have named variables, what they leave
    are hints for few chains or draws.
    """
    chains, n, _ = draws.shape
    is_enough = chains >= 4 and n >= 100  # PyMC says that fewer of either are few
    return not (is_enough and (is_warned_of or is_converged(draws)))


def log_convergence(data, model, *, only_hints: bool = False) -> None:
    """PyMC's own checks of R-hat and effective sample size, in its log.

    `only_hints` leaves out what our warnings have told of named variables.
    """
    told = {WarningType.DIVERGENCES, *((WarningType.CONVERGENCE,) if only_hints else ())}
    log_warnings([w for w in run_convergence_checks(data, model) if w.kind not in told])


def as_dataset(group: Any) -> xarray.Dataset:
    """A group of InferenceData (ArviZ 0.x) or of a DataTree (ArviZ 1.x)."""
    return group.to_dataset() if hasattr(group, "to_dataset") else group


def add_group(data: Any, name: str, dataset: xarray.Dataset) -> None:
    """Add a group to InferenceData or to a DataTree."""
    if isinstance(data, xarray.DataTree):
        data[name] = xarray.DataTree(dataset)
    else:
        data.add_groups({name: dataset}, warn_on_custom_groups=False)


def from_groups(groups: Mapping[str, xarray.Dataset], like: Any) -> Any:
    """InferenceData or a DataTree, whichever `like` is, of other groups."""
    if isinstance(like, xarray.DataTree):
        return xarray.DataTree.from_dict(groups)
    return type(like)(**groups)


# ------------------------------------------------------- what a step leaves beside its draws


def mark_results() -> None:
    """Let `pm.sample` store beside the draws what an MJHMC step was set and tuned to.

    A step cannot: PyMC makes the attributes itself, and chains may run in other processes. So the
    step sends them with a draw, and the function with which `pm.sample` ends is followed by one
    that looks for them. It does nothing to the draws of other step methods.
    """
    inner = getattr(mcmc, "_sample_return", None)
    if inner is None or hasattr(inner, "marks"):
        return

    @wraps(inner)
    def sample_return(*args, **options):
        data = inner(*args, **options)
        if not isinstance(data, MultiTrace):
            _mark(data, options.get("traces", ()))
        return data

    sample_return.marks = True  # type: ignore[attr-defined]
    mcmc._sample_return = sample_return


def answer_arguments() -> None:
    """Let `pm.sample` say where arguments of a step go that is made already.

    PyMC advises to increase `target_accept`, takes it for an argument of NUTS, and where it assigns
    no step raises about "nuts". A step is not asked: so the function that raises is preceded by one
    that looks at the steps. It does nothing where none is MJHMC.
    """
    inner = mcmc.instantiate_steppers
    if hasattr(inner, "answers"):
        return

    @wraps(inner)
    def instantiate_steppers(model, steps, selected_steps, *, step_kwargs=None, **more):
        made = [method for step in steps for method in getattr(step, "methods", [step])]
        if any(method.name == "mjhmc" for method in made):
            taken = {method.name for method in selected_steps}
            given = step_kwargs or {}
            refuse_for_made_step({name: given[name] for name in given if name not in taken})
        return inner(model, steps, selected_steps, step_kwargs=step_kwargs, **more)

    instantiate_steppers.answers = True  # type: ignore[attr-defined]
    mcmc.instantiate_steppers = instantiate_steppers


def _mark(data, traces) -> None:
    if not isinstance(traces, Sequence):  # a ZarrTrace, which keeps what it was sent
        return
    chains = {t.chain: sent for t in traces if isinstance(t, NDArray) and (sent := _sent(t))}
    for group in MARKED_GROUPS:
        if chains and group in data and "chain" in data[group].coords:
            there = [chains[k] for k in data[group]["chain"].values.tolist() if k in chains]
            if there:
                told = [{k: v for k, v in chain.items() if k not in FOUND} for chain in there]
                data[group].attrs.update(merged_attributes(told))
                if group == "sample_stats":
                    data[group].attrs.update(merged_found(there))


def _sent(trace: NDArray) -> dict[str, Any] | None:
    """What the first MJHMC step of a chain has sent."""
    for stats in trace._stats or ():
        for warning in stats.get("warning", ()):
            if isinstance(warning, SamplerWarning) and isinstance(warning.extra, dict):
                return warning.extra
    return None
