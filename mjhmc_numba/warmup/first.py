"""What a chain begins with: before its warm-up, or for good where there is none."""

from __future__ import annotations

import math

import numpy as np

from mjhmc_numba.coordinates import Metric
from mjhmc_numba.process import Process
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import INTEGRATORS, Tuned
from mjhmc_numba.warmup.recipe import RECIPE
from mjhmc_numba.warmup.trajectory import with_trajectory

__all__ = ["first_guess", "first_step", "not_given", "run_untuned", "target_accept"]

MOST_DOUBLINGS = 60  # by derivation: 2^60 = 1e18 is more than the ratio of any two sensible steps


def first_guess(settings: Settings, ndim: int) -> Tuned:
    """What a process can be made with before anything is known."""
    metric = settings.fixed_metric(ndim)
    return Tuned(
        step_size=settings.step_size or 0.5,
        num_steps=settings.num_steps or 1,
        refresh_rate=settings.refresh_rate or 1.0 / 16,
        draw_interval=settings.draw_interval or 8.0,
        refresh_alpha=settings.refresh_alpha or 0.0,
        integrator="leapfrog" if settings.integrator == "auto" else settings.integrator,
        metric=Metric.diagonal(np.ones(ndim)) if metric is None else metric,
        reparametrisation=settings.fixed_reparametrisation(ndim),
    )


def target_accept(settings: Settings, integrator: str) -> float:
    """The acceptance that the step size is tuned to."""
    if settings.target_accept is not None:
        return settings.target_accept
    has_stages = INTEGRATORS[integrator][0] > 1
    return RECIPE.target_accept_stages if has_stages else RECIPE.target_accept


def first_step(process: Process, settings: Settings, tuned: Tuned) -> float:
    """Double or halve until the energy error of one step crosses what the target allows.

    Its size counts, not its sign: a step that is much too long may well go downhill. Far out,
    where a step gains much log density, it may err by a share of the gain.
    """
    step, direction = tuned.step_size, 0
    wanted = -math.log(target_accept(settings, tuned.integrator))
    for _ in range(MOST_DOUBLINGS):
        errors, gains = process.probe(process.here, tuned.integrator, step)
        allowed = wanted + RECIPE.downhill_share * max(gains[0], 0.0)
        grow = 1 if abs(errors[0]) < allowed else -1
        if direction == 0:
            direction = grow
        elif grow != direction:
            break
        step *= 2.0**direction
    return step


def not_given(settings: Settings) -> tuple[str, ...]:
    """What a warm-up would find. A metric belongs to a step size: who gives that means units."""
    names = ("step_size", "num_steps", "refresh_rate", "draw_interval")
    missing = [name for name in names if getattr(settings, name) is None]
    if missing and isinstance(settings.metric, str):
        missing.append("metric")
    return tuple(missing)


def run_untuned(process: Process, settings: Settings) -> None:
    """Without a warm-up: a step size from where the chain starts, and a path for scales of 1.

    The step is half of what does there, as it may be steeper elsewhere. What the user gave is used
    as it is.
    """
    missing = not_given(settings)
    if not missing:
        return
    tuned = process.tuned.replace(not_learnt=missing)
    if settings.step_size is None:
        tuned = tuned.replace(step_size=0.5 * first_step(process, settings, tuned))
    process.configure(with_trajectory(tuned, settings, 1.0, RECIPE.largest_cap))
    process.restart()
