"""The step size, by dual averaging (Nesterov 2009; Hoffman and Gelman 2014, section 3.2).

The statistic is the acceptance of a step ahead, averaged over system time: the kernel reports it
that way, because a jump process visits unlikely states often and leaves them at once, so that an
average over jumps would say too little.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["DualAveraging", "final", "init", "update"]

GAMMA = 0.15  # Stan has 0.05: here a chain makes fewer, better informed updates
T0 = 10.0
KAPPA = 0.75


class DualAveraging(NamedTuple):
    """State of the tuner, in logarithms of the step size."""

    log_step: float  # to be tried next
    log_average: float  # the average that is read off in the end
    deficit: float  # running mean of target - acceptance
    updates: int
    log_centre: float  # where the iterates are drawn to


def init(step_size: float) -> DualAveraging:
    """Start, or start again, from a step size."""
    log_step = math.log(step_size)
    return DualAveraging(log_step, log_step, 0.0, 0, log_step)


def update(state: DualAveraging, acceptance: float, target: float) -> DualAveraging:
    """Take in one acceptance statistic."""
    count = state.updates + 1
    eta = 1.0 / (count + T0)
    deficit = (1.0 - eta) * state.deficit + eta * (target - acceptance)
    log_step = state.log_centre - math.sqrt(count) / GAMMA * deficit
    weight = count**-KAPPA
    log_average = weight * log_step + (1.0 - weight) * state.log_average
    return DualAveraging(log_step, log_average, deficit, count, state.log_centre)


def final(state: DualAveraging) -> float:
    """The step size to freeze."""
    return math.exp(state.log_average)
