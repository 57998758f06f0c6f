"""sample(): validate, dispatch, return a Result."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjhmc_numba.diagnostics import diagnose
from mjhmc_numba.driver import TUNED_NAMES, ChainTask, run_chains
from mjhmc_numba.errors import MemoryRequestError, SamplingWarning, SettingsError, TargetError
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.results import Result, stats_from_rows
from mjhmc_numba.settings import Settings
from mjhmc_numba.target import Target, as_target
from mjhmc_numba.warmup.start import Region, find_start
from mjhmc_numba.warmup.start import check_gradient as compare_gradient

__all__ = ["sample"]


def sample(
    target,
    initial=None,
    *,
    jitter: float = 0.0,
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
    **options,
) -> Result:
    """Sample from a log density by Markov jump HMC.

    Parameters
    ----------
    target
        an `@njit` function ``(x, grad, *args) -> logp`` that writes the gradient; a Python
        function ``(x, *args) -> (logp, grad)``, the slow way; or a distribution of
        `mjhmc_numba.targets`
    initial : (d,) or (chains, d), where to start; random if not given
    jitter : start at random within this distance of `initial` in each dimension. Several ways
        down are tried, from points up to 1 (or this) away from `initial`; the first is kept
        unless another leads to where the density is much higher
    ndim : number of dimensions, where neither `initial` nor the target tells
    args : arrays and numbers handed to the density; new ones need no recompilation
    names : a name for each dimension, for messages
    draws, tune : draws to keep, and warm-up draws before them, in each chain
    chains, cores : chains, and how many of them run at once (all cores)
    seed : anything that `numpy.random.SeedSequence` takes
    progress : show a live display
    keep_warmup : return the draws of the warm-up too
    jumps : return the jump record, the weighted states of the process itself
    check_gradient : compare the gradient with finite differences at the first start
    executor : run the chains on this `concurrent.futures` executor, or a Dask client
    settings, **options : see `mjhmc_numba.Settings`; unknown ones raise

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
    check_fixed(chosen, tune)
    if jumps:
        chosen = _for_record(chosen)
    starts, ndim = _starts(initial, ndim, chains)
    compiled = as_target(target, ndim, args, names)
    regions = _regions(starts, jitter, compiled.ndim, chains)
    chosen.fixed_metric(compiled.ndim)
    chosen.fixed_chart(compiled.ndim)
    check_memory(compiled.ndim, draws, tune if keep_warmup else 0, chains)
    root = _root(seed)
    seeds = _children(root, chains)
    extra = _check_first_start(compiled, regions[0], root) if check_gradient else 0
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
    return _run(tasks, chosen, root, extra, cores=cores, progress=progress, executor=executor)


# ---------------------------------------------------------------------- checks


def choose_settings(settings: Settings | None, options: dict) -> Settings:
    """The settings given as an object, or made of keyword arguments."""
    if settings is not None and not isinstance(settings, Settings):
        raise SettingsError(f"settings is a Settings, not {type(settings).__name__}.")
    if settings is not None and options:
        raise SettingsError(f"Give settings= or {', '.join(options)}, not both.")
    return settings if settings is not None else Settings.create(options)


def check_counts(**counts) -> None:
    """Raise unless all are whole numbers that make sense."""
    for name, value in counts.items():
        least = 0 if name == "tune" else 1
        if value is None and name == "cores":
            continue
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise SettingsError(f"{name} is a whole number >= {least}, not {value!r}.")


def check_fixed(settings: Settings, tune: int) -> None:
    """Without a warm-up, all that it would find must be given."""
    needed = ("step_size", "num_steps", "refresh_rate", "draw_interval")
    missing = [name for name in needed if getattr(settings, name) is None]
    if tune == 0 and missing:
        raise SettingsError(f"Without a warm-up (tune=0), give {', '.join(missing)}.")


def _for_record(settings: Settings) -> Settings:
    """The jump record needs the rates of leaving a state, so both neighbours."""
    import dataclasses

    if settings.clock == "regular":
        raise SettingsError("A jump record is one of the jump process: use clock='poisson'.")
    if settings.method == "thinning":
        raise SettingsError("A jump record needs method='competing', which knows all rates.")
    return dataclasses.replace(settings, clock="poisson", method="competing")


def _starts(initial, ndim, chains) -> tuple[np.ndarray | None, int | None]:
    """Starts (chains, d), if they are given, and the number of dimensions if it is known."""
    if initial is None:
        return None, ndim
    try:
        start = np.array(initial, dtype=float)
    except (TypeError, ValueError) as error:
        raise TargetError(f"initial is no array of numbers: {error}") from error
    if start.ndim not in (1, 2) or start.shape[-1] == 0:
        raise TargetError(f"initial has shape (d,) or (chains, d), not {start.shape}.")
    if start.ndim == 2 and len(start) != chains:
        raise TargetError(f"initial has {len(start)} rows for {chains} chains.")
    if ndim is not None and start.shape[-1] != ndim:
        raise TargetError(f"initial has {start.shape[-1]} dimensions, but ndim={ndim}.")
    return np.broadcast_to(start, (chains, start.shape[-1])), start.shape[-1]


def _regions(starts, jitter, ndim: int, chains: int) -> list[Region]:
    """Where each chain starts."""
    if not (isinstance(jitter, (int, float, np.number)) and 0 <= jitter < math.inf):
        raise SettingsError(f"jitter is a distance, not {jitter!r}.")
    if starts is None:
        if jitter > 0:
            raise SettingsError("jitter is the distance of starts from initial=; give that too.")
        return [Region.anywhere(ndim)] * chains
    if starts.shape[1] != ndim:
        raise TargetError(f"initial has {starts.shape[1]} dimensions, the density {ndim}.")
    return [Region(np.array(start), float(jitter)) for start in starts]


