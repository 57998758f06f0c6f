"""Integrators tried by single steps from draws of the warm-up."""

from __future__ import annotations

import math

import numpy as np

from mjhmc_numba.coordinates import Draws
from mjhmc_numba.process import Process
from mjhmc_numba.tuned import Tuned
from mjhmc_numba.warmup.recipe import RECIPE

__all__ = ["try_harmonic", "try_stages"]


def try_harmonic(
    process: Process, tuned: Tuned, draws: Draws, target_accept: float | None = None
) -> Tuned | None:
    """The harmonic integrator at the longest angle that is accepted, if that is far.

    A user who asks for a larger acceptance than it must have gets that.
    """
    process.configure(tuned)
    wanted = max(RECIPE.harmonic_accept, target_accept or 0.0)
    for angle in RECIPE.angles:
        errors = np.array([process.probe(one, "harmonic", angle)[0] for one in draws.one_by_one()])
        accepted = np.exp(-np.maximum(errors, 0.0)).mean()
        lost = np.mean(errors > RECIPE.lost_error)
        if accepted >= wanted and lost <= RECIPE.harmonic_lost:
            return tuned.replace(integrator="harmonic", step_size=angle)
    return None


def try_stages(process: Process, tuned: Tuned, draws: Draws, slowest: float) -> Tuned:
    """Leapfrog, or a two- or three-stage integrator where steps are short and it accepts
    more at (nearly) the same length per gradient.
    """
    step = tuned.step_size
    process.configure(tuned)
    ratio, trial = step / slowest, RECIPE.trial_step * step
    if ratio > RECIPE.leapfrog_above:
        return tuned.replace(integrator="leapfrog")
    leapfrog = _accepts(process, draws, "leapfrog", trial)
    two_stage = _accepts(process, draws, "two_stage", trial, RECIPE.target_accept_stages)
    if two_stage <= leapfrog:
        return tuned.replace(integrator="leapfrog")
    if ratio > RECIPE.three_stage_below:
        return tuned.replace(integrator="two_stage")
    three_stage = _accepts(process, draws, "three_stage", trial)
    best = "three_stage" if three_stage > two_stage else "two_stage"
    return tuned.replace(integrator=best)


def _accepts(
    process: Process, draws: Draws, integrator: str, step: float, least: float = 0.0
) -> float:
    """Mean acceptance of one step from the draws; 0 as soon as it must be below `least`."""
    points = draws.one_by_one()
    total, left = 0.0, len(points)
    for point in points:
        error, _ = process.probe(point, integrator, step)
        total += math.exp(-max(error, 0.0))
        left -= 1
        if total + left < least * len(points):
            return 0.0
    return total / len(points)
