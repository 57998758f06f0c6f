"""What a chain runs with once it is tuned: its coordinates and its motion."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

from mjhmc_numba.coordinates import Metric, Reparametrisation, Transform
from mjhmc_numba.kernel.layout import HARMONIC, ROTATION, STRAIGHT

__all__ = ["INTEGRATORS", "Starts", "Tuned", "WarmupWindow"]

# Gradients per step, and the motion between its kicks.
INTEGRATORS = {
    "leapfrog": (1, STRAIGHT),
    "two_stage": (2, STRAIGHT),
    "three_stage": (3, STRAIGHT),
    "harmonic": (1, HARMONIC),
    "rotation": (1, ROTATION),
}


class Starts(NamedTuple):
    """What the several starts of a chain have come to.

    Attributes
    ----------
    tried : int
        Number of starts.
    elsewhere : tuple of float
        For each that came to another region, with a gap of low density between the two, the
        logarithm of the mass there over that of the one that was kept; roughly.
    log_density, log_mass : float, optional
        Means over the end of the warm-up: of the log density, and of that in the coordinates in
        which the target should be standard normal; the same constant is missing from those of all
        chains. None where the warm-up was too short.
    """

    tried: int = 1
    elsewhere: tuple[float, ...] = ()
    log_density: float | None = None
    log_mass: float | None = None


ONE_START = Starts()


@dataclass(frozen=True, eq=False)
class Tuned:
    """What a chain runs with: frozen after the warm-up.

    Attributes
    ----------
    step_size : float
        Length of an integrator step per gradient, in units of the metric.
    num_steps : int
        Integrator steps M between two rungs of the ladder.
    refresh_rate : float
        Momentum refreshes per unit of system time.
    draw_interval : float
        System time between two draws.
    integrator : str
        A name of `INTEGRATORS`.
    refresh_alpha : float
        Share of the momentum that a refresh keeps.
    metric : Metric
        Of the coordinates of the reparametrisation, where there is one.
    converged : bool
        False if the last draws of the warm-up asked for another refresh rate.
    not_learnt : tuple of str
        Names of what the warm-up was too short for; they are guesses from where the chain started.
    reparametrisation : Reparametrisation or None
        None: the process runs in the coordinates of the density.
    starts : Starts
        What the several starts of the chain have come to.
    """

    step_size: float
    num_steps: int
    refresh_rate: float
    draw_interval: float
    integrator: str
    metric: Metric
    converged: bool = True
    not_learnt: tuple[str, ...] = ()
    reparametrisation: Reparametrisation | None = None
    refresh_alpha: float = 0.0
    starts: Starts = ONE_START

    @property
    def transform(self) -> Transform:
        """From coordinates in which the target should be standard normal to the density's."""
        return Transform(self.metric, self.reparametrisation)

    @property
    def gradients_per_draw(self) -> float:
        """About as many; a move that fails or goes back over known rungs costs fewer."""
        return self.draw_interval * self.num_steps * self.stages

    @property
    def path_length(self) -> float:
        """Length between two refreshes, in units of the metric; a unit of time is a rung."""
        return self.step_size * self.stages * self.num_steps / self.refresh_rate

    @property
    def stages(self) -> int:
        """Gradients of an integrator step."""
        return INTEGRATORS[self.integrator][0]

    def has_coordinates_of(self, other: Tuned) -> bool:
        """Whether both have the same metric and reparametrisation, not only equal ones."""
        is_same_metric = self.metric is other.metric
        return is_same_metric and self.reparametrisation is other.reparametrisation

    def replace(self, **changes: Any) -> Tuned:
        return dataclasses.replace(self, **changes)


class WarmupWindow(NamedTuple):
    """Some draws of a warm-up that were made with the same coordinates and motion.

    Parameters
    ----------
    draws : int
        Draws of the warm-up made by its end.
    gradients : int
        Gradients spent by its end.
    step_size : float
        At its end.
    path_length : float
        Length between two refreshes, in units of the metric.
    integrator : str
        A name of `INTEGRATORS`.
    metric_rank : int
        Directions of the metric beyond its diagonal.
    reparametrised : int
        Dimensions whose location or scale is taken out.
    log_density : float
        Median over its draws.
    acceptance_rate : float
        Mean over its draws; NaN where nothing was tried.
    """

    draws: int
    gradients: int
    step_size: float
    path_length: float
    integrator: str
    metric_rank: int
    reparametrised: int
    log_density: float
    acceptance_rate: float
