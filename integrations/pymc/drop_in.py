"""What `pm.sample` takes, for whole chains in native code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pymc as pm
from pymc.model import modelcontext

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.progress import Progress
from mjhmc_numba.pymc.arguments import (
    check_init,
    check_place_of_model,
    check_progressbar,
    number_of_chains,
    refuse,
)
from mjhmc_numba.pymc.compiled import (
    CompiledModel,
    check_model,
    check_run,
    compile,  # noqa: A004
)
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.expand import Expansion
from mjhmc_numba.pymc.start import jitter_tries
from mjhmc_numba.pymc.step import DEFAULT_TUNE, MJHMC
from mjhmc_numba.settings import choose_settings
from mjhmc_numba.storage import Checkpoint

__all__ = ["sample"]

F = TypeVar("F", bound=Callable)

# What a run is asked for stands once, as the keywords of `CompiledModel.sample`.
_OF_RUN = {
    name: parameter
    for name, parameter in inspect.signature(CompiledModel.sample).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}
# Those of them that are PyMC's too, and those that PyMC, drawing one by one, cannot follow.
_SHARED = (
    "random_seed",
    "cores",
    "initvals",
    "discard_tuned_samples",
    "compute_convergence_checks",
    "idata_kwargs",
    "quiet",
    "blas_cores",
)
_OWN = (
    "blocking",
    "jumps",
    "executor",
    "checkpoint",
    "every",
    "store",
    "warm_start",
    "chain",
    "warmup",
    "store_divergences",
    "store_gradients",
    "until",
)


def _with_those_of_a_run(function: F) -> F:
    """Show the keywords of a run, which the function takes as options, in its signature."""
    own = inspect.signature(function)
    *named, options = own.parameters.values()
    parameters = [p for p in named if p.kind is not p.KEYWORD_ONLY]
    keywords = {p.name: p for p in named if p.kind is p.KEYWORD_ONLY}
    parameters += (_OF_RUN | keywords).values()
    function.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*parameters, options]
    )
    return function


@_with_those_of_a_run
def sample(
    draws: int = 1000,
    tune: int | None = DEFAULT_TUNE,
    chains: int | None = 4,
    model: pm.Model | None = None,
    *,
    progressbar: bool | str = True,
    var_names: Sequence[str] | None = None,
    compile_kwargs: Mapping[str, Any] | None = None,
    init: str = "auto",
    callback: Callable | None = None,
    trace: Any = None,
    keep_warning_stat: bool = False,
    return_inferencedata: bool = True,
    **options: Any,
) -> Any:
    """Sample a PyMC model by Markov jump HMC, whole chains in native code on threads.

    Takes and returns what `pm.sample` does, for models of continuous variables. The chains are
    those of ``pm.sample(step=MJHMC(...))`` with the same seed, tuning draws and settings, bit for
    bit, whatever the number of cores; transformed variables and Deterministics, which are
    computed from them in another way, agree to rounding.

    Parameters
    ----------
    draws, tune : int
        Draws to keep, and tuning draws before them, of each chain; 1000 if `tune` is None. With
        `until`, `draws` are those of the first round.
    chains : int
        Number of chains; None means PyMC's rule, 2 or as many as run at once.
    model : pm.Model, optional
        That of the `with` block by default.
    random_seed : object
        Anything that `pm.sample` takes.
    cores : int, optional
        Chains that run at once; as many as there are cores by default.
    progressbar : bool or str
        Show a live display, the same for all of PyMC's values.
    var_names : sequence of str, optional
        Variables to keep; all by default.
    initvals : mapping, or sequence of mappings, optional
        Initial values, of all chains or of each.
    jitter : bool
        Start at random points near the initial values.
    discard_tuned_samples : bool
        False keeps the warm-up in groups of their own.
    compute_convergence_checks : bool
        Log what R-hat and effective sample sizes say.
    idata_kwargs : mapping, optional
        Handed to `pm.to_inference_data`, such as ``{"log_likelihood": True}``.
    compile_kwargs : mapping, optional
        Handed to PyTensor's compilation.
    check_gradient : bool
        Compare gradients of custom operations with finite differences at the first start.
    blocking : bool
        False returns at once with a `Sampling` to wait for, look into, abort, or extend.
    jumps : bool, or sequence of str
        Add the group `jump_record`, the paper's output: the weighted states of the jump process,
        which then runs in Poisson time. True keeps `var_names`, or all free variables; names
        choose among these and Deterministics. See `resample` and `weighted_summary`.
    store_gradients : bool
        Add the statistics `gradient`, of the log density at each draw, which is known already, and
        `unconstrained_draw`, under nutpie's names: `estimates` then computes no gradient.
    until : Until, optional
        Go on in rounds until the Monte Carlo errors of named variables, transformed ones,
        Deterministics and functions of the posterior are small enough; see `mjhmc_numba.Until`. The
        draws are those of a run that was asked for as many at once, bit for bit.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Run the chains there instead, with the same draws; each worker compiles the model once. A
        chain whose worker dies is run again.
    checkpoint : path-like, optional
        A folder for checkpoints. A run that was killed goes on from there when the same call is
        made again, and ends with the draws that it would have had, bit for bit. More draws may be
        asked for than before.
    every : float
        Seconds between two checkpoints of a chain.
    store : path-like, optional
        A folder, not there yet, for a zarr store that draws and statistics are written to as they
        come, in place of memory; what is returned reads from there. ArviZ and xarray can read it
        while it grows: `sample_stats/valid_draws` says how far each chain is, and
        `mjhmc_numba.from_store` heeds it.
    warm_start : Sampling or Result, optional
        Of the same model on other data. What was tuned there is used as it is, each chain starts
        at the last draw of one there, and the `tune` draws are a burn-in: 100 may do.
    chain : int, optional
        Run this one alone of the `chains`, with the draws that it has among them; `random_seed`
        must be given. `mjhmc_numba.combine` puts such chains together.
    warmup : {"separate", "pooled"}
        "pooled" is for many short chains; see `mjhmc_numba.sample`.
    quiet : bool
        Show no display and no warnings; the latter are in the attributes of `sample_stats`.
    blas_cores : int, "auto" or None
        Threads of BLAS for all chains that run at once; None leaves them as they are. "auto" is one
        per chain: then draws do not depend on the number of cores.
    init : str
        Not used, as the warm-up finds a metric; another value of PyMC's than "auto" warns.
    jitter_max_retries : int
        Random starts that are tried for a finite density.
    store_divergences : bool
        Add the statistic `divergence_start`: where the last step of a draw began that diverged, in
        the unconstrained variables, NaN where none did. The step method has it in PyMC's
        `warning`.
    callback, trace, keep_warning_stat, return_inferencedata
        As in `pm.sample`. A callback, a trace, warnings that are kept, a `MultiTrace` instead of
        what ArviZ takes, and ``draws=0``, are PyMC's own: chains then run draw by draw through
        ``pm.sample(step=MJHMC(...))``, which is slower and gives the same draws.
    settings : Settings, optional
        What not to tune; instead of `options`.
    **options
        The fields of `mjhmc_numba.Settings`, or all of them as ``mjhmc={...}``. Other arguments of
        `pm.sample` raise and say why they mean nothing here; unknown ones raise.

    Returns
    -------
    InferenceData or DataTree
        The former with ArviZ 0.x, the latter with 1.x; groups posterior, sample_stats,
        observed_data and constant_data.
    """
    check_place_of_model(draws=draws, tune=tune, chains=chains)
    options = refuse(options)
    how = {name: options.pop(name, p.default) for name, p in _OF_RUN.items()}
    options |= options.pop("mjhmc", None) or {}
    how["settings"] = choose_settings(how["settings"], options)
    check_progressbar(progressbar)
    check_init(init)
    jitter_tries(how["jitter"], how["jitter_max_retries"])  # raises if they are wrong
    tune = DEFAULT_TUNE if tune is None else tune
    chains = number_of_chains(chains, how["cores"])
    of_pymc = {
        "callback": callback,
        "trace": trace,
        "keep_warning_stat": keep_warning_stat,
        "return_inferencedata": return_inferencedata,
    }
    why = _why_through_pymc(draws, of_pymc)
    if why is not None:
        _check_own(why, how)
        of_step = ("jitter", "jitter_max_retries", "check_gradient", "settings")
        step = {"compile_kwargs": compile_kwargs} | {k: how[k] for k in of_step}
        shared = {name: how[name] for name in _SHARED} | {"progressbar": progressbar}
        return _through_pymc(model, draws, tune, chains, var_names, step, shared | of_pymc)
    # Before compilation.
    asked = ["cores", "executor", "chain", "random_seed", "warmup"]
    asked += ["until", "store_gradients", "checkpoint"]
    check_run(draws, tune, chains, **{name: how[name] for name in asked})
    if how["checkpoint"] is not None:
        Checkpoint(how["checkpoint"], how["every"])
    # One display for compilation and chains.
    how["progressbar"] = Progress.of(bool(progressbar) and not how["quiet"])
    compiled = compile(
        model,
        var_names=var_names,
        compile_kwargs=compile_kwargs,
        progressbar=how["progressbar"],
    )
    return compiled.sample(draws, tune, chains, **how)


def _why_through_pymc(draws: int, of_pymc: Mapping[str, Any]) -> str | None:
    """Which argument, if any, PyMC alone can follow."""
    if draws == 0:
        return "draws=0"
    asked = [name for name in ("callback", "trace") if of_pymc[name] is not None]
    asked += ["keep_warning_stat"] if of_pymc["keep_warning_stat"] else []
    asked += [] if of_pymc["return_inferencedata"] else ["return_inferencedata=False"]
    return asked[0] if asked else None


def _check_own(why: str, how: Mapping[str, Any]) -> None:
    for name in _OWN:
        if how[name] != _OF_RUN[name].default:
            raise SettingsError(
                f"{name} goes with whole chains in native code, and {why} needs PyMC to draw one "
                "by one: leave out one of the two."
            )


def _through_pymc(
    model: pm.Model | None,
    draws: int,
    tune: int,
    chains: int,
    var_names: Sequence[str] | None,
    step: Mapping[str, Any],
    how: dict[str, Any],
) -> Any:
    """The same draws from `pm.sample`, one by one."""
    shows = bool(how["progressbar"]) and not how["quiet"]
    with modelcontext(model) as model:
        check_model(model)
        Expansion(ModelDensity(model), var_names)  # raises if there are no such variables
        return pm.sample(
            draws,
            tune=tune,
            chains=chains,
            var_names=var_names,
            step=MJHMC(model=model, progressbar=shows, **step),
            **how,
        )
