"""A warm-up, draw by draw: drives one process from a first guess to frozen settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.metric import Metric
from mjhmc_numba.process import Process
from mjhmc_numba.settings import INTEGRATORS, Settings, Tuned
from mjhmc_numba.warmup import metric as metric_tuner
from mjhmc_numba.warmup import step_size as step_tuner
from mjhmc_numba.warmup.history import History
from mjhmc_numba.warmup.schedule import Window, windows
from mjhmc_numba.warmup.trajectory import plan

__all__ = ["Recipe", "Tuner", "first_guess"]

_ACCEPTANCE = STAT_NAMES.index("acceptance_rate")
_REFRESHES = STAT_NAMES.index("n_R")


@dataclass(frozen=True)
class Recipe:
    """Constants of the warm-up; see DESIGN in the documentation for where they come from."""

    target_accept: float = 0.8  # leapfrog
    target_accept_stages: float = 0.9  # two- and three-stage
    keep_share: float = 0.6  # of the draws so far that a metric is made from
    low_rank_from: int = 16  # draws; a diagonal is used before
    shortest_scale: float = 0.7
    long_windows: int = 4  # windows in which the chain still travels: few refreshes
    long_rungs: float = 16.0
    first_cap: float = 16.0  # gradients per refresh length in the first window
    cap_growth: float = 1.4
    largest_cap: float = 1024.0
    draw_cap: int = 4000  # gradients at which a draw of the warm-up is cut short
    unrefined_share: float = 0.4  # rungs are not refined in this first part
    trials: int = 40  # draws from which integrators are tried
    trial_step: float = 0.9  # at this share of leapfrog's step size
    leapfrog_above: float = 0.65  # step size / slowest scale from which leapfrog is kept
    three_stage_below: float = 0.3
    longest_stages_step: float = 1.4  # length of a two- or three-stage step / slowest scale


def first_guess(settings: Settings, ndim: int) -> Tuned:
    """What a process can be made with before anything is known."""
    metric = settings.fixed_metric(ndim)
    return Tuned(
        step_size=settings.step_size or 0.5,
        num_steps=settings.num_steps or 1,
        refresh_rate=settings.refresh_rate or 1.0 / 16,
        draw_interval=settings.draw_interval or 8.0,
        integrator="leapfrog" if settings.integrator == "auto" else settings.integrator,
        metric=Metric.diagonal(np.ones(ndim)) if metric is None else metric,
    )


@dataclass
class Tuner:
    """The state of a warm-up.

    Parameters
    ----------
    settings : what the user fixed is left alone
    tune : number of warm-up draws
    rng : draws the trial points
    """

    settings: Settings
    ndim: int
    tune: int
    rng: np.random.Generator
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self):
        self.plan: list[Window] = windows(self.tune)
        self.history = History(self.ndim, self.tune)
        self.window = 0
        self.in_window = 0
        self.slowest = 1.0
        self.cap = self.recipe.first_cap
        self.averaging: step_tuner.DualAveraging | None = None
        self._acceptance: list[float] = []

    # ------------------------------------------------------------------ begin

    def begin(self, process: Process) -> None:
        """From the process's start: a first metric, step size and trajectory."""
        tuned = process.tuned
        if self.settings.fixed_metric(self.ndim) is None:
            steepness = np.clip(np.abs(process.grad), 1e-10, 1e10)
            tuned = tuned.replace(metric=Metric.diagonal(1.0 / steepness))
            process.configure(tuned)
        if self.settings.step_size is None:
            tuned = tuned.replace(step_size=self._first_step(process, tuned))
        self.averaging = step_tuner.init(tuned.step_size)
        self._configure(process, tuned)

    def _first_step(self, process: Process, tuned: Tuned) -> float:
        """Double or halve until the acceptance of one step crosses the target."""
        step, direction = tuned.step_size, 0
        wanted = -math.log(self._target(tuned.integrator))
        for _ in range(60):
            error = process.probe(process.x, process.grad, process.logp, tuned.integrator, step)
            grow = 1 if error < wanted else -1
            if direction == 0:
                direction = grow
            elif grow != direction:
                break
            step *= 2.0**direction
        return step

    def _target(self, integrator: str) -> float:
        if self.settings.target_accept is not None:
            return self.settings.target_accept
        recipe = self.recipe
        return recipe.target_accept if integrator == "leapfrog" else recipe.target_accept_stages

    # ------------------------------------------------------------------ update

    @property
    def is_done(self) -> bool:
        return self.window >= len(self.plan)

    def update(self, process: Process, stats: np.ndarray) -> None:
        """Take in the draw that the process has just made, with its row of statistics."""
        if self.is_done:
            return
        self.history.append(process.x, process.grad, process.logp)
        if math.isfinite(stats[_ACCEPTANCE]):
            self._acceptance.append(stats[_ACCEPTANCE])
        # A new step size counts from a refresh on, so that is when it is worth a change.
        if stats[_REFRESHES] > 0 and self._acceptance and self.settings.step_size is None:
            acceptance = float(np.mean(self._acceptance))
            target = self._target(process.tuned.integrator)
            self.averaging = step_tuner.update(self.averaging, acceptance, target)
            process.set_step_size(math.exp(self.averaging.log_step))
            self._acceptance.clear()
        self.in_window += 1
        if self.in_window == self.plan[self.window].draws:
            self._end_window(process)

    def _end_window(self, process: Process) -> None:
        window = self.plan[self.window]
        self.window += 1
        self.in_window = 0
        self._acceptance.clear()
        tuned = process.tuned
        if self.settings.step_size is None:
            tuned = tuned.replace(step_size=step_tuner.final(self.averaging))
        if window.is_final:
            self._freeze(process, tuned)
            return
        self.cap = min(self.cap * self.recipe.cap_growth, self.recipe.largest_cap)
        x, grad, logp = self.history.stationary_part(window.draws, self.recipe.keep_share)
        if self.settings.fixed_metric(self.ndim) is None:
            tuned = tuned.replace(metric=self._estimate(x, grad))
        if len(x) >= self.recipe.low_rank_from:
            scale = metric_tuner.slowest_scale(tuned.metric, x, grad)
            self.slowest = max(scale, self.recipe.shortest_scale)
        process.configure(tuned)
        if self.plan[self.window].is_final and self.settings.integrator == "auto":
            tuned = tuned.replace(integrator=self._choose_integrator(process, x, grad, logp))
        self.averaging = step_tuner.init(tuned.step_size)
        self._configure(process, tuned)

    def _estimate(self, x, grad) -> Metric:
        if self.settings.metric == "diag" or len(x) < self.recipe.low_rank_from:
            return metric_tuner.diagonal(x, grad)
        return metric_tuner.low_rank(x, grad)

    def _choose_integrator(self, process: Process, x, grad, logp) -> str:
        """Try each at (nearly) the step size of leapfrog, from draws of the warm-up."""
        recipe, step = self.recipe, process.tuned.step_size
        chosen, best = "leapfrog", -1.0
        ratio = step / self.slowest
        rows = self.rng.choice(len(x), min(recipe.trials, len(x)), replace=False)
        limits = {"leapfrog": math.inf, "two_stage": recipe.leapfrog_above,
                  "three_stage": recipe.three_stage_below}
        for integrator, limit in limits.items():
            if ratio > limit:
                break
            errors = [
                process.probe(x[k], grad[k], logp[k], integrator, recipe.trial_step * step)
                for k in rows
            ]
            accepted = float(np.mean(np.exp(-np.maximum(errors, 0.0))))
            enough = integrator != "two_stage" or accepted >= recipe.target_accept_stages
            if not (enough and accepted > best):
                break
            chosen, best = integrator, accepted
        return chosen

    def _configure(self, process: Process, tuned: Tuned) -> None:
        """Give the process its metric and trajectory for the next window."""
        early = self.window < self.recipe.long_windows
        tuned = self._with_trajectory(tuned, self.recipe.long_rungs if early else 1.0)
        process.configure(tuned, max_gradients=self.recipe.draw_cap)
        made = sum(w.draws for w in self.plan[: self.window])
        if made < self.recipe.unrefined_share * self.tune:
            process.state["refine_levels"] = 0
        process.restart()

    def _with_trajectory(self, tuned: Tuned, min_rungs: float) -> Tuned:
        stages = INTEGRATORS[tuned.integrator]
        path = plan(tuned.step_size, stages, self.slowest, self.cap, min_rungs)
        settings = self.settings
        return tuned.replace(
            num_steps=settings.num_steps or path.num_steps,
            refresh_rate=settings.refresh_rate or path.refresh_rate,
            draw_interval=settings.draw_interval or path.draw_interval,
        )

    # ------------------------------------------------------------------ final

    def _freeze(self, process: Process, tuned: Tuned) -> None:
        stages = INTEGRATORS[tuned.integrator]
        if stages > 1 and self.settings.step_size is None:
            longest = self.recipe.longest_stages_step * self.slowest / stages
            tuned = tuned.replace(step_size=min(tuned.step_size, longest))
        self.cap = self.recipe.largest_cap
        process.configure(self._with_trajectory(tuned, 1.0))
        process.restart()
