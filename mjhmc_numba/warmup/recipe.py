"""The constants of the warm-up."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RECIPE", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """Constants of the warm-up, chosen by trial on the models of the benchmark."""

    target_accept: float = 0.8  # leapfrog and harmonic
    target_accept_stages: float = 0.9  # two- and three-stage
    keep_share: float = 0.6  # of the draws so far that a metric is made from
    shortest_scale: float = 0.7  # that the slowest whitened direction is taken to have
    downhill_share: float = 0.05  # of the log density gained that the first steps may err by
    burn_in_windows: int = 2
    burn_in_rungs: int = 4  # between refreshes there, at least; a draw at each
    first_cap: float = 16.0  # gradients per refresh length in the first window
    multistart_from: int = 200  # draws of a warm-up in which several starts are tried
    cap_growth: float = 2.0  # factor per window
    largest_cap: float = 1024.0  # gradients per refresh length, at most
    draw_cap: int = 4000  # gradients at which a draw of the warm-up is cut short
    slow: float = 0.8  # correlation of draws one refresh apart from which a chain mixes slowly
    unrefined_share: float = 0.4  # rungs are not refined in this first part
    judged_by: int = 12  # draws of the final window, at least, that its settings are judged by
    other_scale: float = 3.0  # factor by which the slowest scale may change at the end


RECIPE = Recipe()
