"""MJHMC as a PyMC step method: one call advances the jump process by one draw interval."""

from __future__ import annotations

import time
from dataclasses import field
from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator
from pymc.vartypes import continuous_types
from rich.progress import TextColumn
from rich.table import Column

from mjhmc_numba.errors import InitialPointError, SettingsError
from mjhmc_numba.kernel.layout import DENSITY_RAISED, STAT_NAMES
from mjhmc_numba.process import Process
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.settings import Settings
from mjhmc_numba.warmup.tuner import Tuner, first_guess

__all__ = ["DEFAULT_TUNE", "MJHMC"]

DEFAULT_TUNE = 1000
JITTER = 1.0  # starts are uniform within this distance in each unconstrained dimension, as PyMC's
JITTER_TRIES = 50
KEPT_DIVERGENCES = 100

_ROW = {name: k for k, name in enumerate(STAT_NAMES)}
_COUNTS = {name: _ROW[name] for name in ("n_L", "n_F", "n_R", "longest_stay", "n_refined")}


@dataclass_state
class MJHMCState(StepMethodState):
    """What a resumed chain needs; `chain` holds arrays and numbers alone."""

    tune: bool
    divergences: int
    iter_count: int
    planned_tune: int = field(default=DEFAULT_TUNE)
    chain: dict | None = None


