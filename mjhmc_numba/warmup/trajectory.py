r"""How far to go: integrator steps per rung, time between refreshes, time between draws.

On a Gaussian of standard deviation :math:`\sigma` a path of length :math:`\lambda` turns (x, v) by
the angle :math:`\varphi = \lambda / \sigma`, and a refresh keeps :math:`\alpha` of v. Draws at the
ends of paths then have the autocorrelation :math:`\rho_k = (A^k)_{11}`, their squares
:math:`\rho_k^2`, with

.. math:: A = \begin{pmatrix} \cos\varphi & \sin\varphi \\
                 -\alpha \sin\varphi & \alpha \cos\varphi \end{pmatrix}.

A long path costs gradients, a short one mixes slowly unless some momentum is kept; and the more of
it is kept, the better means are known and the worse squares. `ANGLE` and `ALPHA` make the effective
sizes of tail quantiles and of squares, per gradient, large together (their geometric mean), in the
worst of the directions that are 0.6 to 1 times as long as the slowest. That is flat: an angle
between 0.7 and 1.2 with its share loses less than a twentieth.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mjhmc_numba.kernel.layout import CLOCK_REGULAR, STRAIGHT
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import INTEGRATORS, Tuned

__all__ = [
    "QUARTER_TURN",
    "Trajectory",
    "momentum_kept",
    "most_draws_per_refresh",
    "plan",
    "plan_turn",
    "plan_turns",
    "straight",
    "with_trajectory",
]

ANGLE = 1.1  # of a path, in the slowest direction
# The share of the momentum that is kept after an angle, by the numbers of the last paragraph above:
# 0.6 after 0.7, 0.5 after 0.9, 0.4 after 1.0, 0.3 after 1.2, none from a quarter turn on.
ALPHA = 0.95, 0.55  # a - b angle
RUNGS = 6  # per path, where it has as many steps: a path that fails is left at one of them
MAX_STEPS = 256  # integrator steps per rung, at most
# By derivation: on a Gaussian a rotation by it maps the momentum to the position, so that it ends
# independently of where it began.
QUARTER_TURN = math.pi / 2


class Trajectory(NamedTuple):
    """In system time; one unit is one rung."""

    num_steps: int
    refresh_rate: float
    draw_interval: float
    refresh_alpha: float = 0.0


def momentum_kept(angle: float) -> float:
    """The share of the momentum that a refresh keeps after paths of an angle."""
    kept = ALPHA[0] - ALPHA[1] * angle
    return kept if kept > 0.1 else 0.0  # below that it is worth less than a flip to be resolved


def plan(
    step_size: float,
    stages: int,
    slowest: float,
    max_gradients: float = math.inf,
    min_rungs: int = 1,
    draws_per_path: float = 1.0,
) -> Trajectory:
    """Rungs that divide a path, which costs at most `max_gradients`.

    Parameters
    ----------
    step_size : float
        Length per gradient.
    stages : int
        Gradients per integrator step.
    slowest : float
        Standard deviation of the slowest whitened direction.
    max_gradients : float
        Most gradients per path.
    min_rungs : int
        Fewest rungs per path; then all momentum is drawn anew.
    draws_per_path : float
        Draws on the way, the last at its end; no more than there are rungs.
    """
    one = step_size * stages
    steps = max(min(ANGLE * slowest / one, max_gradients / stages), 1.0)
    num_steps = min(max(1, round(steps / RUNGS)), MAX_STEPS)
    rungs = max(round(steps / num_steps), 1, min_rungs)
    alpha = momentum_kept(rungs * num_steps * one / slowest) if min_rungs == 1 else 0.0
    return Trajectory(num_steps, 1.0 / rungs, rungs / min(draws_per_path, rungs), alpha)


def plan_turn(step_size: float) -> Trajectory:
    """For the harmonic integrator, which turns all directions by the same angle."""
    return plan(step_size, 1, 1.0)


def plan_turns(step_size: float, turns: int) -> Trajectory:
    """For the rotation: a refresh after each quarter turn, a draw after several."""
    rungs = float(max(1, round(QUARTER_TURN / step_size)))
    return Trajectory(1, 1.0 / rungs, turns * rungs)


def with_trajectory(
    tuned: Tuned,
    settings: Settings,
    slowest: float,
    max_gradients: float,
    min_rungs: int = 1,
    draws_per_path: float = 1.0,
    turns: int = 1,
) -> Tuned:
    """With the path that suits its step size and integrator; what the user gave is left alone.

    Parameters
    ----------
    tuned : Tuned
        Its step size, integrator and metric count.
    settings : Settings
        The user's.
    slowest, max_gradients, min_rungs, draws_per_path
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
            tuned.step_size, tuned.stages, slowest, max_gradients, min_rungs, draws_per_path
        )
    return tuned.replace(
        num_steps=settings.num_steps or path.num_steps,
        refresh_rate=settings.refresh_rate or path.refresh_rate,
        draw_interval=settings.draw_interval or path.draw_interval,
        refresh_alpha=_alpha(settings, path),
    )


def _alpha(settings: Settings, path: Trajectory) -> float:
    """The user's; else the path's, which is made for its length and for regular refreshes."""
    if settings.refresh_alpha is not None:
        return settings.refresh_alpha
    is_ours = settings.refresh_rate is None and settings.num_steps is None
    return path.refresh_alpha if is_ours and settings.clock_code == CLOCK_REGULAR else 0.0


def straight(tuned: Tuned) -> Tuned:
    """Leapfrog in the place of rotations about a Gaussian that is no longer the density's."""
    if INTEGRATORS[tuned.integrator][1] == STRAIGHT:
        return tuned
    return tuned.replace(integrator="leapfrog", step_size=1.0, **plan(1.0, 1, 1.0)._asdict())


def most_draws_per_refresh(ndim: int) -> float:
    """Draws between refreshes in a warm-up that has no reason to be long.

    It learns from gradients too, so a few dozen refreshes suffice; more in many dimensions, where a
    draw is the end of a path. Where draws a path apart are still alike it is halved.
    """
    return min(max(64.0 / ndim, 1.0), 4.0)
