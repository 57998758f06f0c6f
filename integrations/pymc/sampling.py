"""Whole chains on a PyMC model in native code, on threads."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pymc as pm
from pymc.model import modelcontext

from mjhmc_numba.diagnostics import diagnose_unless_pressed
from mjhmc_numba.errors import SamplingWarning, SettingsError, StorageError
from mjhmc_numba.executors import check_executor
from mjhmc_numba.interruption import Press, end_with_process, holding_interrupts
from mjhmc_numba.kernel.user_warnings import warn_user
from mjhmc_numba.kernel.waiting import InThread, watched
from mjhmc_numba.markup import card
from mjhmc_numba.pooling import check_warmup, run_with_warmup
from mjhmc_numba.process import Process
from mjhmc_numba.progress import Progress
from mjhmc_numba.pymc.arguments import blas_threads
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.errors import DiscreteVariableError, ModelError
from mjhmc_numba.pymc.expand import Expansion
from mjhmc_numba.pymc.jump_record import add_record, record_names
from mjhmc_numba.pymc.layout import check_all_ours
from mjhmc_numba.pymc.mapping import Mapped, map_datasets
from mjhmc_numba.pymc.packaging import (
    chain_generators,
    data_in_model,
    initial_points,
    log_convergence,
    to_arviz,
)
from mjhmc_numba.pymc.start import (
    JITTER_RETRIES,
    chain_seed,
    check_custom_gradients,
    find_start,
    jitter_tries,
    start_region,
)
from mjhmc_numba.results import Result, from_store, groups_of
from mjhmc_numba.run import (
    ChainRun,
    ChainTask,
    RemoteRun,
    check_memory,
    check_store,
    extend,
    finish_store,
    longest_rectangle,
    stats_of,
    warm_started,
    with_store,
)
from mjhmc_numba.settings import Settings, check_chain, check_counts, choose_settings
from mjhmc_numba.stats import STATISTICS
from mjhmc_numba.storage import Group, Store
from mjhmc_numba.storage.checkpoint import EVERY, Checkpoint
from mjhmc_numba.storage.zarr_store import GROUPS

__all__ = ["CompiledModel", "Sampling", "check_model", "compile"]


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
        check_counts(draws=draws, tune=tune, chains=chains, cores=cores)
        check_executor(executor)
        check_chain(chain, chains, random_seed)
        check_warmup(warmup, tune)
        numbers = list(range(chains)) if chain is None else [chain]
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
        )
        in_memory = draws if on_disk is None else 0
        check_memory(self.density.ndim, in_memory, tune if keep_warmup else 0, len(numbers))
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
        if warm_start is not None:
            tasks = warm_started(tasks, warm_start)
        if check_gradient and tasks[0].initial is not None:
            check_custom_gradients(density, tasks[0].target, tasks[0].initial)
        sampling = Sampling(
            self,
            density,
            tasks,
            cores=cores if self.density.is_native else 1,  # PyTensor's functions are not reentrant
            progress=Progress.of(False if quiet else progressbar),
            quiet=quiet,
            blas_threads=blas_threads(blas_cores, cores, len(tasks)),
            executor=executor,
            checks=compute_convergence_checks,
            idata_kwargs=dict(idata_kwargs or {}),
            recorded=recorded,
            checkpoint=kept,
            seed=random_seed,
            warmup=warmup if warm_start is None else "separate",
            store=on_disk,
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
        numbers: list[int],
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
            points = initial_points(density.model, initvals, [seeds[k] for k in numbers])
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


class Sampling:
    """A run of several chains, in this thread or in the background.

    It owns the snapshot of the density that its chains run on, with the data of that moment.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        density: ModelDensity,
        tasks: list[ChainTask],
        *,
        cores: int | None,
        progress: Progress,
        checks: bool,
        idata_kwargs: dict[str, Any],
        quiet: bool = False,
        blas_threads: int | None = 1,
        executor: Any = None,
        recorded: Expansion | None = None,
        checkpoint: Checkpoint | None = None,
        seed: Any = None,
        warmup: str = "separate",
        store: Store | None = None,
    ):
        self._seed = seed
        self._compiled, self._density, self._tasks = compiled, density, tasks
        self._cores, self._progress, self._checks = cores, progress, checks
        self._idata_kwargs, self._executor, self._recorded = idata_kwargs, executor, recorded
        self._quiet, self._blas_threads = quiet, blas_threads
        self._runs: list[ChainRun | RemoteRun] = []
        self._checkpoint, self._store, self._warmup = checkpoint, store, warmup
        self._expanding = threading.Lock()  # PyTensor's functions are not reentrant
        self._aborted = threading.Event()
        self._press = Press()
        self._thread: threading.Thread | None = None
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._data: Any = None
        self._began = time.perf_counter()

        if store is not None:
            self._tasks = with_store(tasks, store, checkpoint, self._groups(), self._variables)

    def _groups(self) -> dict[str, Group]:
        """The form of what is stored, from one draw at the start."""
        task = self._tasks[0]
        x = task.region.centre if task.initial is None else task.initial
        stats = {row.name: np.zeros((1, 1), row.dtype) for row in STATISTICS}
        groups = groups_of(self._package(x[None, None], stats, [0], 0.0, {}, n_kept_tune=0))
        other = [name for name in groups if "draw" in groups[name].dims and name not in GROUPS]
        if other:
            raise SettingsError(f"{', '.join(other)} is not stored as draws come; add it later.")
        return {name: Group.of(group) for name, group in groups.items()}

    def _variables(self, draws: np.ndarray) -> dict[str, np.ndarray]:
        with self._expanding:
            values = self._compiled.expand(
                draws[None], include_transformed=self._with_transformed, density=self._density
            )
        return {name: array[0] for name, array in values.items()}

    def __repr__(self) -> str:
        return f"<Sampling: {self._state}, draws of each chain: {self._made}>"

    def _repr_html_(self) -> str:
        task = self._tasks[0]
        facts = {
            "state": self._state,
            "draws of each chain": f"{', '.join(map(str, self._made))} of {task.draws:,}",
            "warm-up": f"{task.tune:,} draws",
            "settings": task.settings.given() or "all by default",
            **self._density.facts,
        }
        return card("Sampling", facts)

    @property
    def _state(self) -> str:
        return "finished" if self.is_finished else "running"

    @property
    def _made(self) -> list[int]:
        return [len(run.rows_so_far().draws) for run in self._runs]

    # ------------------------------------------------------------------ running

    def run(self) -> Any:
        """Run in this thread; returns what `pm.sample` returns."""
        with holding_interrupts() as self._press:
            with self._progress, watched(self._progress.compiling):
                # What is computed of the draws is compiled while the chains run without the GIL.
                ahead = InThread(self._prepare if self._density.is_native else lambda: None)
                self._work()
                if self._error is None:
                    ahead.wait()
                else:
                    ahead.cancel()
            return self._finish()

    def _prepare(self) -> None:
        self._compiled.prepare(include_transformed=self._with_transformed)

    def start(self) -> Sampling:
        """Run in the background."""
        self._thread = threading.Thread(target=self._work_alone, name="mjhmc", daemon=True)
        end_with_process(self._thread, self._stop)
        self._thread.start()
        return self

    def _work_alone(self) -> None:
        with self._progress:
            self._work()

    def _work(self) -> None:
        try:
            self._result, self._tasks = run_with_warmup(
                self._tasks,
                self._tasks[0].settings,
                None,
                cores=self._cores,
                blas_threads=self._blas_threads,
                progress=self._progress,
                executor=self._executor,
                on_start=self._note,
                checkpoint=self._checkpoint,
                warmup=self._warmup,
            )
        except BaseException as error:  # raised where the draws are waited for
            self._error = error
        self._seconds = time.perf_counter() - self._began

    def _note(self, runs: Sequence[ChainRun | RemoteRun]) -> None:
        self._runs.extend(runs)
        if self._aborted.is_set():
            for run in runs:
                run.abort()

    @property
    def result(self) -> Result:
        """The draws of the unconstrained variables, and what was tuned, once all have ended."""
        if self._result is None:
            raise RuntimeError("The chains have not ended; wait() for them.")
        return self._result

    @property
    def gradients(self) -> dict[str, int]:
        """Gradients of all chains, in the warm-up and after it, once they have ended."""
        return self.result.gradients

    def extend(self, draws: int) -> Any:
        """Make more draws of the same chains: what a longer run would have made, bit for bit.

        It waits for the chains to end, and returns what `pm.sample` returns, with all draws.
        """
        self.wait()
        began = time.perf_counter()
        self._runs.clear()
        with Progress(enabled=self._progress.enabled) as display:
            self._result = extend(
                self.result,
                self._tasks,
                draws,
                cores=self._cores,
                progress=display,
                executor=self._executor,
                on_start=self._note,
            )
        self._seconds += time.perf_counter() - began
        self._data = None
        return self._finish()

    @property
    def is_finished(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> Any:
        """What `pm.sample` returns, once all chains have ended.

        Raises `TimeoutError` if they have not after `timeout` seconds, and what a chain raised.
        Ctrl-C stops the waiting and not the chains; `abort` stops them.
        """
        if self._thread is not None:
            if timeout is None and not (self.is_finished or self._aborted.is_set()):
                self._prepare()  # here and not beside: PyTensor knows nothing of threads
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise TimeoutError(f"The chains are still running after {timeout} seconds.")
        return self._finish()

    def abort(self) -> Any:
        """Stop the chains; returns their draws so far, or None if there are none."""
        self._stop()
        try:
            return self.wait()
        except KeyboardInterrupt:
            if self._result is None and isinstance(self._error, KeyboardInterrupt):
                return None
            raise

    def _stop(self) -> None:
        self._aborted.set()  # for chains that are about to begin
        for run in self._runs:
            run.abort()

    def inspect(self) -> Any:
        """The draws so far, of as many chains as give most of them; None if there are none.

        On an executor they are those of the chains that have ended.
        """
        if self.is_finished:
            return self._finish()
        if self._store is not None:
            data = from_store(self._store.path)
            return data if data["posterior"].sizes["draw"] else None
        parts = [run.rows_so_far() for run in self._runs]
        kept = longest_rectangle([len(rows.draws) for rows in parts])
        if not kept:
            return None
        n = min(len(parts[k].draws) for k in kept)
        rows = [parts[k].until(n) for k in kept]
        draws = np.stack([part.draws for part in rows])
        stats = stats_of(rows, [self._runs[k].acceptance for k in kept])
        seconds = time.perf_counter() - self._began
        return self._package(draws, stats, kept, seconds, {}, n_kept_tune=0)

    # ------------------------------------------------------------------ results

    def _finish(self) -> Any:
        if self._error is not None:
            partial = getattr(self._error, "result", None)
            if isinstance(partial, Result):
                self._error.result = self._from_result(partial)  # type: ignore[attr-defined]
            raise self._error
        if self._data is None:
            assert self._result is not None
            self._data = self._from_result(self._result)
            self._report(self._result, self._data)
        return self._data

    def _from_result(self, result: Result) -> Any:
        if self._store is not None:
            with suppress(StorageError):  # the disk may be full, and what is there readable
                finish_store(self._store, result)
            return from_store(self._store.path)
        draws, n_kept_tune = result.draws, 0
        stats = result.stats
        if result.warmup_draws is not None and result.warmup_stats is not None:
            n_kept_tune = result.warmup_draws.shape[1]
            warmup = result.warmup_stats
            draws = np.concatenate([result.warmup_draws, draws], axis=1)
            stats = {
                name: np.concatenate([warmup[name], array], axis=1) for name, array in stats.items()
            }
        attributes = result.attributes()
        data = self._package(
            draws, stats, result.chains, self._seconds, attributes, n_kept_tune=n_kept_tune
        )
        if self._recorded is not None and result.jumps is not None:
            add_record(data, self._recorded, self._density, result, attributes)
        if "sample_stats" in data:  # not if the chains ended in their warm-up
            data["sample_stats"].attrs.update(result.warmup_attributes(), seed=str(self._seed))
        return data

    @property
    def _with_transformed(self) -> bool:
        return bool(self._idata_kwargs.get("include_transformed", False))

    def _package(
        self,
        draws: np.ndarray,
        stats: Mapping[str, np.ndarray],
        chains: Any,
        seconds: float,
        attributes: dict[str, Any],
        *,
        n_kept_tune: int,
    ) -> Any:
        transformed = self._with_transformed
        return to_arviz(
            self._density,
            self._compiled.expand(draws, include_transformed=transformed, density=self._density),
            stats,
            n_tune=self._tasks[0].tune,
            n_kept_tune=n_kept_tune,
            chains=chains,
            seconds=seconds,
            attributes=attributes,
            idata_kwargs=self._idata_kwargs,
        )

    def _report(self, result: Result, data: Any) -> None:
        messages = list(result.warnings)
        if result.draws.shape[1]:
            hierarchy = self._density.layout.is_hierarchy
            messages += diagnose_unless_pressed(
                result, self._tasks[0].target, self._press, is_hierarchy=hierarchy
            )
        if "sample_stats" in data:
            data["sample_stats"].attrs["warnings"] = "\n".join(messages)
        if self._quiet:
            return
        for message in messages:
            warn_user(message, SamplingWarning)
        if self._checks and result.draws.shape[1] and self._store is None:
            with contextlib.suppress(KeyboardInterrupt), self._press.raising():
                log_convergence(data, self._density.model, only_hints=bool(messages))
