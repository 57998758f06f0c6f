"""How far to go: integrator steps per rung, time between refreshes, time between draws."""

from __future__ import annotations

import math
from typing import NamedTuple

from mjhmc_numba.kernel.layout import STRAIGHT
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import INTEGRATORS, Tuned

__all__ = [
    "QUARTER_TURN",
    "Trajectory",
    "most_draws_per_refresh",
    "path_gradients",
    "plan",
    "plan_turn",
    "plan_turns",
    "straight",
    "with_trajectory",
]

# Chosen by trial on Gaussians and on the models of the benchmark. A path of a quarter period of the
# slowest direction, pi / 2, makes its end independent of its start there (on a Gaussian); with
# jittered lengths somewhat more does best.
LENGTH = 1.9  # whitened length between refreshes, in units of the slowest scale
FEWEST_RUNGS = 2.0  # between refreshes, at least
RUNGS = 6.0  # between refreshes, where the number of steps per rung allows it
MAX_RUNGS = 64.0  # between refreshes, at most
MAX_STEPS = 256  # integrator steps per rung, at most
# A path of so many gradients is worth one more draw: fast directions turn many times on it, and
# its ends tell little of how far they go.
LONG, VERY_LONG = 8.0, 32.0
# By derivation: on a Gaussian a rotation by it maps the momentum to the position, so that it ends
# independently of where it began.
QUARTER_TURN = math.pi / 2


class Trajectory(NamedTuple):
    """In system time; one unit is one rung."""

    num_steps: int
    refresh_rate: float
    draw_interval: float


def plan(
    step_size: float,
    stages: int,
    slowest: float,
    max_gradients: float,
    min_rungs: float = FEWEST_RUNGS,
    draws_per_refresh: float | None = None,
) -> Trajectory:
    """Rungs that divide the length between refreshes, which costs at most `max_gradients`.

    Parameters
    ----------
    step_size : float
        Length per gradient.
    stages : int
        Gradients per integrator step.
    slowest : float
        Standard deviation of the slowest whitened direction.
    max_gradients : float
        Most gradients between refreshes.
    min_rungs : float
        Fewest rungs between refreshes.
    draws_per_refresh : float, optional
        Draws in the time between refreshes; 1 by default, more on a long path.
    """
    length = min(LENGTH * slowest, max_gradients * step_size)
    num_steps = min(max(1, round(length / (RUNGS * step_size * stages))), MAX_STEPS)
    rungs = float(round(length / (num_steps * step_size * stages)))
    rungs = max(min(rungs, MAX_RUNGS), min_rungs)
    if draws_per_refresh is None:
        gradients = length / step_size
        draws_per_refresh = 1.0 + (gradients >= LONG) + (gradients >= VERY_LONG)
    return Trajectory(int(num_steps), 1.0 / rungs, rungs / draws_per_refresh)


def plan_turn(step_size: float) -> Trajectory:
    """For the harmonic integrator: refresh after about a quarter turn, a draw at each refresh."""
    rungs = float(max(1, round(QUARTER_TURN / step_size)))
    return Trajectory(1, 1.0 / rungs, rungs)


def plan_turns(step_size: float, turns: int) -> Trajectory:
    """For the rotation: a refresh after each quarter turn, a draw after several."""
    rungs = float(max(1, round(QUARTER_TURN / step_size)))
    return Trajectory(1, 1.0 / rungs, turns * rungs)


def with_trajectory(
    tuned: Tuned,
    settings: Settings,
    slowest: float,
    max_gradients: float,
    min_rungs: float = FEWEST_RUNGS,
    draws_per_refresh: float | None = None,
    turns: int = 1,
) -> Tuned:
    """With the path that suits its step size and integrator; what the user gave is left alone.

    Parameters
    ----------
    tuned : Tuned
        Its step size, integrator and metric count.
    settings : Settings
        The user's.
    slowest, max_gradients, min_rungs, draws_per_refresh
        See `plan`.
    turns : int
        Quarter turns per draw, for the rotation.
    """
    if tuned.integrator == "harmonic":
        path = plan_turn(tuned.step_size)
    elif tuned.integrator == "rotation":
        path = plan_turns(tuned.step_size, turns)
    else:
        path = plan(
            tuned.step_size, tuned.stages, slowest, max_gradients, min_rungs, draws_per_refresh
        )
    return tuned.replace(
        num_steps=settings.num_steps or path.num_steps,
        refresh_rate=settings.refresh_rate or path.refresh_rate,
        draw_interval=settings.draw_interval or path.draw_interval,
    )


def straight(tuned: Tuned) -> Tuned:
    """Leapfrog in the place of rotations about a Gaussian that is no longer the density's."""
    if INTEGRATORS[tuned.integrator][1] == STRAIGHT:
        return tuned
    path = plan(1.0, 1, 1.0, MAX_RUNGS)
    return tuned.replace(integrator="leapfrog", step_size=1.0, **path._asdict())


def path_gradients(step_size: float, slowest: float) -> float:
    """Gradients between two refreshes, if nothing bounds them."""
    return LENGTH * slowest / step_size


def most_draws_per_refresh(ndim: int) -> float:
    """Draws between refreshes in a warm-up that has no reason to be long.

    It learns from gradients too, so a few dozen refreshes suffice; more in many dimensions.
    Measured over 2 seeds: in 10 dimensions 8 of them spend 1,600 gradients of warm-up and 1 spends
    3,500, for the same efficiency afterwards; in 100 dimensions 8 leave a fifth of what 2 do.
    """
    return min(max(128.0 / ndim, 2.0), 8.0)