def check_memory(ndim: int, draws: int, warmup: int, chains: int) -> None:
    """Refuse an output that cannot fit, before anything is allocated."""
    size = 8 * chains * (draws + warmup) * (ndim + len(STAT_NAMES))
    try:
        have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return
    if size > 0.9 * have:
        raise MemoryRequestError(
            f"The draws would take {size / 1e9:.1f} GB; this machine has {have / 1e9:.1f} GB. "
            "Ask for fewer draws or chains."
        )


def _root(seed) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return seed
    try:
        return np.random.SeedSequence(seed)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"seed={seed!r} is none that NumPy takes: {error}") from error


def _children(root: np.random.SeedSequence, chains: int) -> list[np.random.SeedSequence]:
    """One seed per chain, the same for the first k of any number of chains, run after run."""
    return [
        np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, k)) for k in range(chains)
    ]


def _check_first_start(target: Target, region: Region, root: np.random.SeedSequence) -> int:
    """Check the gradient where a chain may start; returns the gradients spent."""
    key = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 1 << 32))
    rng = np.random.default_rng(key)
    x, tries = find_start(target, region, rng)
    compare_gradient(target, x, rng)
    return tries + 5


# ------------------------------------------------------------------------ run


def _run(tasks, settings, root, extra_gradients, **how) -> Result:
    """Run the chains, and say what is wrong with their draws."""
    seed = root if root.spawn_key else root.entropy
    result = run_tasks(tasks, settings, seed, **how)
    result.warmup_gradients[0] += extra_gradients
    if result.draws.shape[1]:
        result.warnings.extend(diagnose(result, tasks[0].target))
    for message in result.warnings:
        warnings.warn(message, SamplingWarning, stacklevel=3)
    return result


def run_tasks(
    tasks: list[ChainTask], settings: Settings, seed: Any, *, cores, progress, **how
) -> Result:
    """Run chains and collect what they made.

    Raises what a chain raised, with the draws so far in the attribute `result` of the exception;
    and KeyboardInterrupt if the run was cut short before there was anything to keep.
    """
    out, outputs, interrupted = run_chains(tasks, cores=cores, progress=progress, **how)
    errors = [(k, o.error) for k, o in enumerate(outputs) if o.error is not None]
    kept = longest_rectangle([len(o.draws) for o in outputs])
    if not kept:  # then keep the warm-up, where it was asked for
        kept = longest_rectangle([len(o.warmup_draws) for o in outputs])
    result = None
    if kept:
        result = _collect(out, outputs, kept, tasks[0], settings, seed)
        result.interrupted = interrupted
    if errors:
        k, error = errors[0]
        note = f"Raised in chain {k}, after {len(outputs[k].draws)} of {tasks[k].draws} draws."
        if result is not None:
            note += " What the chains had drawn is in the attribute `result` of this exception."
        error.add_note(note)
        error.result = result  # type: ignore[attr-defined]
        raise error
    if interrupted and result is None:
        raise KeyboardInterrupt
    assert result is not None
    if interrupted:
        made = result.draws.shape[1]
        what = f"{made} draws" if made else f"no draws, but {_warmup_length(result)} of the warm-up"
        result.warnings.append(f"Interrupted: {what}, of {len(kept)} chains, are kept.")
    return result


def longest_rectangle(lengths: list[int]) -> list[int]:
    """The chains to keep of a run that was cut short: as many draws in all as can be had with
    equal lengths.
    """
    order = sorted(range(len(lengths)), key=lambda k: -lengths[k])
    sizes = [lengths[k] * (place + 1) for place, k in enumerate(order)]
    if not sizes or max(sizes) == 0:
        return []
    return sorted(order[: int(np.argmax(sizes)) + 1])


def _warmup_length(result: Result) -> int:
    return 0 if result.warmup_draws is None else result.warmup_draws.shape[1]


def _collect(out, outputs, kept, task: ChainTask, settings, seed) -> Result:
    length = min(len(outputs[k].draws) for k in kept)
    tuned = [outputs[k].tuned for k in kept]
    whole = len(kept) == len(outputs) and length == out.shape[1]
    draws = out if whole else np.array(out[kept, :length])
    rows = np.stack([outputs[k].stats[:length] for k in kept])
    result = Result(
        draws=draws,
        stats=stats_from_rows(rows, tuned),
        settings=tuned,
        options=settings,
        seed=seed,
        names=task.target.names,
        tune=task.tune,
        warmup_gradients=np.array([outputs[k].warmup_gradients for k in kept]),
        chains=kept,
        jumps=[outputs[k].jumps for k in kept] if task.record else None,
    )
    if task.keep_warmup:
        length = min(len(outputs[k].warmup_draws) for k in kept)
        result.warmup_draws = np.stack([outputs[k].warmup_draws[:length] for k in kept])
        warm = np.stack([outputs[k].warmup_stats[:length] for k in kept])
        result.warmup_stats = stats_from_rows(warm, tuned)
        made_with = np.stack([outputs[k].warmup_tuned[:length] for k in kept])
        for j, name in enumerate(TUNED_NAMES):
            name = "step_size_bar" if name == "step_size" else name
            dtype = result.warmup_stats[name].dtype
            result.warmup_stats[name] = made_with[..., j].astype(dtype)
    return result
