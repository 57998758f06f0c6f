"""A warm-up, draw by draw: drives one process from a first guess to frozen settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mjhmc_numba.initial import Region
from mjhmc_numba.kernel.layout import STAT_NAMES, STRAIGHT
from mjhmc_numba.metric import Metric
from mjhmc_numba.process import Process
from mjhmc_numba.saving import GIVEN
from mjhmc_numba.settings import INTEGRATORS, Settings, Tuned
from mjhmc_numba.warmup import metric as metric_tuner
from mjhmc_numba.warmup import step_size as step_tuner
from mjhmc_numba.warmup.chart import in_chart
from mjhmc_numba.warmup.drivers import FEWEST_DRAWS, MANY_DIMENSIONS, MOST_DIMENSIONS, choose
from mjhmc_numba.warmup.history import History
from mjhmc_numba.warmup.metric import COARSE, FINE, Detail, Spectrum
from mjhmc_numba.warmup.mixing import agreed, forgetting, lengthening, slowness, thinning
from mjhmc_numba.warmup.recipe import RECIPE
from mjhmc_numba.warmup.schedule import Window, windows
from mjhmc_numba.warmup.step_size import DualAveraging
from mjhmc_numba.warmup.trajectory import (
    FEWEST_RUNGS,
    QUARTER_TURN,
    most_draws_per_refresh,
    path_gradients,
    plan,
    plan_turn,
    plan_turns,
)
from mjhmc_numba.warmup.trials import try_harmonic, try_stages
from mjhmc_numba.warmup.turning import Turning
from mjhmc_numba.warmup.ways import WINDOWS, Way, Ways

__all__ = ["Tuner", "first_guess"]

_ACCEPTANCE = STAT_NAMES.index("acceptance_rate")
_REFRESHES = STAT_NAMES.index("n_R")
_MOVES = [STAT_NAMES.index(name) for name in ("n_L", "n_F")]
_REFINED = STAT_NAMES.index("n_refined")


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
        chart=settings.fixed_chart(ndim),
    )


@dataclass
class Tuner:
    """The state of a warm-up.

    Parameters
    ----------
    settings : what the user fixed is left alone
    tune : number of warm-up draws
    rng : draws the trial points
    region : where chains start
    density_changes : between draws, as beside other step methods: what was seen of it is no
        longer so
    """

    settings: Settings = field(metadata=GIVEN)
    ndim: int
    tune: int
    rng: np.random.Generator
    region: Region
    density_changes: bool = False
    plan: list[Window] = field(init=False)
    history: History = field(init=False)
    window: int = field(default=0, init=False)
    in_window: int = field(default=0, init=False)
    slowest: float = field(default=1.0, init=False)
    measured: float = field(default=1.0, init=False)
    forgets: float = field(default=math.inf, init=False)
    draws_per_refresh: float = field(init=False)
    cap: float = field(default=RECIPE.first_cap, init=False)
    turning: Turning = field(init=False)
    paths_per_draw: float = field(default=1.0, init=False)
    ways: Ways | None = field(default=None, init=False)
    begun: bool = field(default=False, init=False)
    averaging: DualAveraging = field(default=step_tuner.init(1.0), init=False)
    acceptance: list[float] = field(default_factory=list, init=False)

    def __post_init__(self):
        self.plan = windows(self.tune)
        self.history = History(self.ndim, self.tune)
        self.draws_per_refresh = most_draws_per_refresh(self.ndim)
        self.turning = Turning(self.settings, self.ndim, self.density_changes)

    # ------------------------------------------------------------------ begin

    def begin(self, process: Process) -> None:
        """From the process's start: a first metric, step size and trajectory."""
        if not self.begun and self.tune >= RECIPE.ways_from and not self.density_changes:
            self.ways = Ways(self.region.widened, process.logp)
        self.begun = True
        tuned = self.turning.without(process.tuned)
        if self.settings.fixed_metric(self.ndim) is None:
            tuned = tuned.replace(metric=metric_tuner.first(process.z_grad))
            process.configure(tuned)
        if self.settings.step_size is None:
            tuned = tuned.replace(step_size=self._first_step(process, tuned))
        self.averaging = step_tuner.init(tuned.step_size)
        self._configure(process, tuned)

    def _first_step(self, process: Process, tuned: Tuned) -> float:
        """Double or halve until the energy error of one step crosses what the target allows.

        Its size counts, not its sign: a step that is much too long may well go downhill. Far out,
        where a step gains much log density, it may err by a share of the gain.
        """
        step, direction = tuned.step_size, 0
        wanted = -math.log(self._target(tuned.integrator))
        for _ in range(60):
            error, gain = process.probe(
                process.z, process.z_grad, process.z_logp, tuned.integrator, step
            )
            allowed = wanted + RECIPE.downhill_share * max(gain, 0.0)
            grow = 1 if abs(error) < allowed else -1
            if direction == 0:
                direction = grow
            elif grow != direction:
                break
            step *= 2.0**direction
        return step

    def _target(self, integrator: str) -> float:
        if self.settings.target_accept is not None:
            return self.settings.target_accept
        if integrator == "harmonic":
            return RECIPE.target_accept_harmonic
        return RECIPE.target_accept if integrator == "leapfrog" else RECIPE.target_accept_stages

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
            self.acceptance.append(self._unrefined_acceptance(process, stats))
        # A new step size counts from a refresh on, so that is when it is worth a change.
        if stats[_REFRESHES] > 0 and self.acceptance and self.settings.step_size is None:
            acceptance = float(np.mean(self.acceptance))
            target = self._target(process.tuned.integrator)
            self.averaging = step_tuner.update(self.averaging, acceptance, target)
            process.set_step_size(self._bounded(process.tuned, math.exp(self.averaging.log_step)))
            self.acceptance.clear()
        self.in_window += 1
        self.turning.count(process.tuned)
        if self.in_window == self.plan[self.window].draws:
            self._end_window(process)
        elif not self.plan[self.window].is_final:
            self._follow_rotation(process)

    def _follow_rotation(self, process: Process) -> None:
        if not self.turning.looks_again(self.plan[self.window].draws - self.in_window):
            return
        draws = self.history.newest(self.turning.turned)
        z, _, logp = _in_chart(process.tuned, *draws)
        tuned = self.turning.follow(process.tuned, z, logp)
        if tuned is not None:
            self._configure(process, tuned)

    def _unrefined_acceptance(self, process: Process, stats: np.ndarray) -> float:
        """A refined rung counts as not accepted: any step size does well that is refined enough."""
        looks = process.tuned.draw_interval * self.settings.balancing.bound
        if not math.isfinite(looks):
            looks = max(stats[_MOVES].sum(), 1.0)
        return max(stats[_ACCEPTANCE] - stats[_REFINED] / looks, 0.0)

    def _begin_again(self, process: Process) -> bool:
        """Whether the first windows are run again, from another start."""
        if self.ways is None or self.window + 1 < WINDOWS:
            return False
        self.ways.add(Way(*self.history.newest(self.history.total)))
        if self.ways.enough:
            self._take_best_way(process, self.ways)
            self.ways = None
            return False
        self.history.clear()
        self.window = self.in_window = 0
        self.cap = RECIPE.first_cap
        process.start(self.ways.another_start(self.rng, process.evaluate, process.x.copy()))
        self.begin(process)
        return True

    def _take_best_way(self, process: Process, ways: Ways) -> None:
        best = ways.best
        if best is not ways.tried[-1]:
            self.history.clear()
            for row in zip(best.x, best.grad, best.logp, strict=True):
                self.history.append(*row)
            process.start(best.x[-1])
        done, repeated = self.window + 1, (len(ways.tried) - 1) * len(best.x)
        self.plan = [*self.plan[:done], *windows(self.tune - repeated)[done:]]

    def _end_window(self, process: Process) -> None:
        window = self.plan[self.window]
        if self._begin_again(process):
            return
        self.window += 1
        self.in_window = 0
        self.acceptance.clear()
        tuned = process.tuned
        if self.settings.step_size is None:
            step = step_tuner.final(self.averaging)
            tuned = tuned.replace(step_size=self._bounded(tuned, step))
        if window.is_final:
            self._freeze(process, tuned, window.draws)
            return
        self.cap = min(self.cap * RECIPE.cap_growth, RECIPE.largest_cap)
        draws = self.history.stationary_part(window.draws, RECIPE.keep_share, tuned.chart)
        used = tuned.metric
        tuned = self._with_chart(self.turning.without(tuned), *draws)
        z, grad, logp = _in_chart(tuned, *draws)
        estimate = None
        if self.settings.fixed_metric(self.ndim) is None:
            estimate = self._estimate(z, grad)
            tuned = self._with_new_metric(process, tuned, estimate, z, grad)
        if len(z) >= RECIPE.low_rank_from:
            scale = metric_tuner.slowest_scale(tuned.metric, z, grad)
            self.slowest = self.measured = max(scale, RECIPE.shortest_scale)
        if self.window > RECIPE.travel_windows and not self.turning.turned:
            self._heed_mixing(draws[0], tuned)
        if self.plan[self.window].is_final and self.settings.integrator == "auto":
            tuned = self._choose_integrator(process, tuned, estimate, z, grad, logp)
        if self.window > RECIPE.travel_windows:
            last = self.plan[self.window].is_final
            tuned = self._choose_rotation(tuned, used, z, grad, logp, last=last)
        self.averaging = step_tuner.init(tuned.step_size)
        self._configure(process, tuned)

    def _with_chart(self, tuned: Tuned, x, grad, logp) -> Tuned:
        """Other coordinates, where they suit the sampler better."""
        settings = self.settings
        is_free = (
            settings.chart == "auto"
            and settings.step_size is None
            and settings.fixed_metric(self.ndim) is None
            and not self.density_changes
            and not self.turning.turned
            and self.ndim <= MOST_DIMENSIONS
        )
        often = self.ndim <= MANY_DIMENSIONS and self.window % 2 == 0
        is_time = len(x) >= FEWEST_DRAWS and (often or self.plan[self.window].is_final)
        if not (is_free and is_time):
            return tuned

        def metric_of(z, g):
            return self._estimate(z, g).metric(COARSE)

        return tuned.replace(chart=choose(x, grad, tuned.chart, metric_of))

    def _choose_rotation(self, tuned: Tuned, used: Metric, x, grad, logp, *, last) -> Tuned:
        gradients = self.paths_per_draw * path_gradients(tuned.step_size, self.slowest)
        return self.turning.choose(tuned, used, x, grad, logp, gradients, last=last)

    def _heed_mixing(self, x, tuned: Tuned) -> None:
        """Where draws a refresh apart are alike the chain creeps: give it longer to learn, and
        longer paths in the end.
        """
        lag = max(1, round(1.0 / (tuned.refresh_rate * tuned.draw_interval)))
        alike = slowness(x, lag)
        self.forgets = forgetting(x) * tuned.gradients_a_draw
        self.paths_per_draw = (1.0 + alike) / (1.0 - alike) if 0.0 < alike < 1.0 else 1.0
        if alike > RECIPE.slow:
            self.draws_per_refresh = max(self.draws_per_refresh / 2, 1.0)
        if self.plan[self.window].is_final:
            self.slowest *= lengthening(alike)

    def _estimate(self, x, grad) -> Spectrum:
        """The target's covariance, as far as so many draws tell it."""
        if self.settings.metric == "diag" or len(x) < RECIPE.low_rank_from:
            flat = metric_tuner.diagonal(x, grad)
            return Spectrum(flat.scale, flat.directions, flat.eigenvalues)
        return metric_tuner.spectrum(x, grad)

    def _metric(self, estimate: Spectrum, detail: Detail, x, grad) -> Metric:
        metric = estimate.metric(detail)
        return metric.centred(metric_tuner.centre(metric, x, grad))

    def _with_new_metric(
        self, process: Process, tuned: Tuned, estimate: Spectrum, x, grad
    ) -> Tuned:
        """A new metric, and another step size where the old one says little in it."""
        harmonic = self.settings.integrator == "harmonic"
        metric = self._metric(estimate, FINE if harmonic else COARSE, x, grad)
        changed = metric_tuner.differ(metric, tuned.metric) or _is_other(tuned, process.tuned)
        tuned = tuned.replace(metric=metric)
        if changed and self.settings.step_size is None:
            process.configure(tuned)
            tuned = tuned.replace(step_size=self._first_step(process, tuned))
        return tuned

    def _choose_integrator(
        self, process: Process, tuned: Tuned, estimate: Spectrum | None, x, grad, logp
    ) -> Tuned:
        """The integrator, tried from draws of the warm-up, with a step size to begin with."""
        rows = self.rng.choice(len(x), min(RECIPE.trials, len(x)), replace=False)
        points = [(x[k], grad[k], logp[k]) for k in rows]
        if self.density_changes:
            points = [(x, *process.evaluate(x)[::-1]) for x, _, _ in points]
        # A Gaussian whose centre moves with other variables is no good one to rotate about.
        harmonic = None
        if self.settings.step_size is None and not self.density_changes:
            harmonic = self._choose_harmonic(process, tuned, estimate, x, grad, logp, points)
        return harmonic or try_stages(process, tuned, points, self.slowest)

    def _choose_harmonic(
        self, process: Process, tuned: Tuned, estimate: Spectrum | None, x, grad, logp, points
    ) -> Tuned | None:
        """The harmonic integrator, if it does well from the points; and from the newest draws
        with a metric of those before them, as few draws fit their own metric too well.
        """
        if estimate is None:
            return try_harmonic(process, tuned, points)
        fine = tuned.replace(metric=self._metric(estimate, FINE, x, grad))
        if try_harmonic(process, fine, points) is None:
            return None
        n = len(x) - math.ceil(RECIPE.unseen_share * len(x))
        earlier = tuned.replace(
            metric=self._metric(self._estimate(x[:n], grad[:n]), FINE, x[:n], grad[:n])
        )
        newest = list(zip(x[n:], grad[n:], logp[n:], strict=True))
        found = try_harmonic(process, earlier, newest)
        return None if found is None else found.replace(metric=fine.metric)

    def _configure(self, process: Process, tuned: Tuned) -> None:
        """Give the process its metric and trajectory for the next window."""
        if self.window < RECIPE.travel_windows:
            tuned = self._with_trajectory(tuned, RECIPE.travel_rungs, draws_per_refresh=1.0)
        elif self.plan[self.window].is_final:
            tuned = self._with_trajectory(tuned)
        else:
            tuned = self._with_trajectory(tuned, draws_per_refresh=self.draws_per_refresh)
        process.configure(tuned, max_gradients=RECIPE.draw_cap)
        made = sum(w.draws for w in self.plan[: self.window])
        if made < RECIPE.unrefined_share * self.tune:
            process.state["refine_levels"] = 0
        process.restart()

    def _with_trajectory(
        self,
        tuned: Tuned,
        min_rungs: float = FEWEST_RUNGS,
        draws_per_refresh: float | None = None,
    ) -> Tuned:
        if tuned.integrator == "harmonic":
            path = plan_turn(tuned.step_size)
        elif tuned.integrator == "rotation":
            path = plan_turns(tuned.step_size, self.turning.turns)
        else:
            path = plan(
                tuned.step_size,
                tuned.stages,
                self.slowest,
                self.cap,
                min_rungs,
                draws_per_refresh,
            )
        settings = self.settings
        return tuned.replace(
            num_steps=settings.num_steps or path.num_steps,
            refresh_rate=settings.refresh_rate or path.refresh_rate,
            draw_interval=settings.draw_interval or path.draw_interval,
        )

    # ------------------------------------------------------------------ final

    def stop(self, process: Process) -> None:
        """Freeze now, with what has been learnt so far."""
        if self.is_done:
            return
        tuned = process.tuned
        if self.settings.step_size is None:
            step = step_tuner.final(self.averaging)
            tuned = tuned.replace(step_size=self._bounded(tuned, step))
        undecided = not self.plan[self.window].is_final and self.settings.integrator == "auto"
        if undecided and self.history.total >= RECIPE.trials:
            n = self.plan[self.window].draws
            draws = self.history.stationary_part(n, RECIPE.keep_share, tuned.chart)
            x, grad, logp = _in_chart(tuned, *draws)
            used, tuned = tuned.metric, self.turning.without(tuned)
            free = self.settings.fixed_metric(self.ndim) is None
            estimate = self._estimate(x, grad) if free else None
            tuned = self._choose_integrator(process, tuned, estimate, x, grad, logp)
            tuned = self._choose_rotation(tuned, used, x, grad, logp, last=True)
        in_final = self.in_window if self.plan[self.window].is_final else 0
        self.window = len(self.plan)
        self._freeze(process, tuned, in_final)

    def _bounded(self, tuned: Tuned, step: float) -> float:
        """A step size that is not longer than makes sense for the integrator."""
        if tuned.integrator == "rotation":
            return QUARTER_TURN
        if tuned.integrator == "harmonic" and self.settings.integrator == "auto":
            return min(max(step, RECIPE.shortest_angle), QUARTER_TURN)
        if tuned.integrator == "harmonic":
            return min(step, QUARTER_TURN)
        if tuned.stages > 1:
            return min(step, RECIPE.longest_stages_step * self.slowest / tuned.stages)
        return step

    def _freeze(self, process: Process, tuned: Tuned, draws: int) -> None:
        """For good, after so many draws of the final window, which have been made with it."""
        self.cap = RECIPE.largest_cap
        tuned = self._with_trajectory(tuned)
        if draws >= RECIPE.judged_by:
            x, grad, logp = self.history.newest(draws)
            z, grad, _ = _in_chart(tuned, x, grad, logp)
            tuned = self._with_draws_apart(tuned, x).replace(settled=self._settled(tuned, z, grad))
        process.configure(tuned)
        process.restart()

    def _with_draws_apart(self, tuned: Tuned, x) -> Tuned:
        """Further apart where the draws before the final window and those in it creep; the former
        were made along straight paths, and tell less of another integrator.
        """
        if self.settings.draw_interval is not None or not math.isfinite(self.forgets):
            return tuned
        forgets, before = forgetting(x), self.forgets / tuned.gradients_a_draw
        alike = INTEGRATORS[tuned.integrator][1] == STRAIGHT
        forgets = agreed(forgets, before, self.ndim) if alike else min(forgets, before)
        return tuned.replace(draw_interval=thinning(forgets, self.ndim) * tuned.draw_interval)

    def _settled(self, tuned: Tuned, x, grad) -> bool:
        """Whether the refresh rate still suits the slowest scale, as the last draws show it."""
        if tuned.integrator == "rotation" or self.settings.refresh_rate is not None:
            return True
        now = metric_tuner.slowest_scale(tuned.metric, x, grad)
        return now <= RECIPE.unsettled * self.measured


def _in_chart(tuned: Tuned, x, grad, logp) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws, gradients and log densities in the coordinates that the process runs in."""
    chart = tuned.chart
    return *in_chart(chart, x, grad), logp if chart is None else logp + chart.log_volume(x)


def _is_other(one: Tuned, other: Tuned) -> bool:
    """Whether one of them has a chart and the other none."""
    return (one.chart is None) != (other.chart is None)
