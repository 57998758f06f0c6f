"""A warm-up, window by window: takes one process from a first guess to frozen settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from mjhmc_numba.coordinates import Draws
from mjhmc_numba.initial import (
    STARTS_TAKE,
    STARTS_TAKE_WINDOWS,
    Multistart,
    Region,
    has_burnt_in,
)
from mjhmc_numba.process import Process
from mjhmc_numba.saving import GIVEN
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Starts, Tuned
from mjhmc_numba.warmup import metric as metric_tuner
from mjhmc_numba.warmup.first import first_step, not_given, target_accept
from mjhmc_numba.warmup.history import History
from mjhmc_numba.warmup.independence import IndependenceProposal
from mjhmc_numba.warmup.metric import FEWEST_DRAWS_OF_METRIC
from mjhmc_numba.warmup.motion import FEWEST_TRIALS, Trial, choose_integrator, step_bounds
from mjhmc_numba.warmup.parents import (
    FEWEST_DRAWS_OF_CHOICE,
    MOST_DIMENSIONS,
    ONE_SEARCH_FROM,
    choose,
)
from mjhmc_numba.warmup.recipe import RECIPE
from mjhmc_numba.warmup.schedule import Window, windows
from mjhmc_numba.warmup.spacing import (
    autocorrelation_time,
    draw_spacing,
    largest_autocorrelation,
    lengthening,
)
from mjhmc_numba.warmup.spectrum import (
    COARSE_DETAIL,
    FINE_DETAIL,
    LOW_RANK_FROM,
    Spectrum,
    centred_metric,
    estimate,
)
from mjhmc_numba.warmup.trajectory import most_draws_per_refresh, with_trajectory

__all__ = ["Tuner"]

# Squared distance from the centre over the largest of the final draws, from which a region is
# another. A draw of a Student-t with 5 degrees of freedom in 20 dimensions has twice that of 120
# others once in 1,000 draws (simulated); starts are tried where tails may be heavier.
OTHER_REGION = 4.0


@dataclass
class Tuner:
    """The state of a warm-up.

    Parameters
    ----------
    settings : Settings
        What the user fixed is left alone.
    ndim : int
        Dimensions.
    tune : int
        Number of warm-up draws.
    rng : numpy.random.Generator
        Chooses the draws from which integrators are tried.
    region : Region
        Where chains start.
    density_changes : bool
        Whether the density changes between draws, as beside other step methods. What was seen of
        it is then no longer so.
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
    # Autocorrelation time, in gradients.
    gradients_per_independent: float = field(default=math.inf, init=False)
    draws_per_refresh: float = field(init=False)
    cap: float = field(default=RECIPE.first_cap, init=False)
    independence: IndependenceProposal = field(init=False)
    starts: Multistart | None = field(default=None, init=False)
    found: Starts = field(default=Starts(), init=False)
    # Log mass over that of the best, and end, of each start that came to another region.
    elsewhere: list[tuple[float, np.ndarray]] = field(default_factory=list, init=False)
    begun: bool = field(default=False, init=False)
    has_learnt: bool = field(default=False, init=False)  # a metric, and how far to go in it

    def __post_init__(self):
        self.plan = windows(self.tune)
        self.history = History(self.ndim, self.tune)
        self.draws_per_refresh = most_draws_per_refresh(self.ndim)
        self.independence = IndependenceProposal(self.settings, self.ndim, self.density_changes)

    # ------------------------------------------------------------------ begin

    def begin(self, process: Process) -> None:
        """From the process's start: a first metric, step size and trajectory."""
        if not self.begun and self.tune >= RECIPE.multistart_from and not self.density_changes:
            self.starts = self._several_starts()
        if not self.begun:
            process.keep_draws(min(self.history.capacity, max(w.draws for w in self.plan)))
        self.begun = True
        tuned = self.independence.without(process.tuned)
        if self.settings.fixed_metric(self.ndim) is None:
            tuned = tuned.replace(metric=metric_tuner.first(process.here.grad))
            process.configure(tuned)
        if self.settings.step_size is None:
            tuned = tuned.replace(step_size=first_step(process, self.settings, tuned))
        self._configure(process, tuned)

    def _several_starts(self) -> Multistart | None:
        most = self.settings.starts
        if most == 1:
            return None
        starts = Multistart(self.region.widened, most_draws=STARTS_TAKE * self.tune)
        return starts if most is None else replace(starts, most=most)

    # ------------------------------------------------------------------ update

    @property
    def is_done(self) -> bool:
        return self.window >= len(self.plan)

    @property
    def draws_ahead(self) -> int:
        """Draws that the process may make before the tuner has to be asked again."""
        left = self.plan[self.window].draws - self.in_window
        return left if self.plan[self.window].is_final else self.independence.draws_ahead(left)

    def update(self, process: Process, draws: int = 1) -> None:
        """Take in that the process has made so many draws, `draws_ahead` at most."""
        if self.is_done:
            return
        self.in_window += draws
        self.independence.count(process.tuned, draws)
        if self.in_window == self.plan[self.window].draws:
            self.history.extend(process.take_draws())
            self._end_window(process)
        elif not self.plan[self.window].is_final:
            self._widen_proposal(process)

    def _widen_proposal(self, process: Process) -> None:
        if not self.independence.looks_again(self.plan[self.window].draws - self.in_window):
            return
        self.history.extend(process.take_draws())
        draws = self.history.newest(self.independence.used).to(process.tuned.reparametrisation)
        tuned = self.independence.widen(process.tuned, draws)
        if tuned is not None:
            self._configure(process, tuned)

    def _begin_again(self, process: Process) -> bool:
        """Whether the first windows are run again, from another start."""
        if self.starts is None:
            return False
        run = self.history.newest(self.history.total)
        if not has_burnt_in(run) and self.window + 1 < STARTS_TAKE_WINDOWS:
            return False
        self.starts.add(run)
        if self.starts.enough:
            self._take_best_start(process, self.starts)
            self.starts = None
            return False
        self.history.clear()
        self.window = self.in_window = 0
        self.cap = RECIPE.first_cap
        process.start(self.starts.another_start(self.rng, process.evaluate, process.x.copy()))
        self.begin(process)
        return True

    def _take_best_start(self, process: Process, starts: Multistart) -> None:
        best, last = starts.best, starts.tried[-1]
        self.found = Starts(len(starts.tried))
        self.elsewhere = starts.elsewhere(process.evaluate)
        if best is not last:
            self.history.clear()
            self.history.extend(best)
            process.start(best.x[-1])
        done, repeated = self.window + 1, starts.draws - len(last.x)
        self.plan = [*self.plan[:done], *windows(self.tune - repeated)[done:]]

    def _end_window(self, process: Process) -> None:
        window = self.plan[self.window]
        if self._begin_again(process):
            return
        self.window += 1
        self.in_window = 0
        tuned = process.tuned.replace(step_size=process.averaged_step)
        if window.is_final:
            self._freeze(process, tuned, window.draws)
            return
        self.cap = min(self.cap * RECIPE.cap_growth, RECIPE.largest_cap)
        draws = self.history.stationary_part(
            window.draws, RECIPE.keep_share, tuned.reparametrisation
        )
        if len(draws.x) >= FEWEST_DRAWS_OF_METRIC:
            self.has_learnt = True
            tuned = self._learn(process, tuned, draws)
        self._configure(process, tuned)

    def _learn(self, process: Process, tuned: Tuned, draws: Draws) -> Tuned:
        """New coordinates, and what moves in them."""
        used = tuned.metric
        tuned = self._reparametrised(self.independence.without(tuned), draws)
        inner = draws.to(tuned.reparametrisation)
        spectrum = self._spectrum(inner)
        if spectrum is not None:
            tuned = self._with_new_metric(process, tuned, spectrum, inner)
        if len(inner.x) >= LOW_RANK_FROM:
            scale = metric_tuner.slowest_scale(tuned.metric, inner.x, inner.grad)
            self.slowest = self.measured = max(scale, RECIPE.shortest_scale)
        if self.window > RECIPE.burn_in_windows and not self.independence.used:
            self._heed_mixing(draws.x, tuned)
        if self.plan[self.window].is_final and self.settings.integrator == "auto":
            tuned = self._choose_integrator(process, tuned, spectrum, inner)
        if self.window > RECIPE.burn_in_windows:
            last = self.plan[self.window].is_final
            tuned = self.independence.choose(tuned, used, inner, last=last)
        return tuned

    def _spectrum(self, draws: Draws) -> Spectrum | None:
        """The target's covariance; None where the user gave the metric. Before the final window
        the strongest directions will do.
        """
        if self.settings.fixed_metric(self.ndim) is not None:
            return None
        is_last = self.is_done or self.plan[self.window].is_final
        return estimate(draws.x, draws.grad, self.settings.metric, only_strong=not is_last)

    def _choose_integrator(self, process, tuned: Tuned, spectrum, draws: Draws) -> Tuned:
        settings, changes = self.settings, self.density_changes
        trial = Trial(process, settings, draws, spectrum, self.slowest, changes)
        return choose_integrator(tuned, trial, self.rng)

    def _reparametrised(self, tuned: Tuned, draws: Draws) -> Tuned:
        """Other coordinates, where they suit the sampler better."""
        settings = self.settings
        is_free = (
            settings.reparametrisation == "auto"
            and settings.step_size is None
            and settings.fixed_metric(self.ndim) is None
            and not self.density_changes
            and not self.independence.used
            and self.ndim <= MOST_DIMENSIONS
        )
        often = self.ndim <= ONE_SEARCH_FROM
        is_last = self.plan[self.window].is_final  # then what few draws say is better than nothing
        enough = FEWEST_DRAWS_OF_CHOICE // 2 if is_last else FEWEST_DRAWS_OF_CHOICE
        is_time = len(draws.x) >= enough and (often or is_last)
        if not (is_free and is_time):
            return tuned

        def metric_of(z, g):
            return estimate(z, g, settings.metric, only_strong=True).metric(COARSE_DETAIL)

        def best_metric_of(z, g):
            return estimate(z, g, settings.metric).metric(FINE_DETAIL)

        known = tuned.reparametrisation
        chosen = choose(draws.x, draws.grad, known, metric_of, best_metric_of)
        return tuned.replace(reparametrisation=chosen)

    def _heed_mixing(self, x, tuned: Tuned) -> None:
        """Where draws one refresh apart are alike the chain mixes slowly: give it longer to learn,
        and longer paths in the end.
        """
        lag = max(1, round(1.0 / (tuned.refresh_rate * tuned.draw_interval)))
        alike = largest_autocorrelation(x, lag)
        if alike > RECIPE.slow:
            self.draws_per_refresh = max(self.draws_per_refresh / 2, 1.0)
        if self.plan[self.window].is_final:
            self.gradients_per_independent = autocorrelation_time(x) * tuned.gradients_per_draw
            self.slowest *= lengthening(alike)

    def _with_new_metric(
        self, process: Process, tuned: Tuned, spectrum: Spectrum, draws: Draws
    ) -> Tuned:
        """A new metric, and another step size where the old one says little in it."""
        harmonic = self.settings.integrator == "harmonic"
        metric = centred_metric(spectrum, FINE_DETAIL if harmonic else COARSE_DETAIL, draws)
        changed = metric_tuner.differ(metric, tuned.metric) or _is_other(tuned, process.tuned)
        tuned = tuned.replace(metric=metric)
        if changed and self.settings.step_size is None:
            process.configure(tuned)
            tuned = tuned.replace(step_size=first_step(process, self.settings, tuned))
        return tuned

    def _configure(self, process: Process, tuned: Tuned) -> None:
        """Give the process its metric and trajectory for the next window."""
        if self.window < RECIPE.burn_in_windows:
            tuned = self._with_trajectory(tuned, RECIPE.burn_in_rungs)
        elif self.plan[self.window].is_final:
            tuned = self._with_trajectory(tuned)
        else:
            tuned = self._with_trajectory(tuned, draws_per_path=self.draws_per_refresh)
        made = sum(w.draws for w in self.plan[: self.window])
        levels = 0 if made < RECIPE.unrefined_share * self.tune else None
        process.configure(tuned, max_gradients=RECIPE.draw_cap, refine_levels=levels)
        process.restart()
        if self.settings.step_size is None:
            wanted = target_accept(self.settings, tuned.integrator)
            process.adapt_step(wanted, *step_bounds(tuned, self.slowest))

    def _with_trajectory(
        self,
        tuned: Tuned,
        min_rungs: int = 1,
        draws_per_path: float = 1.0,
    ) -> Tuned:
        path = self.slowest, self.cap, min_rungs, draws_per_path
        return with_trajectory(tuned, self.settings, *path, turns=self.independence.per_draw)

    # ------------------------------------------------------------------ final

    def stop(self, process: Process) -> None:
        """Freeze now, with what has been learnt so far."""
        if self.is_done:
            return
        self.history.extend(process.take_draws())
        tuned = process.tuned.replace(step_size=process.averaged_step)
        undecided = not self.plan[self.window].is_final and self.settings.integrator == "auto"
        if undecided and self.history.total >= 3 * FEWEST_TRIALS:
            n = self.plan[self.window].draws
            draws = self.history.stationary_part(n, RECIPE.keep_share, tuned.reparametrisation)
            inner = draws.to(tuned.reparametrisation)
            tuned = self._choose_integrator(process, tuned, self._spectrum(inner), inner)
        in_final = self.in_window if self.plan[self.window].is_final else 0
        self.window = len(self.plan)
        self._freeze(process, tuned, in_final)

    def _freeze(self, process: Process, tuned: Tuned, draws: int) -> None:
        """For good, after so many draws of the final window, which have been made with it."""
        self.cap = RECIPE.largest_cap
        tuned = self._with_trajectory(tuned)
        if draws >= RECIPE.judged_by:
            newest = self.history.newest(draws)
            converged = self._converged(tuned, newest.to(tuned.reparametrisation))
            tuned = self._with_draws_apart(tuned, newest.x).replace(converged=converged)
            self.found = self._judged(tuned, newest)
        tuned = tuned.replace(starts=self.found)
        if not self.has_learnt:
            guessed = tuple(name for name in not_given(self.settings) if name != "step_size")
            tuned = tuned.replace(not_learnt=guessed)
        process.configure(tuned)
        process.restart()
        process.keep_draws(0)

    def _judged(self, tuned: Tuned, draws: Draws) -> Starts:
        """What the starts have come to, as the draws at the end show it: another region is one that
        lies further out than they do, in coordinates in which the target should be standard normal.
        """
        inner = draws.to(tuned.transform)
        reach = OTHER_REGION * float(np.max(np.sum(inner.x**2, axis=1)))
        ends = [tuned.transform.to_z(x) for _, x in self.elsewhere]
        apart = [mass for (mass, _), z in zip(self.elsewhere, ends, strict=True) if z @ z > reach]
        return self.found._replace(
            elsewhere=tuple(apart),
            log_density=float(draws.logp.mean()),
            log_mass=float(inner.logp.mean()),
        )

    def _with_draws_apart(self, tuned: Tuned, x) -> Tuned:
        """Further apart where the draws before the final window and those in it mix slowly."""
        if self.settings.draw_interval is not None or not math.isfinite(
            self.gradients_per_independent
        ):
            return tuned
        before = self.gradients_per_independent / tuned.gradients_per_draw
        time = min(autocorrelation_time(x), before)  # few draws easily look alike
        settings = self.settings
        factor = draw_spacing(time, settings.ess_per_draw, settings.most_spacing)
        return tuned.replace(draw_interval=factor * tuned.draw_interval)

    def _converged(self, tuned: Tuned, draws: Draws) -> bool:
        """Whether the refresh rate still suits the slowest scale, as the last draws show it."""
        if tuned.integrator == "rotation" or self.settings.refresh_rate is not None:
            return True
        now = metric_tuner.slowest_scale(tuned.metric, draws.x, draws.grad)
        return now <= RECIPE.other_scale * self.measured


def _is_other(one: Tuned, other: Tuned) -> bool:
    """Whether one of them is reparametrised and the other not."""
    return (one.reparametrisation is None) != (other.reparametrisation is None)
