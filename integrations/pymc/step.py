"""MJHMC as a PyMC step method: one call advances the jump process by one draw interval."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator
from pymc.vartypes import continuous_types
from rich.progress import TextColumn
from rich.table import Column

from mjhmc_numba.density import Target
from mjhmc_numba.diagnostics import cannot_move
from mjhmc_numba.errors import SettingsError, StuckError
from mjhmc_numba.initial import Region
from mjhmc_numba.kernel.layout import DENSITY_RAISED, STAT_NAMES
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.markup import card
from mjhmc_numba.process import Process, Snapshot, random_words
from mjhmc_numba.progress import Progress
from mjhmc_numba.pymc.arguments import refuse
from mjhmc_numba.pymc.caller import explain_failure, tune_of_caller
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.packaging import answer_arguments, mark_results
from mjhmc_numba.pymc.start import (
    JITTER_RETRIES,
    chain_seed,
    check_custom_gradients,
    find_start,
    jitter_tries,
    start_region,
)
from mjhmc_numba.pymc.stats import STATS, of_draw
from mjhmc_numba.pymc.watch import KINDS, Watch
from mjhmc_numba.results import chain_attributes, found_by
from mjhmc_numba.saving import load, save
from mjhmc_numba.settings import PAPER, Settings, choose_settings
from mjhmc_numba.tuned import Tuned
from mjhmc_numba.warmup import Tuner
from mjhmc_numba.warmup.first import first_guess, run_untuned, target_accept
from mjhmc_numba.warmup.trajectory import straight

__all__ = ["DEFAULT_TUNE", "MJHMC"]

DEFAULT_TUNE = 1000  # as pm.sample

_SHOWN = ("divergences", "step_size", "tree_size")


@dataclass_state
class MJHMCState(StepMethodState):
    """What a resumed chain needs; `chain` holds arrays and numbers alone."""

    tune: bool
    divergences: int
    iter_count: int
    planned_tune: int = field(default=DEFAULT_TUNE)
    chain: dict | None = None


class Chain(NamedTuple):
    """What a chain needs to go on, saved as `MJHMCState.chain`."""

    process: Snapshot
    tuner: Tuner | None
    others: dict[str, np.ndarray]  # the variables that other step methods sample
    seen: bytes  # our variables as they were left
    is_alone: bool
    acceptance: float | None
    watch: Watch


class MJHMC(BlockedStep):
    """Markov jump HMC on some or all continuous variables of a model.

    Use it as ``pm.sample(step=MJHMC())``. Step size, metric, integrator, refresh rate and draw
    interval are found in PyMC's tuning phase. Beside other step methods (`Metropolis`, a Gibbs
    sampler, another `MJHMC`) each call continues the process on the density as they have left it.

    Parameters
    ----------
    vars : sequence of variables or str, optional
        Variables to sample; all continuous ones by default.
    model : pm.Model, optional
        That of the `with` block by default.
    rng : object
        Seeds the step where PyMC does not.
    initial_point : mapping, optional
        Fixes shapes; PyMC's own by default.
    compile_kwargs : mapping, optional
        Handed to PyTensor's compilation.
    blocked : bool
        Sample all variables together.
    jitter : bool
        Start each tuned chain at a random point near the given one (PyMC jitters the starts of
        its own NUTS only).
    jitter_max_retries : int
        Random starts that are tried, after the first, for a finite density.
    check_gradient : bool
        Compare gradients of custom operations with finite differences where a chain starts.
    tune : int, optional
        Tuning draws that the schedule is made for; those of `pm.sample` by default.
    progressbar : bool
        Say what is compiled. `pm.sample` cannot hand its own `progressbar` on: the step is made
        before.
    settings : Settings, optional
        What not to tune; instead of `options`.
    **options
        The fields of `mjhmc_numba.Settings`; unknown ones raise. The paper's sampler is
        `MJHMC.paper`.

    Notes
    -----
    The statistics of a draw are explained in `mjhmc_numba.kernel.statistics`.
    """

    name = "mjhmc"
    default_blocked = True
    stats_dtypes_shapes = STATS
    _state_class = MJHMCState
    _seen: bytes

    def __init__(
        self,
        vars: Sequence | None = None,  # noqa: A002 (PyMC's word)
        *,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: Mapping[str, np.ndarray] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
        blocked: bool = True,
        jitter: bool = True,
        jitter_max_retries: int = JITTER_RETRIES,
        check_gradient: bool = True,
        tune: int | None = None,
        progressbar: bool = True,
        settings: Settings | None = None,
        **options: Any,
    ):
        self.settings = choose_settings(settings, refuse(options))
        self._tries = jitter_tries(jitter, jitter_max_retries)
        self.density = ModelDensity(
            model, vars, initial_point=initial_point, compile_kwargs=compile_kwargs
        )
        metric = self.settings.fixed_metric(self.density.ndim)  # raises if it does not fit
        self.settings.fixed_reparametrisation(self.density.ndim)
        self.vars = self.density.value_vars
        self.jitter, self.check_gradient = jitter, check_gradient
        self.rng = get_random_generator(rng)
        self._given_tune = tune
        layout = self.density.layout
        self._names = layout.names
        # What is needed to make a variable of a part of the vector: None where nothing is.
        self._parts = [
            (name, part, None if len(shape) == 1 else shape, None if dtype == "float64" else dtype)
            for name, part, shape, dtype in zip(
                layout.names, layout.slices, layout.shapes, layout.dtypes, strict=True
            )
        ]
        self._begin_chain(tune)
        if self.settings.integrator == "rotation" and metric is None and not self._is_alone:
            raise SettingsError(
                "integrator='rotation' turns about a Gaussian like the whole target, which cannot "
                f"be learnt for {', '.join(self._names)} beside other variables that move. Leave "
                "integrator= out, or give metric=, a Metric with its centre."
            )
        # Compiled here and not in a worker, so that forked workers find the machine code.
        with Progress(enabled=bool(progressbar)) as display, watched(display.compiling):
            self._target: Target | None = self.density.target()
            Process.compile_kernel()
        mark_results()
        answer_arguments()

    @classmethod
    def paper(cls, vars: Sequence | None = None, **options: Any) -> MJHMC:  # noqa: A002
        """The paper's process as a step: `mjhmc_numba.Settings.paper`.

        Parameters
        ----------
        vars : sequence of variables or str, optional
            Variables to sample; all continuous ones by default.
        **options
            `step_size`, `num_steps` and `refresh_rate`, the paper's epsilon, M and beta,
            `draw_interval`, and whatever else `MJHMC` takes. What is not given is tuned.
        """
        return cls(vars, **(PAPER | options))

    def __repr__(self) -> str:
        given = self.settings.given()
        return f"<MJHMC: {self.density.description}{'; ' + given if given else ''}>"

    def _repr_html_(self) -> str:
        given = self.settings.given() or "all by default"
        return card("MJHMC, a step method for pm.sample", {**self.density.facts, "settings": given})

    # ------------------------------------------------------------------- PyMC's hooks

    def set_rng(self, rng: Any) -> None:
        """A new chain begins (PyMC 5)."""
        self.rng = get_random_generator(rng, copy=False)
        self._begin_chain(tune_of_caller())

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """A new chain begins (PyMC 6)."""
        self.rng = get_random_generator(rng, copy=False)
        self._begin_chain(tune)

    def _begin_chain(self, tune: int | None) -> None:
        if self._given_tune is not None:
            tune = self._given_tune
        self.planned_tune = DEFAULT_TUNE if tune is None else tune
        self.tune = True
        self.iter_count = 0
        self.divergences = 0
        self._process: Process | None = None
        self._tuner: Tuner | None = None
        self._saved: dict | None = None
        self._is_alone = len(self._names) == len(self.density.model.value_vars)
        self._acceptance = math.nan
        self._has_moved = False
        self._is_marked = False
        self._watch = Watch(self.density.layout)
        self._draws = np.zeros((1, self.density.ndim))
        self._rows = np.zeros((1, len(STAT_NAMES)))

    def reset_tuning(self, start: Any = None) -> None:
        """Tune again from the next draw on."""
        self._begin_chain(self.planned_tune)

    def stop_tuning(self) -> None:
        """Freeze all that was tuned."""
        self.tune = False
        if self._process is not None and self._tuner is not None:
            self._tuner.stop(self._process)

    @property
    def target_accept(self) -> float:
        """The acceptance statistic that the step size is tuned to."""
        process = self._process
        tuned = first_guess(self.settings, self.density.ndim) if process is None else process.tuned
        return target_accept(self.settings, tuned.integrator)

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """As NUTS: for continuous variables with a gradient. PyMC asks once it is registered."""
        if var.dtype in continuous_types and has_grad:
            return Competence.PREFERRED
        return Competence.INCOMPATIBLE

    # -------------------------------------------------------------------------- a step

    def step(
        self, point: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Advance to the next draw."""
        try:
            return self._step(point)
        except Exception as error:
            explain_failure(error)
            raise

    def _step(
        self, point: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        started, cpu = time.perf_counter(), time.thread_time()
        if self._process is None:
            self._begin(point)
        process, density, row = self._process, self.density, self._rows[0]
        assert process is not None
        is_other = density.update_data(by_identity=True)
        if is_other:
            process.configure(straight(process.tuned))
        moved = density.update_others(point) or is_other
        if moved or self._bytes(point) != self._seen:
            self._follow(process, density.layout.ravel(point))
        tuned = process.tuned
        _, status = process.run(self._draws, self._rows)
        if status == DENSITY_RAISED:
            raise process.error()
        if self.tune and self._tuner is not None:
            self._tuner.update(process)
        if not self._is_alone:
            process.resolve_flip()
        new = self._point(point)
        self._seen = self._bytes(new)
        stats = self._stats(row.tolist(), tuned)
        if not (self.tune or self._is_marked):
            self._mark(stats, tuned)
        self.iter_count += 1
        self._check_moves()
        stats["perf_counter_start"] = started
        stats["perf_counter_diff"] = time.perf_counter() - started
        stats["process_time_diff"] = time.thread_time() - cpu
        return new, [stats]

    def _check_moves(self) -> None:
        """Raise after the warm-up if the chain has not moved since it began."""
        if self._has_moved:
            return
        self._has_moved = bool((self._draws[0] != self._origin).any())
        if not self.tune or self.iter_count == self.planned_tune:
            trouble = cannot_move(self._has_moved, self.iter_count)
            if trouble is not None:
                raise StuckError(trouble)

    def _bytes(self, point: Mapping[str, np.ndarray]) -> bytes:
        """Our variables as bytes: the quickest way to see whether any of them has moved."""
        return b"".join([point[name].tobytes() for name in self._names])

    def _point(self, point: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The point with our variables at the new draw, in the same order, as PyMC wants it."""
        draw = self._draws[0].copy()
        new = dict(point)
        for name, part, shape, dtype in self._parts:
            value = draw[part]
            if shape is not None:
                value = value.reshape(shape)
            new[name] = value if dtype is None else value.astype(dtype)
        return new

    def _follow(self, process: Process, x: np.ndarray) -> None:
        """Go on where another step method has moved to, on the density as it left it."""
        if self._is_alone:
            # No other was expected, so a flip may be pending: draw the momentum anew, once.
            self._is_alone = False
            process.start(x)
        else:
            process.move(x)

    # ------------------------------------------------------------- the start of a chain

    def _begin(self, point: Mapping[str, np.ndarray]) -> None:
        """Make the process at its first draw, or as it was saved."""
        density = self.density
        if self._target is None:
            self._target = density.target()
        if self._saved is not None:
            self._restore(self._target, self._saved)
        else:
            density.update_others(point)
            density.update_data()
            self._start(self._target, point)

    def _start(self, target: Target, point: Mapping[str, np.ndarray]) -> None:
        tune = self.planned_tune if self.tune else 0
        x = find_start(self.density, target, point, self.rng, tries=self._tries if tune > 0 else 0)
        if self.check_gradient:
            check_custom_gradients(self.density, target, x)
        seed = chain_seed(self.rng)
        process = Process(
            target, self.settings, first_guess(self.settings, x.size), random_words(seed)
        )
        process.start(x)
        self._origin = x
        if tune > 0:
            region = start_region(self.density, point, jitter=self.jitter)
            self._tuner = self._new_tuner(np.random.default_rng(seed.spawn(1)[0]), region)
            self._tuner.begin(process)
        else:
            run_untuned(process, self.settings)
        self._process = process
        # The process may have started elsewhere than at the given point: that is no move.
        self._seen = self._bytes(point)

    def _new_tuner(self, rng: np.random.Generator, region: Region) -> Tuner:
        return Tuner(
            self.settings,
            self.density.ndim,
            self.planned_tune,
            rng,
            region,
            density_changes=not self._is_alone,
        )

    # ---------------------------------------------------------------------- statistics

    def _stats(self, row: list[float], tuned: Tuned) -> dict[str, Any]:
        stats = of_draw(row, tuned)
        diverging = stats["diverging"]
        if diverging and not self.tune:
            self.divergences += 1
        if not math.isnan(stats["mean_tree_accept"]):  # something was tried
            self._acceptance = stats["mean_tree_accept"]
        stats["mean_tree_accept"] = self._acceptance
        stats["divergences"] = self.divergences
        stats["warning"] = self._warning(row, tuned, diverging)
        return stats

    def _mark(self, stats: dict[str, Any], tuned: Tuned) -> None:
        """Send what the chain was tuned to along with its first draw: `mark_results` stores it."""
        self._is_marked = True
        process = self._process
        assert process is not None
        # One more told that the density is finite at the start.
        spent = 1 + process.progress().gradients - int(stats["tree_size"])
        told = self.density.layout.told
        extra = chain_attributes(self.settings, tuned, told, spent) | found_by(tuned, told)
        warning = stats["warning"]
        if warning is None:
            text = "What the chain was tuned to."
            warning = SamplerWarning(WarningType.BAD_PARAMS, text, "debug", self.iter_count)
        stats["warning"] = dataclasses.replace(warning, extra=extra)

    def _warning(self, row: list[float], tuned: Tuned, diverging: bool) -> SamplerWarning | None:
        """A divergence, for the record; or, once per chain, what else is wrong and what to do."""
        if self.tune:
            kind = WarningType.TUNING_DIVERGENCE
        else:
            found = self._watch.finding(row, self._draws[0], self._acceptance, tuned)
            if found is not None:
                kind, message, level = KINDS[found.kind], found.message, "warn"
                return self._sampler_warning(kind, message, level, diverging)
            kind = WarningType.DIVERGENCE
        if not diverging:
            return None
        message = "An integrator step gained too much energy, or left the support."
        return self._sampler_warning(kind, message, "debug", diverging)

    def _sampler_warning(
        self, kind: WarningType, message: str, level: str, diverging: bool
    ) -> SamplerWarning:
        """A warning as PyMC has it, with the point where a diverging step began."""
        point = None
        if diverging:
            assert self._process is not None
            point = self.density.layout.unravel(self._process.divergence_starts[-1])
        return SamplerWarning(kind, message, level, self.iter_count, divergence_point_source=point)

    # -------------------------------------------------------------- saving and pickling

    @property
    def chain(self) -> dict | None:
        """The state of the chain as arrays and numbers; None before its first draw."""
        if self._process is None:
            return self._saved
        return save(
            Chain(
                process=self._process.snapshot(),
                tuner=self._tuner,
                others=self.density.other_variables(),
                seen=self._seen,
                is_alone=self._is_alone,
                acceptance=None if math.isnan(self._acceptance) else self._acceptance,
                watch=self._watch,
            )
        )

    @chain.setter
    def chain(self, saved: dict | None) -> None:
        self._process = self._tuner = None
        self._saved = saved

    def _restore(self, target: Target, saved: dict) -> None:
        chain = load(Chain, saved, settings=self.settings, layout=self.density.layout)
        self.density.update_others(chain.others)
        self._is_alone = chain.is_alone
        self._process = Process.resume(target, self.settings, chain.process)
        self._tuner = chain.tuner
        self._seen = chain.seen
        self._acceptance = math.nan if chain.acceptance is None else chain.acceptance
        self._watch = chain.watch
        self._has_moved = True  # that is not known, and no longer asked

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_saved"] = self.chain
        state["_process"] = state["_tuner"] = state["_target"] = None
        state["_watch"] = Watch(self.density.layout)  # it is in what is saved of the chain
        return state

    # ------------------------------------------------------------------------ progress

    @staticmethod
    def _progressbar_config(n_chains: int = 1) -> tuple[list, dict[str, list]]:
        columns = [
            TextColumn("{task.fields[divergences]}", table_column=Column("Divergences", ratio=1)),
            TextColumn("{task.fields[step_size]:0.2f}", table_column=Column("Step size", ratio=1)),
            TextColumn("{task.fields[tree_size]:.0f}", table_column=Column("Grad evals", ratio=1)),
        ]
        return columns, {name: [0] * n_chains for name in _SHOWN}

    @staticmethod
    def _make_progressbar_update_functions() -> tuple:
        def update(stats: Mapping[str, Any]) -> dict[str, Any]:
            shown = {name: stats[name] for name in _SHOWN}
            return shown | {"failing": stats["divergences"] > 0}

        return (update,)
