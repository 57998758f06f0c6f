"""The constants of the warm-up."""

from __future__ import annotations

from dataclasses import dataclass

from mjhmc_numba.warmup.trajectory import QUARTER_TURN

__all__ = ["RECIPE", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """Constants of the warm-up, chosen by trial on the models of the benchmark."""

    target_accept: float = 0.75  # leapfrog
    target_accept_stages: float = 0.85  # two- and three-stage
    target_accept_harmonic: float = 0.85
    keep_share: float = 0.6  # of the draws so far that a metric is made from
    shortest_scale: float = 0.7  # that the slowest whitened direction is taken to have
    downhill_share: float = 0.05  # of the log density gained that the first steps may err by
    burn_in_windows: int = 4
    burn_in_rungs: float = 8.0  # between refreshes there, at least; a draw at each
    first_cap: float = 16.0  # gradients per refresh length in the first window
    multistart_from: int = 200  # draws of a warm-up in which several starts are tried
    cap_growth: float = 1.4  # factor per window
    largest_cap: float = 1024.0  # gradients per refresh length, at most
    draw_cap: int = 4000  # gradients at which a draw of the warm-up is cut short
    unrefined_share: float = 0.4  # rungs are not refined in this first part
    slow: float = 0.8  # correlation of draws one refresh apart from which a chain mixes slowly
    judged_by: int = 12  # draws of the final window, at least, that its settings are judged by
    other_scale: float = 3.0  # factor by which the slowest scale may change at the end
    angles: tuple = (QUARTER_TURN, 1.3)  # steps of the harmonic integrator that are tried
    shortest_angle: float = 1.25  # below it leapfrog does as well
    harmonic_accept: float = 0.9  # acceptance from which one is used
    harmonic_lost: float = 0.03  # if at most this share of the steps loses much energy
    lost_error: float = 1.5  # energy error that is much
    trials: int = 40  # draws from which integrators are tried
    unseen_share: float = 0.1  # of the draws, the newest, from which that is tried again
    trial_step: float = 0.9  # at this share of leapfrog's step size
    leapfrog_above: float = 0.65  # step size / slowest scale from which leapfrog is kept
    three_stage_below: float = 0.3  # step size / slowest scale
    longest_stages_step: float = 1.4  # length of a two- or three-stage step / slowest scale


RECIPE = Recipe()
