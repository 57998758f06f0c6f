"""How far to go: integrator steps a rung, time between refreshes, time between draws."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Trajectory", "plan"]

LENGTH = 2.2  # whitened length between refreshes, in units of the slowest scale
RUNGS = 6.0  # rungs between refreshes
MAX_RUNGS = 64.0
MAX_STEPS = 256
DRAWS_PER_REFRESH = 2.0


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
    min_rungs: float = 1.0,
) -> Trajectory:
    """Rungs that divide the length between refreshes, which costs at most `max_gradients`.

    Parameters
    ----------
    step_size : length per gradient
    stages : gradients per integrator step
    slowest : standard deviation of the slowest whitened direction
    max_gradients : bound on the gradients of a length
    min_rungs : at least so many rungs between refreshes
    """
    length = min(LENGTH * slowest, max_gradients * step_size)
    num_steps = min(max(1, round(length / (RUNGS * step_size * stages))), MAX_STEPS)
    rungs = length / (num_steps * step_size * stages)
    rungs = max(min(max(rungs, 1.0), MAX_RUNGS), min_rungs)
    return Trajectory(int(num_steps), 1.0 / rungs, rungs / DRAWS_PER_REFRESH)
