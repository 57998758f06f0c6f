"""sample(): validate, call, return a Result."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from mjhmc_numba import initial as start
from mjhmc_numba.density import as_target
from mjhmc_numba.diagnostics import diagnose_unless_pressed
from mjhmc_numba.errors import SamplingWarning
from mjhmc_numba.estimates import Until
from mjhmc_numba.estimates.rounds import Quantities
from mjhmc_numba.executors import check_executor
from mjhmc_numba.interruption import Press, holding_interrupts, prompt
from mjhmc_numba.kernel.user_warnings import warn_user
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.pooling import check_warmup, run_with_warmup
from mjhmc_numba.progress import Progress
from mjhmc_numba.results import Result
from mjhmc_numba.run import (
    ChainTask,
    chain_seeds,
    check_gradients_kept,
    check_memory,
    check_store,
    check_until,
    child_seed,
    extend,
    finish_store,
    root_seed,
    run_until,
    warm_started,
    with_store,
)
from mjhmc_numba.settings import Settings, check_chain, check_counts, choose_settings
from mjhmc_numba.storage.checkpoint import EVERY, Checkpoint
from mjhmc_numba.stored import Stored, stored_groups

__all__ = ["run_chain", "sample"]

CHECK_KEY = 1 << 32  # of the seed for the check of the gradient: no chain has it


@overload
def sample(
    target: Any,
    initial: ArrayLike | None = None,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    store: None = None,
    **options: Any,
) -> Result: ...


@overload
def sample(
    target: Any,
    initial: ArrayLike | None = None,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    store: str | os.PathLike,
    **options: Any,
) -> Stored: ...


@prompt
def sample(
    target: Any,
    initial: ArrayLike | None = None,
    *,
    spread: float = 0.0,
    ndim: int | None = None,
    args: Sequence = (),
    names: Sequence[str] | None = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    seed: Any = None,
    progress: bool = True,
    keep_warmup: bool = False,
    jumps: bool = False,
    store_gradients: bool = False,
    until: Until | None = None,
    check_gradient: bool = True,
    executor: Any = None,
    checkpoint: str | os.PathLike | None = None,
    every: float = EVERY,
    store: str | os.PathLike | None = None,
    warm_start: Result | None = None,
    chain: int | None = None,
    warmup: str = "separate",
    settings: Settings | None = None,
    **options: Any,
) -> Result | Stored:
    """Sample from a log density by Markov jump HMC.

    Parameters
    ----------
    target : callable or Target
        An `@njit` function ``(x, grad, *args) -> logp`` that writes the gradient; a Python
        function ``(x, *args) -> (logp, grad)``, the slow way; or a distribution of
        `mjhmc_numba.targets`.
    initial : array_like of shape (d,) or (chains, d), optional
        Where to start; at random by default.
    spread : float
        Start at random within this distance of `initial` in each dimension. Several starts are
        tried, up to 1 (or this) away from `initial`; the first is kept unless another leads to
        where the density is much higher.
    ndim : int, optional
        Number of dimensions, where neither `initial` nor the target tells.
    args : sequence of arrays and numbers
        Handed to the density; new ones need no recompilation.
    names : sequence of str, optional
        A name for each dimension, for messages.
    draws, tune : int
        Draws to keep, and warm-up draws before them, of each chain; with `until`, draws of the
        first round.
    chains : int
        Number of chains.
    cores : int, optional
        How many chains run at once; as many as there are cores by default.
    seed : object
        Anything that `numpy.random.SeedSequence` takes, or one.
    progress : bool
        Show a live display.
    keep_warmup : bool
        Return the draws of the warm-up too.
    jumps : bool
        Return the jump record, the weighted states of the process itself.
    store_gradients : bool
        Keep the gradients of the log density at the draws, which are known already, as
        `result.stats["gradient"]`; see `mjhmc_numba.estimates`.
    until : Until, optional
        Go on in rounds until the Monte Carlo errors of what it names are small enough. The draws
        are those of a run that was asked for as many at once, bit for bit; `result.rounds` says
        how the error fell.
    check_gradient : bool
        Compare the gradient with finite differences at the first start.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Run the chains there, with the same draws as here. A chain whose worker dies is run again.
    checkpoint : path-like, optional
        A folder for checkpoints. A run that was killed goes on from there when the same call is
        made again, and ends with the draws that it would have had, bit for bit. More draws may be
        asked for than before.
    every : float
        Seconds between two checkpoints of a chain.
    store : path-like, optional
        A folder, not there yet, for a zarr store that draws and statistics are written to as they
        come, in place of memory. ArviZ and xarray read it while it grows;
        `sample_stats/valid_draws` says how far each chain is, and `mjhmc_numba.from_store` heeds
        it.
    warm_start : Result, optional
        Of a density much like this one, such as the same model on other data. What was tuned
        there is used as it is, each chain starts at the last draw of one there (or at
        `initial`), and the `tune` draws are a burn-in: 100 may do.
    chain : int, optional
        Run this one alone of the `chains`; see `run_chain`.
    warmup : {"separate", "pooled"}
        "pooled" is for many short chains: a few pilots are warmed up, and all chains use what the
        best of them has tuned, start where pilots have ended, and burn in for a quarter of `tune`.
    settings : Settings, optional
        What not to tune; instead of `options`.
    **options
        The fields of `mjhmc_numba.Settings`; unknown ones raise.

    Returns
    -------
    Result or Stored
        The latter with `store`.

    Examples
    --------
    >>> import mjhmc_numba, numba, numpy as np
    >>> @numba.njit
    ... def density(x, grad):  # a standard normal distribution
    ...     for j in range(x.size):
    ...         grad[j] = -x[j]
    ...     return -0.5 * np.sum(x**2)
    >>> result = mjhmc_numba.sample(density, ndim=3, seed=1, progress=False)
    >>> result.draws.shape
    (4, 1000, 3)
    """
    chosen = choose_settings(settings, options)
    check_counts(draws=draws, tune=tune, chains=chains, cores=cores)
    check_executor(executor)
    kept = None if checkpoint is None else Checkpoint(checkpoint, every)
    check_chain(chain, chains, seed)
    check_warmup(warmup, tune)
    check_until(until, draws, checkpoint=checkpoint, chain=chain)
    check_gradients_kept(store_gradients, checkpoint)
    if jumps:
        chosen = chosen.for_record()
    starts, ndim = start.given_starts(initial, ndim, chains)
    display = Progress(enabled=bool(progress))
    with watched(display.compiling):
        compiled = as_target(target, ndim, args, names)
    on_disk = check_store(
        store,
        keep_warmup=keep_warmup,
        jumps=jumps,
        executor=executor,
        store_gradients=store_gradients,
        until=until,
    )
    quantities = None if until is None else until.of_dimensions(compiled.names)
    in_memory = 0 if on_disk is not None else draws
    at_once = chains if chain is None else 1
    check_memory(compiled.ndim, in_memory, tune if keep_warmup else 0, at_once)
    regions = start.regions(starts, spread, compiled.ndim, chains)
    chosen.fixed_metric(compiled.ndim)
    chosen.fixed_reparametrisation(compiled.ndim)
    root = root_seed(seed if kept is None else kept.seed(seed))
    seeds = chain_seeds(root, chains)
    tasks = [
        ChainTask(
            compiled,
            chosen,
            draws,
            tune,
            seeds[k],
            regions[k],
            keep_warmup=keep_warmup,
            record=jumps,
            number=k,
            store_gradients=store_gradients or until is not None,
        )
        for k in (range(chains) if chain is None else [chain])
    ]
    if warm_start is not None:
        tasks = warm_started(tasks, warm_start, move=initial is None)
    extra = 0
    if check_gradient:
        extra = start.check_first_start(compiled, tasks[0].region, child_seed(root, CHECK_KEY))
    if chain:
        extra = 0  # the first chain counts the check
    if on_disk is not None:
        tasks = with_store(tasks, on_disk, kept, stored_groups(compiled.ndim), _as_x)
    how = {"cores": cores, "progress": display, "executor": executor, "checkpoint": kept}
    how["warmup"] = warmup if warm_start is None else "separate"
    if until is not None:
        how["until"] = until, quantities, store_gradients
    if on_disk is None:
        return _run(tasks, chosen, root, extra, **how)
    try:
        result = _run(tasks, chosen, root, extra, **how)
    except BaseException as error:
        if isinstance(getattr(error, "result", None), Result):
            error.result = Stored(on_disk.path, error.result)  # type: ignore[attr-defined]
        raise
    finish_store(on_disk, result)
    return Stored(on_disk.path, result)


def _as_x(draws: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": draws}


def _extend(tasks: list[ChainTask], result: Result, draws: int, **how: Any) -> Result:
    """See `Result.extend`."""
    given = {"cores": None, "executor": None, "progress": True} | how
    with Progress(enabled=bool(given.pop("progress"))) as display:
        longer = extend(result, tasks, draws, progress=display, **given)
    return _diagnosed(longer, tasks, Press())


def run_chain(k: int, *what: Any, chains: int | None = None, **options: Any) -> Result:
    """Chain k of a run whose chains run apart, as the tasks of a batch system.

    Its draws are those of chain k of `sample` with the same seed, unless `sample` has run that
    chain again from where another is: a chain by itself does not know of others. Put chains
    together with `combine`.

    Parameters
    ----------
    k : int
        Its number, from 0 on.
    *what, **options
        Those of `sample`; a seed must be given, the same for all chains.
    chains : int, optional
        How many there are; needed only where `initial` gives each its own start.

    Returns
    -------
    Result
        Of one chain.
    """
    if chains is None:
        chains = int(k) + 1 if isinstance(k, int | np.integer) and k >= 0 else 1
    return sample(*what, chain=k, chains=chains, **options)


def _run(
    tasks: list[ChainTask],
    settings: Settings,
    root: np.random.SeedSequence,
    extra_gradients: int,
    *,
    progress: Progress,
    until: tuple[Until, Quantities, bool] | None = None,
    **how: Any,
) -> Result:
    """Run the chains, and say what is wrong with their draws."""
    seed = root if root.spawn_key else root.entropy
    began = time.perf_counter()
    with holding_interrupts() as press:
        with progress:
            result, tasks = run_with_warmup(tasks, settings, seed, progress=progress, **how)
            if until is not None:
                where = {name: how[name] for name in ("cores", "executor")}
                result, tasks = run_until(
                    result, tasks, *until, progress=progress, began=began, **where
                )
        result.warmup_gradients[0] += extra_gradients
        result._continue = partial(_extend, tasks)
        return _diagnosed(result, tasks, press)


def _diagnosed(result: Result, tasks: list[ChainTask], press: Press) -> Result:
    if result.draws.shape[1]:
        result.warnings.extend(diagnose_unless_pressed(result, tasks[0].target, press))
    for message in result.warnings:
        warn_user(message, SamplingWarning)
    return result
