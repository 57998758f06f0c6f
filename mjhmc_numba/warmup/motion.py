"""The integrator of a tuned chain, tried from draws of its warm-up, and bounds of its step size."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mjhmc_numba.coordinates import Draws
from mjhmc_numba.process import Process
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Tuned
from mjhmc_numba.warmup.recipe import RECIPE
from mjhmc_numba.warmup.spectrum import FINE_DETAIL, Spectrum, centred_metric, estimate
from mjhmc_numba.warmup.trajectory import QUARTER_TURN
from mjhmc_numba.warmup.trials import try_harmonic, try_stages

__all__ = ["Trial", "choose_integrator", "step_bounds"]


class Trial(NamedTuple):
    """What integrators are tried with.

    Attributes
    ----------
    process : Process
        Makes the trial steps; it is configured anew for them.
    settings : Settings
        The user's.
    draws : Draws
        In the coordinates of what is tried.
    spectrum : Spectrum or None
        Of these draws; None where the user gave the metric.
    slowest : float
        Standard deviation of the slowest whitened direction.
    density_changes : bool
        Whether the density changes between draws.
    """

    process: Process
    settings: Settings
    draws: Draws
    spectrum: Spectrum | None
    slowest: float
    density_changes: bool

    def points(self, rng: np.random.Generator) -> Draws:
        """Some of the draws, on the density as it is now."""
        n = len(self.draws.x)
        points = self.draws.take(rng.choice(n, min(RECIPE.trials, n), replace=False))
        return _evaluated_again(self.process, points) if self.density_changes else points


def choose_integrator(tuned: Tuned, trial: Trial, rng: np.random.Generator) -> Tuned:
    """The integrator that does best, with a step size to begin with."""
    points = trial.points(rng)
    # A Gaussian whose centre moves with other variables is no good one to rotate about.
    harmonic = None
    if trial.settings.step_size is None and not trial.density_changes:
        harmonic = _choose_harmonic(tuned, trial, points)
    return harmonic or try_stages(trial.process, tuned, points, trial.slowest)


def _choose_harmonic(tuned: Tuned, trial: Trial, points: Draws) -> Tuned | None:
    """The harmonic integrator, if it does well from the points; and from the newest draws
    with a metric of those before them, as few draws fit their own metric too well.
    """
    process, draws, wanted = trial.process, trial.draws, trial.settings.target_accept
    if trial.spectrum is None:
        return try_harmonic(process, tuned, points, wanted)
    fine = tuned.replace(metric=centred_metric(trial.spectrum, FINE_DETAIL, draws))
    if try_harmonic(process, fine, points, wanted) is None:
        return None
    n = len(draws.x) - math.ceil(RECIPE.unseen_share * len(draws.x))
    seen, unseen = draws.take(slice(n)), draws.take(slice(n, None))
    spectrum = estimate(seen.x, seen.grad, trial.settings.metric)
    metric = centred_metric(spectrum, FINE_DETAIL, seen)
    found = try_harmonic(process, tuned.replace(metric=metric), unseen, wanted)
    return None if found is None else found.replace(metric=fine.metric)


def step_bounds(settings: Settings, tuned: Tuned, slowest: float) -> tuple[float, float]:
    """The shortest and the longest step size that make sense for the integrator."""
    if tuned.integrator == "rotation":
        return QUARTER_TURN, QUARTER_TURN
    if tuned.integrator == "harmonic":
        is_chosen = settings.integrator == "auto"
        return RECIPE.shortest_angle if is_chosen else 0.0, QUARTER_TURN
    if tuned.stages > 1:
        return 0.0, RECIPE.longest_stages_step * slowest / tuned.stages
    return 0.0, math.inf


def _evaluated_again(process: Process, draws: Draws) -> Draws:
    """The same positions on the density as it is now, in the same coordinates."""
    points = [process.evaluate(x) for x in draws.to(None).x]
    x, grad, logp = (np.array([point[k] for point in points]) for k in range(3))
    return Draws(x, grad, logp).to(draws.coordinates)