class MJHMC(BlockedStep):
    """Markov jump HMC on some or all continuous variables of a model.

    Use it as ``pm.sample(step=MJHMC())``. Step size, metric, integrator, refresh rate and draw
    interval are found in PyMC's tuning phase.

    Parameters
    ----------
    vars : variables to sample, or their names; all continuous ones by default
    model : the PyMC model; that of the `with` block by default
    rng : seeds the step where PyMC does not
    initial_point : fixes shapes; PyMC's own by default
    compile_kwargs : handed to PyTensor's compilation
    blocked : sample all variables together
    jitter : start each tuned chain at a random point near the given one (PyMC jitters the
        starts of its own NUTS only)
    tune : tuning draws that the schedule is made for, where PyMC does not tell (PyMC 5)
    settings, **options : see `mjhmc_numba.Settings`; unknown ones raise. With `step_size`,
        `num_steps`, `refresh_rate`, `draw_interval`, ``rates="sqrt"`` and
        ``integrator="leapfrog"`` it is the paper's sampler.
    """

    name = "mjhmc"
    default_blocked = True
    default_tune_steps = DEFAULT_TUNE
    _state_class = MJHMCState

    # Names and types as NUTS has them where both have a thing; ArviZ knows tree_size as
    # n_steps (gradients), mean_tree_accept as acceptance_rate and model_logp as lp.
    stats_dtypes_shapes = {
        "tune": (bool, []),
        "step_size": (np.float64, []),
        "step_size_bar": (np.float64, []),
        "mean_tree_accept": (np.float64, []),
        "tree_size": (np.float64, []),
        "diverging": (bool, []),
        "divergences": (int, []),
        "energy": (np.float64, []),
        "energy_error": (np.float64, []),
        "model_logp": (np.float64, []),
        "process_time_diff": (np.float64, []),
        "perf_counter_diff": (np.float64, []),
        "perf_counter_start": (np.float64, []),
        "refresh_rate": (np.float64, []),
        "draw_interval": (np.float64, []),
        "holding_time": (np.float64, []),
        "num_steps": (np.int64, []),
        "n_jumps": (np.int64, []),
        "n_L": (np.int64, []),
        "n_F": (np.int64, []),
        "n_R": (np.int64, []),
        "longest_stay": (np.int64, []),
        "n_refined": (np.int64, []),
        "warning": (SamplerWarning, None),
    }

    def __init__(
        self,
        vars=None,  # noqa: A002 (PyMC's word)
        *,
        model=None,
        rng=None,
        initial_point=None,
        compile_kwargs=None,
        blocked: bool = True,
        jitter: bool = True,
        tune: int = DEFAULT_TUNE,
        settings: Settings | None = None,
        **options,
    ):
        if settings is not None and options:
            raise SettingsError(f"Give settings= or {', '.join(options)}, not both.")
        self.settings = settings if settings is not None else Settings.create(options)
        if vars is not None and set(_names(vars)) == set(_names(model.value_vars)):
            vars = None if not _has_discrete(model) else vars  # noqa: A001
        self.density = ModelDensity(
            model, vars, initial_point=initial_point, compile_kwargs=compile_kwargs
        )
        self.settings.fixed_metric(self.density.ndim)
        self.vars = self.density.value_vars
        self.jitter = jitter
        self.rng = get_random_generator(rng)
        self.tune = True
        self._default_tune = tune
        self._begin_chain(tune)
        Process.compile_kernel()

    # ------------------------------------------------------------------- PyMC's hooks

    def set_rng(self, rng) -> None:
        """A new chain begins (PyMC 5)."""
        self.rng = get_random_generator(rng, copy=False)
        self._begin_chain(self._default_tune)

    def setup_chain(self, rng, tune: int, draws: int) -> None:
        """A new chain begins (PyMC 6)."""
        self.rng = get_random_generator(rng, copy=False)
        self._begin_chain(tune)

    def _begin_chain(self, tune: int) -> None:
        self.tune = True
        self.planned_tune = tune
        self.iter_count = 0
        self.divergences = 0
        self._process: Process | None = None
        self._tuner: Tuner | None = None
        self._saved: dict | None = None
        self._target: Any = None

    def reset_tuning(self, start=None) -> None:
        """Tune again from the next draw on."""
        self._begin_chain(self.planned_tune)

    def stop_tuning(self) -> None:
        """Freeze all that was tuned."""
        self.tune = False
        if self._process is not None and self._tuner is not None:
            self._tuner.stop(self._process)

    @staticmethod
    def competence(var, has_grad):
        """Compatible with continuous variables that have a gradient; never chosen by itself."""
        if var.dtype in continuous_types and has_grad:
            return Competence.COMPATIBLE
        return Competence.INCOMPATIBLE

    # -------------------------------------------------------------------------- steps

    def step(self, point):
        """Advance to the next draw."""
        started, cpu = time.perf_counter(), time.process_time()
        moved = self.density.update_others(point) | self.density.update_data(by_identity=True)
        x = self.density.layout.ravel(point)
        if self._process is None:
            self._start(x, point)
        process = self._process
        assert process is not None
        if self.iter_count > 0 and (moved or not np.array_equal(x, process.x)):
            if moved:
                process.connect()
            process.move(x)
        _, status = process.run(self._draw, self._row)
        if status == DENSITY_RAISED:
            raise process.error()
        if self.tune and self._tuner is not None:
            self._tuner.update(process, self._row[0])
        new = dict(point)
        new.update(self.density.layout.unravel(self._draw[0].copy()))
        stats = self._stats(self._row[0])
        self.iter_count += 1
        stats["perf_counter_start"] = started
        stats["perf_counter_diff"] = time.perf_counter() - started
        stats["process_time_diff"] = time.process_time() - cpu
        return new, [stats]

    def _start(self, x: np.ndarray, point) -> None:
        """Make the process at its first draw, or as it was saved."""
        self._target = self.density.target()
        ndim = self.density.ndim
        self._draw = np.empty((1, ndim))
        self._row = np.empty((1, len(STAT_NAMES)))
        if self._saved is not None:
            self._restore(self._saved)
            return
        if not self.tune:
            _check_all_given(self.settings)
        x = self._jittered(x, point) if self.tune and self.jitter else x
        if not self._is_fine(x):
            self.density.check_start(point)
        words = self.rng.integers(1, 2**64, size=4, dtype=np.uint64, endpoint=False)
        process = Process(self._target, self.settings, first_guess(self.settings, ndim), words)
        process.start(x)
        if self.tune and self.planned_tune > 0:
            seed = self.rng.integers(2**63)
            self._tuner = Tuner(self.settings, ndim, self.planned_tune, np.random.default_rng(seed))
            self._tuner.begin(process)
        self._process = process

    def _is_fine(self, x) -> bool:
        logp, grad = self._target.logp_and_grad(x)
        return bool(np.isfinite(logp) and np.isfinite(grad).all())

    def _jittered(self, x, point) -> np.ndarray:
        for _ in range(JITTER_TRIES):
            near = x + self.rng.uniform(-JITTER, JITTER, x.size)
            if self._is_fine(near):
                return near
        self.density.check_start(point)  # says what is wrong, if the point itself is
        raise InitialPointError(
            f"None of {JITTER_TRIES} random points around the initial one has a finite density. "
            "Give initvals further inside the support, or MJHMC(jitter=False)."
        )

    def _stats(self, row) -> dict[str, Any]:
        process = self._process
        assert process is not None
        tuned = process.tuned
        diverging = row[_ROW["n_diverging"]] > 0
        if diverging and not self.tune:
            self.divergences += 1
        accepted = row[_ROW["acceptance_rate"]]
        if np.isfinite(accepted):
            self._accepted = float(accepted)
        counts = {name: int(row[k]) for name, k in _COUNTS.items()}
        n_jumps = counts["n_L"] + counts["n_F"] + counts["n_R"]
        return {
            "tune": self.tune,
            "step_size": row[_ROW["step_size"]],
            "step_size_bar": tuned.step_size,
            "mean_tree_accept": getattr(self, "_accepted", np.nan),
            "tree_size": row[_ROW["n_steps"]],
            "diverging": bool(diverging),
            "divergences": int(self.divergences),
            "energy": row[_ROW["energy"]],
            "energy_error": row[_ROW["energy_error"]],
            "model_logp": row[_ROW["lp"]],
            "refresh_rate": tuned.refresh_rate,
            "draw_interval": tuned.draw_interval,
            "holding_time": tuned.draw_interval / max(n_jumps, 1),
            "num_steps": tuned.num_steps,
            "n_jumps": n_jumps,
            **counts,
            "warning": self._warning() if diverging else None,
        }

    def _warning(self) -> SamplerWarning:
        kind = WarningType.TUNING_DIVERGENCE if self.tune else WarningType.DIVERGENCE
        message = "An integrator step met a divergence: the energy error was large or infinite."
        return SamplerWarning(kind, message, "debug", self.iter_count)

    # -------------------------------------------------------------- saving and pickling

    @property
    def chain(self) -> dict | None:
        """The state of the chain as arrays and numbers; None before its first draw."""
        if self._process is None:
            return self._saved
        saved = {"process": self._process.save(), "tuner": None}
        if self._tuner is not None:
            saved["tuner"] = self._tuner.save()
        return saved

    @chain.setter
    def chain(self, saved: dict | None) -> None:
        self._process = self._tuner = None
        self._saved = saved

    def _restore(self, saved: dict) -> None:
        self._process = Process.restore(self._target, self.settings, saved["process"])
        if saved["tuner"] is not None:
            rng = np.random.default_rng(0)
            self._tuner = Tuner(self.settings, self.density.ndim, self.planned_tune, rng)
            self._tuner.load(saved["tuner"])

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_saved"] = self.chain
        state["_process"] = state["_tuner"] = state["_target"] = None
        return state

    # ------------------------------------------------------------------------ progress

    @staticmethod
    def _progressbar_config(n_chains=1):
        columns = [
            TextColumn("{task.fields[divergences]}", table_column=Column("Divergences", ratio=1)),
            TextColumn("{task.fields[step_size]:0.2f}", table_column=Column("Step size", ratio=1)),
            TextColumn("{task.fields[tree_size]}", table_column=Column("Grads/draw", ratio=1)),
        ]
        stats = {name: [0] * n_chains for name in ("divergences", "step_size", "tree_size")}
        return columns, stats

    @staticmethod
    def _make_progressbar_update_functions():
        def update(stats):
            shown = {name: stats[name] for name in ("divergences", "step_size", "tree_size")}
            return shown | {"failing": stats["divergences"] > 0}

        return (update,)


def _names(variables) -> list[str]:
    if not isinstance(variables, (list, tuple)):
        variables = [variables]
    return [v if isinstance(v, str) else v.name for v in variables]


def _has_discrete(model) -> bool:
    return bool(model.discrete_value_vars)


def _check_all_given(settings: Settings) -> None:
    needed = ("step_size", "num_steps", "refresh_rate", "draw_interval")
    missing = [name for name in needed if getattr(settings, name) is None]
    if missing:
        raise SettingsError(f"Without tuning (tune=0), give MJHMC {', '.join(missing)}.")
