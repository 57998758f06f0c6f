"""A model in machine code, to be sampled many times."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.model import modelcontext

from mjhmc_numba.estimates import Until
from mjhmc_numba.executors import check_executor
from mjhmc_numba.interruption import prompt
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.markup import card
from mjhmc_numba.pooling import check_warmup
from mjhmc_numba.process import Process
from mjhmc_numba.progress import Progress
from mjhmc_numba.pymc.arguments import blas_threads
from mjhmc_numba.pymc.delivery import Delivery
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.errors import DiscreteVariableError, ModelError
from mjhmc_numba.pymc.expand import Expansion
from mjhmc_numba.pymc.jump_record import record_names
from mjhmc_numba.pymc.layout import check_all_ours
from mjhmc_numba.pymc.mapping import Mapped, map_datasets
from mjhmc_numba.pymc.packaging import InitialPoints, chain_generators, data_in_model
from mjhmc_numba.pymc.quantities import Quantities
from mjhmc_numba.pymc.sampling import Sampling
from mjhmc_numba.pymc.start import (
    JITTER_RETRIES,
    chain_seed,
    check_custom_gradients,
    check_initvals,
    find_start,
    jitter_tries,
    start_region,
)
from mjhmc_numba.results import Result
from mjhmc_numba.run import (
    ChainTask,
    check_gradients_kept,
    check_memory,
    check_store,
    check_until,
    warm_started,
)
from mjhmc_numba.settings import Settings, check_chain, check_counts, choose_settings
from mjhmc_numba.storage.checkpoint import EVERY, Checkpoint

__all__ = ["CompiledModel", "check_run", "compile", "check_model"]


@prompt
def compile(  # noqa: A001 (as in `nutpie.compile_pymc_model`)
    model: pm.Model | None = None,
    *,
    var_names: Sequence[str] | None = None,
    compile_kwargs: Mapping[str, Any] | None = None,
    progressbar: bool | Progress = True,
) -> CompiledModel:
    """Compile a model, to be sampled many times.

    Parameters
    ----------
    model : pm.Model, optional
        That of the `with` block by default.
    var_names : sequence of str, optional
        Variables to keep of each draw; all by default.
    compile_kwargs : mapping, optional
        Handed to PyTensor's compilation.
    progressbar : bool
        Say what is compiled.

    Returns
    -------
    CompiledModel
    """
    if model is not None and not isinstance(model, pm.Model):
        raise ModelError(f"model is a pm.Model, not {type(model).__name__}.")
    model = modelcontext(model)
    check_model(model)
    density = ModelDensity(model, compile_kwargs=compile_kwargs)
    compiled = CompiledModel(density, var_names)
    with watched(Progress.of(progressbar).compiling):
        compiled.density.target()
        Process.compile_kernel()
    return compiled


def check_model(model: pm.Model) -> None:
    """Raise if some variables of the model are for other step methods."""
    check_all_ours(model)
    if model.discrete_value_vars and model.continuous_value_vars:
        names = ", ".join(v.name for v in model.discrete_value_vars)
        raise DiscreteVariableError(
            f"{names} is discrete and has no gradient. Use pm.sample(step=MJHMC()), where another "
            "step method moves it, or sum it out of the model."
        )


def check_run(
    draws: int,
    tune: int,
    chains: int,
    *,
    cores: int | None,
    executor: Any,
    chain: int | None,
    random_seed: Any,
    warmup: str,
    until: Until | None,
    store_gradients: bool,
    checkpoint: Any,
) -> None:
    """Raise if what is asked of a run, whatever the model, cannot be done."""
    check_counts(draws=draws, tune=tune, chains=chains, cores=cores)
    check_executor(executor)
    check_chain(chain, chains, random_seed)
    check_warmup(warmup, tune)
    check_until(until, draws, checkpoint=checkpoint, chain=chain)
    check_gradients_kept(store_gradients, checkpoint)


class CompiledModel:
    """A model in machine code.

    Parameters
    ----------
    density : ModelDensity
        The density of all free variables.
    var_names : sequence of str, optional
        Variables to keep of each draw; all by default.
    """

    def __init__(self, density: ModelDensity, var_names: Sequence[str] | None = None):
        self.density = density
        self.var_names = var_names
        self._initial_points = InitialPoints(density.model)
        self._expansion = {
            with_transformed: Expansion(density, var_names, include_transformed=with_transformed)
            for with_transformed in (False, True)
        }

    def __repr__(self) -> str:
        return f"<CompiledModel: {self.density.description}>"

    def _repr_html_(self) -> str:
        return card("CompiledModel", self.density.facts)

    def with_data(self, **data: Any) -> CompiledModel:
        """The same machine code on other `pm.Data`; this object and the model keep theirs."""
        return CompiledModel(self.density.with_data(**data), self.var_names)

    @prompt
    def sample(
        self,
        draws: int = 1000,
        tune: int = 1000,
        chains: int = 4,
        *,
        random_seed: Any = None,
        cores: int | None = None,
        progressbar: bool | Progress = True,
        initvals: Mapping | Sequence | None = None,
        jitter: bool = True,
        discard_tuned_samples: bool = True,
        compute_convergence_checks: bool = True,
        idata_kwargs: Mapping[str, Any] | None = None,
        check_gradient: bool = True,
        blocking: bool = True,
        jumps: bool | Sequence[str] = False,
        store_gradients: bool = False,
        until: Until | None = None,
        executor: Any = None,
        checkpoint: str | os.PathLike | None = None,
        every: float = EVERY,
        store: str | os.PathLike | None = None,
        warm_start: Result | Sampling | None = None,
        chain: int | None = None,
        warmup: str = "separate",
        quiet: bool = False,
        blas_cores: int | str | None = "auto",
        jitter_max_retries: int = JITTER_RETRIES,
        store_divergences: bool = False,
        settings: Settings | None = None,
        **options: Any,
    ) -> Any:
        """Sample the model; the parameters are those of `mjhmc_numba.pymc.sample`."""
        chosen = choose_settings(settings, options)
        recorded = None
        if not isinstance(jumps, bool) or jumps:
            chosen = chosen.for_record()
            recorded = Expansion(self.density, record_names(self.density, self.var_names, jumps))
        keep_warmup = not discard_tuned_samples
        check_run(
            draws,
            tune,
            chains,
            cores=cores,
            executor=executor,
            chain=chain,
            random_seed=random_seed,
            warmup=warmup,
            until=until,
            store_gradients=store_gradients,
            checkpoint=checkpoint,
        )
        check_initvals(initvals, chains if chain is None else None)
        numbers = range(chains) if chain is None else [chain]
        kept = None if checkpoint is None else Checkpoint(checkpoint, every)
        if kept is not None:
            random_seed = kept.seed(random_seed)
        if random_seed is None:  # one that can be written down
            random_seed = np.random.SeedSequence().entropy
        if isinstance(warm_start, Sampling):
            warm_start = warm_start.result
        on_disk = check_store(
            store,
            keep_warmup=keep_warmup,
            jumps=jumps,
            executor=executor,
            store_divergences=store_divergences,
            store_gradients=store_gradients,
            until=until,
        )
        in_memory = draws if on_disk is None else 0
        arguments = dict(idata_kwargs or {})
        expansion = self._expansion[bool(arguments.get("include_transformed", False))]
        check_memory(
            self.density.ndim,
            in_memory,
            tune if keep_warmup else 0,
            len(numbers),
            width=expansion.width(in_place=blocking and not store_gradients),
        )
        chosen.fixed_metric(self.density.ndim)  # raises if it does not fit
        chosen.fixed_reparametrisation(self.density.ndim)
        self.density.check_unchanged()
        density = self.density.snapshot()  # of this run alone
        tries = jitter_tries(jitter, jitter_max_retries)
        tasks = self._tasks(
            density, draws, tune, numbers, random_seed, initvals, tries, chosen, keep_warmup
        )
        for task in tasks:
            task.record, task.store_divergences = recorded is not None, store_divergences
            task.store_gradients = store_gradients or until is not None
        if warm_start is not None:
            tasks = warm_started(tasks, warm_start)
        if check_gradient and tasks[0].initial is not None:
            check_custom_gradients(density, tasks[0].target, tasks[0].initial)
        delivery = Delivery(
            density,
            expansion,
            arguments,
            tune=tune,
            seed=random_seed,
            recorded=recorded,
            store=on_disk,
        )
        rounds = None
        if until is not None:
            rounds = until, Quantities(until, density, delivery.expansion), store_gradients
        sampling = Sampling(
            delivery,
            tasks,
            cores=cores if self.density.is_native else 1,  # PyTensor's functions are not reentrant
            progress=Progress.of(False if quiet else progressbar),
            quiet=quiet,
            blas_threads=blas_threads(blas_cores, cores, len(tasks)),
            executor=executor,
            checks=compute_convergence_checks,
            checkpoint=kept,
            until=rounds,
            warmup=warmup if warm_start is None else "separate",
        )
        return sampling.run() if blocking else sampling.start()

    def map(
        self,
        datasets: Mapping[Hashable, Mapping[str, Any]] | Iterable[Mapping[str, Any]],
        draws: int = 500,
        tune: int = 500,
        chains: int = 2,
        *,
        random_seed: Any = None,
        warm_start: bool = True,
        cores: int | None = None,
        executor: Any = None,
        progressbar: bool | Progress = True,
        settings: Settings | None = None,
        **options: Any,
    ) -> Mapped:
        """Sample the model on many data sets, with one compilation.

        Parameters
        ----------
        datasets : mapping of name to data set, or iterable of data sets
            Each a mapping of the names of `pm.Data` to values; what it lacks is the model's.
        draws, tune, chains : int
            Of each data set.
        random_seed : object
            Anything that `pm.sample` takes. Each data set has a seed of its own, by its place.
        warm_start : bool
            Whether of 20 neighbours only the first has a warm-up of its own: the others begin with
            what it has tuned and burn in for a quarter as long. One whose chains then disagree, mix
            slowly or accept little has a warm-up of its own after all.
        cores, executor, progressbar, settings, **options
            As in `sample`.

        Returns
        -------
        Mapped
            `posterior` and `sample_stats`, each an xarray Dataset along `dataset`, and `failures`.
        """
        chosen = choose_settings(settings, options)
        check_counts(draws=draws, tune=tune, chains=chains, cores=cores)
        check_executor(executor)
        self.density.check_unchanged()
        return map_datasets(
            self.density,
            self.expand,
            datasets,
            draws=draws,
            tune=tune,
            chains=chains,
            random_seed=random_seed,
            settings=chosen,
            warm_start=warm_start,
            cores=cores if self.density.is_native else 1,
            executor=executor,
            progress=Progress.of(progressbar),
        )

    def _tasks(
        self,
        density: ModelDensity,
        draws: int,
        tune: int,
        numbers: Sequence[int],
        random_seed: Any,
        initvals: Mapping | Sequence | None,
        tries: int,
        settings: Settings,
        keep_warmup: bool,
    ) -> list[ChainTask]:
        """The chains, each started as `MJHMC` starts it; without `tries` at its initial point."""
        target = density.target()
        rngs, seeds = chain_generators(random_seed, max(numbers) + 1)
        if initvals is not None and not isinstance(initvals, Mapping):
            initvals = [initvals[k] for k in numbers]
        with data_in_model(density):
            points = self._initial_points(initvals, [seeds[k] for k in numbers])
        tasks = []
        for k, point in zip(numbers, points, strict=True):
            rng = rngs[k]
            x = find_start(density, target, point, rng, tries=tries if tune > 0 else 0)
            region = start_region(density, point, jitter=tries > 0)
            tasks.append(
                ChainTask(
                    target,
                    settings,
                    draws,
                    tune,
                    chain_seed(rng),
                    region,
                    x,
                    keep_warmup,
                    number=k,
                )
            )
        return tasks

    def prepare(self, *, include_transformed: bool = False) -> None:
        """Compile what `expand` needs; without it, the first `expand` does."""
        self._expansion[include_transformed].prepare()

    def expand(
        self,
        draws: np.ndarray,
        *,
        include_transformed: bool = False,
        density: ModelDensity | None = None,
    ) -> dict:
        """All variables, each (chain, draw, ...), from raveled draws (chain, draw, d).

        They are computed with the data of `density`; with those of now by default.
        """
        return self._expansion[include_transformed](draws, density=density)
