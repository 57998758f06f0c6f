"""sample(): validate, call, return a Result."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mjhmc_numba import initial as start
from mjhmc_numba.density import as_target
from mjhmc_numba.diagnostics import diagnose
from mjhmc_numba.errors import SamplingWarning
from mjhmc_numba.executors import check_executor
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.progress import Progress
from mjhmc_numba.results import Result
from mjhmc_numba.run import (
    ChainTask,
    chain_seeds,
    check_memory,
    child_seed,
    root_seed,
    run_tasks,
)
from mjhmc_numba.settings import Settings, check_counts, choose_settings

__all__ = ["sample"]

CHECK_KEY = 1 << 32  # of the seed for the check of the gradient: no chain has it


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
    check_gradient: bool = True,
    executor: Any = None,
    settings: Settings | None = None,
    **options: Any,
) -> Result:
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
        Draws to keep, and warm-up draws before them, of each chain.
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
    check_gradient : bool
        Compare the gradient with finite differences at the first start.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Run the chains there, with the same draws as here. A chain whose worker dies is run again.
    settings : Settings, optional
        What not to tune; instead of `options`.
    **options
        The fields of `mjhmc_numba.Settings`; unknown ones raise.

    Returns
    -------
    Result

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
    if jumps:
        chosen = chosen.for_record()
    starts, ndim = start.given_starts(initial, ndim, chains)
    display = Progress(enabled=bool(progress))
    with watched(display.compiling):
        compiled = as_target(target, ndim, args, names)
    regions = start.regions(starts, spread, compiled.ndim, chains)
    chosen.fixed_metric(compiled.ndim)
    chosen.fixed_reparametrisation(compiled.ndim)
    check_memory(compiled.ndim, draws, tune if keep_warmup else 0, chains)
    root = root_seed(seed)
    seeds = chain_seeds(root, chains)
    extra = 0
    if check_gradient:
        extra = start.check_first_start(compiled, regions[0], child_seed(root, CHECK_KEY))
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
        )
        for k in range(chains)
    ]
    return _run(tasks, chosen, root, extra, cores=cores, progress=display, executor=executor)


def _run(
    tasks: list[ChainTask],
    settings: Settings,
    root: np.random.SeedSequence,
    extra_gradients: int,
    *,
    progress: Progress,
    **how: Any,
) -> Result:
    """Run the chains, and say what is wrong with their draws."""
    seed = root if root.spawn_key else root.entropy
    with progress:
        result = run_tasks(tasks, settings, seed, progress=progress, **how)
    result.warmup_gradients[0] += extra_gradients
    if result.draws.shape[1]:
        result.warnings.extend(diagnose(result, tasks[0].target))
    for message in result.warnings:
        warnings.warn(message, SamplingWarning, stacklevel=3)
    return result
