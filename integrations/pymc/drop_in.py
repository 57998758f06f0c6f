"""What `pm.sample` takes, for whole chains in native code."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pymc as pm
from pymc.model import modelcontext

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.executors import check_executor
from mjhmc_numba.pooling import check_warmup
from mjhmc_numba.progress import Progress
from mjhmc_numba.pymc.arguments import (
    check_init,
    check_place_of_model,
    check_progressbar,
    number_of_chains,
    refuse,
)
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.expand import Expansion
from mjhmc_numba.pymc.sampling import Sampling, check_model, compile  # noqa: A004
from mjhmc_numba.pymc.start import JITTER_RETRIES, jitter_tries
from mjhmc_numba.pymc.step import DEFAULT_TUNE, MJHMC
from mjhmc_numba.results import Result
from mjhmc_numba.settings import Settings, check_chain, check_counts, choose_settings
from mjhmc_numba.storage.checkpoint import EVERY, Checkpoint

__all__ = ["sample"]


def sample(
    draws: int = 1000,
    tune: int | None = DEFAULT_TUNE,
    chains: int | None = 4,
    model: pm.Model | None = None,
    *,
    random_seed: Any = None,
    cores: int | None = None,
    progressbar: bool | str = True,
    var_names: Sequence[str] | None = None,
    initvals: Mapping | Sequence | None = None,
    jitter: bool = True,
    discard_tuned_samples: bool = True,
    compute_convergence_checks: bool = True,
    idata_kwargs: Mapping[str, Any] | None = None,
    compile_kwargs: Mapping[str, Any] | None = None,
    check_gradient: bool = True,
    blocking: bool = True,
    jumps: bool | Sequence[str] = False,
    executor: Any = None,
    checkpoint: str | os.PathLike | None = None,
    every: float = EVERY,
    store: str | os.PathLike | None = None,
    warm_start: Result | Sampling | None = None,
    chain: int | None = None,
    warmup: str = "separate",
    quiet: bool = False,
    blas_cores: int | str | None = "auto",
    init: str = "auto",
    jitter_max_retries: int = JITTER_RETRIES,
    store_divergences: bool = False,
    callback: Callable | None = None,
    trace: Any = None,
    keep_warning_stat: bool = False,
    return_inferencedata: bool = True,
    settings: Settings | None = None,
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
        Draws to keep, and tuning draws before them, of each chain; 1000 if `tune` is None.
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
        Random starts that are tried, after the first, for a finite density.
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
    options |= options.pop("mjhmc", None) or {}
    chosen = choose_settings(settings, options)
    check_progressbar(progressbar)
    check_init(init)
    jitter_tries(jitter, jitter_max_retries)  # raises if they are wrong
    tune = DEFAULT_TUNE if tune is None else tune
    chains = number_of_chains(chains, cores)
    how = {
        "random_seed": random_seed,
        "cores": cores,
        "progressbar": progressbar,
        "initvals": initvals,
        "discard_tuned_samples": discard_tuned_samples,
        "compute_convergence_checks": compute_convergence_checks,
        "idata_kwargs": idata_kwargs,
        "quiet": quiet,
        "blas_cores": blas_cores,
    }
    own = {
        "blocking": blocking,
        "jumps": jumps,
        "executor": executor,
        "checkpoint": checkpoint,
        "every": every,
        "store": store,
        "warm_start": warm_start,
        "chain": chain,
        "warmup": warmup,
        "store_divergences": store_divergences,
    }
    of_pymc = {
        "callback": callback,
        "trace": trace,
        "keep_warning_stat": keep_warning_stat,
        "return_inferencedata": return_inferencedata,
    }
    why = _why_through_pymc(draws, of_pymc)
    if why is not None:
        _check_own(why, own)
        step = {
            "jitter": jitter,
            "jitter_max_retries": jitter_max_retries,
            "check_gradient": check_gradient,
            "compile_kwargs": compile_kwargs,
            "settings": chosen,
        }
        return _through_pymc(model, draws, tune, chains, var_names, step, how | of_pymc)
    check_counts(draws=draws, tune=tune, chains=chains, cores=cores)  # before compilation
    check_executor(executor)
    if checkpoint is not None:
        Checkpoint(checkpoint, every)
    check_chain(chain, chains, random_seed)
    check_warmup(warmup, tune)
    display = Progress.of(bool(progressbar) and not quiet)  # one for compilation and chains
    compiled = compile(
        model, var_names=var_names, compile_kwargs=compile_kwargs, progressbar=display
    )
    how |= own | {"progressbar": display}
    return compiled.sample(
        draws,
        tune,
        chains,
        jitter=jitter,
        jitter_max_retries=jitter_max_retries,
        check_gradient=check_gradient,
        settings=chosen,
        **how,
    )


def _why_through_pymc(draws: int, of_pymc: Mapping[str, Any]) -> str | None:
    """Which argument, if any, PyMC alone can follow."""
    if draws == 0:
        return "draws=0"
    asked = [name for name in ("callback", "trace") if of_pymc[name] is not None]
    asked += ["keep_warning_stat"] if of_pymc["keep_warning_stat"] else []
    asked += [] if of_pymc["return_inferencedata"] else ["return_inferencedata=False"]
    return asked[0] if asked else None


def _check_own(why: str, own: Mapping[str, Any]) -> None:
    defaults = inspect.signature(sample).parameters
    for name, value in own.items():
        if value != defaults[name].default:
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
