"""Everything a user may set."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np

from mjhmc_numba.balancing import Balancing, resolve_rates
from mjhmc_numba.coordinates import Metric, Reparametrisation
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.kernel.layout import (
    CLOCK_POISSON,
    CLOCK_REGULAR,
    COMPETING,
    STRAIGHT,
    THINNING,
)
from mjhmc_numba.tuned import INTEGRATORS

__all__ = ["Settings"]

# For a tuned step size.
STEP_JITTER = 0.15
REFRESH_JITTER = 0.3
REFINE_LEVELS = 5
LARGEST_LEVEL = 16
REFINE_THRESHOLD = 8.0


@dataclass(frozen=True)
class Settings:
    """A user's settings. What is None, and an integrator "auto", is found in the warm-up.

    Parameters
    ----------
    step_size : length of an integrator step per gradient, in units of the metric
    num_steps : integrator steps M between two rungs of the ladder
    refresh_rate : momentum refreshes per unit of system time, the paper's beta
    draw_interval : system time between two draws
    integrator : "auto", "leapfrog", "two_stage", "three_stage", "harmonic" or "rotation"
    rates : "metropolis", "barker", "sqrt" (the paper's), or a balancing function g(t)
    rates_bound : the largest value of a balancing function given as a function
    clock : "regular", or "poisson", the Markov jump process itself; None: regular where g is
        bounded
    method : "thinning" or "competing"; None: thinning where it can be done
    metric : "low_rank", "diag", or a `Metric`; a vector is taken as variances, a matrix as a
        covariance
    reparametrisation : "auto": other coordinates where the scale of some dimensions depends on
        others, as in a hierarchy; "none"; or a `Reparametrisation`. With a given step size or
        metric "auto" is "none"
    refresh_alpha : share of the momentum that a refresh keeps; 0 is a full refresh
    refresh_jitter : spread of the times between refreshes under the regular clock; None: 0 for a
        given refresh rate and for rotations, whose angle is chosen, else 0.3: where all paths
        are half a turn long in some direction, squares in it hardly change
    step_jitter : spread of the step size, drawn anew at each refresh; None: 0 for a given step
        size, which is used as given, else 0.15
    target_accept : acceptance statistic that the step size is tuned to; None: the tuner's choice
    refine_levels : how many times a rung is halved where the energy error is large; None: 0
        for a given step size, else 5
    refine_threshold : energy error above which it is; None: 8, never for the rotation
    max_jumps, max_gradients : a draw that costs more is cut short, counted and warned of
    """

    step_size: float | None = None
    num_steps: int | None = None
    refresh_rate: float | None = None
    draw_interval: float | None = None
    integrator: str = "auto"
    rates: str | Callable = "metropolis"
    rates_bound: float | None = None
    clock: str | None = None
    method: str | None = None
    metric: Any = "low_rank"
    reparametrisation: Any = "auto"
    refresh_alpha: float = 0.0
    refresh_jitter: float | None = None
    step_jitter: float | None = None
    target_accept: float | None = None
    refine_levels: int | None = None
    refine_threshold: float | None = None
    max_jumps: int = 100_000
    max_gradients: int = 1_000_000

    def __post_init__(self):
        given = self.step_size is not None
        if self.step_jitter is None:
            object.__setattr__(self, "step_jitter", 0.0 if given else STEP_JITTER)
        if self.refresh_jitter is None and self.refresh_rate is not None:
            object.__setattr__(self, "refresh_jitter", 0.0)
        if self.refine_levels is None:
            object.__setattr__(self, "refine_levels", 0 if given else REFINE_LEVELS)
        positive = ("step_size", "refresh_rate", "draw_interval", "refine_threshold", "rates_bound")
        for name in positive:
            _check_positive(name, getattr(self, name))
        for name in ("num_steps", "max_jumps", "max_gradients"):
            _check_whole(name, getattr(self, name))
        _check_range("refresh_alpha", self.refresh_alpha, 0.0, 1.0)
        if self.refresh_jitter is not None:
            _check_range("refresh_jitter", self.refresh_jitter, 0.0, 1.0)
        _check_range("step_jitter", self.step_jitter, 0.0, 1.0)
        _check_levels("refine_levels", self.refine_levels)
        if self.target_accept is not None:
            _check_positive("target_accept", self.target_accept)
            _check_range("target_accept", self.target_accept, 0.0, 1.0)
        _check_choice("integrator", self.integrator, ("auto", *INTEGRATORS))
        _check_choice("clock", self.clock, (None, "regular", "poisson"))
        _check_choice("method", self.method, (None, "thinning", "competing"))
        self._check_simulation()
        if isinstance(self.metric, str):
            _check_choice("metric", self.metric, ("low_rank", "diag"))
        if not isinstance(self.reparametrisation, Reparametrisation):
            _check_choice("reparametrisation", self.reparametrisation, ("auto", "none"))

    def _check_simulation(self):
        bounded = np.isfinite(self.balancing.bound)
        if not bounded and self.clock == "regular":
            raise SettingsError(
                f"clock='regular' needs bounded rates; with rates={self.rates!r} use "
                "clock='poisson', or rates='metropolis' or 'barker'."
            )
        if not bounded and self.method == "thinning":
            raise SettingsError(f"Thinning needs bounded rates, and rates={self.rates!r} are not.")
        if self.method == "competing" and self.clock == "regular":
            raise SettingsError("Competing exponentials have a Poisson clock; leave out clock=.")

    @classmethod
    def create(cls, options: dict) -> Settings:
        """Settings from keyword arguments; an unknown one raises and names its neighbours."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in options:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(known)}."
                raise SettingsError(f"Unknown setting {name!r}.{hint}")
        return cls(**options)

    @classmethod
    def paper(cls, **options) -> Settings:
        """The paper's process: sqrt rates, Poisson time, leapfrog, full refresh, no jitter."""
        fixed = {
            "rates": "sqrt",
            "clock": "poisson",
            "integrator": "leapfrog",
            "refresh_alpha": 0.0,
            "step_jitter": 0.0,
            "refine_levels": 0,
        }
        return cls.create(fixed | options)

    def refresh_jitter_of(self, integrator: str) -> float:
        """The spread of path lengths with this integrator."""
        if self.refresh_jitter is not None:
            return self.refresh_jitter
        return REFRESH_JITTER if INTEGRATORS[integrator][1] == STRAIGHT else 0.0

    def refine_threshold_of(self, integrator: str) -> float:
        """The energy error from which a rung of this integrator is refined."""
        if self.refine_threshold is not None:
            return self.refine_threshold
        # In smaller steps a rotation would go to the same place.
        return math.inf if integrator == "rotation" else REFINE_THRESHOLD

    @cached_property
    def balancing(self) -> Balancing:
        return resolve_rates(self.rates, self.rates_bound)

    def __getstate__(self) -> dict:
        # The address of a compiled balancing function means nothing in another process.
        return {name: value for name, value in self.__dict__.items() if name != "balancing"}

    @property
    def clock_code(self) -> int:
        if self.clock is None:
            regular = np.isfinite(self.balancing.bound) and self.method != "competing"
            return CLOCK_REGULAR if regular else CLOCK_POISSON
        return CLOCK_REGULAR if self.clock == "regular" else CLOCK_POISSON

    @property
    def method_code(self) -> int:
        if self.method is None:
            return THINNING if np.isfinite(self.balancing.bound) else COMPETING
        return THINNING if self.method == "thinning" else COMPETING

    def fixed_metric(self, ndim: int) -> Metric | None:
        """The metric that the user gave, or None where it is to be tuned."""
        if isinstance(self.metric, str):
            return None
        metric = self.metric
        if not isinstance(metric, Metric):
            array = np.asarray(metric, dtype=float)
            metric = Metric.dense(array) if array.ndim == 2 else Metric.diagonal(array)
        if metric.ndim != ndim:
            raise SettingsError(f"The metric has {metric.ndim} dimensions, the density {ndim}.")
        return metric

    def fixed_reparametrisation(self, ndim: int) -> Reparametrisation | None:
        """The reparametrisation that the user gave, or None."""
        if not isinstance(self.reparametrisation, Reparametrisation):
            return None
        self.reparametrisation.check(ndim)
        return self.reparametrisation


def _is_number(value: Any) -> bool:
    return isinstance(value, Real)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral)


def _check_positive(name, value):
    if value is not None and not (_is_number(value) and 0 < value < np.inf):
        raise SettingsError(f"{name} must be positive and finite, not {value!r}.")


def _check_whole(name, value):
    if value is not None and not (_is_whole(value) and value >= 1):
        raise SettingsError(f"{name} is a whole number >= 1, not {value!r}.")


def _check_levels(name, value):
    if not (_is_whole(value) and 0 <= value <= LARGEST_LEVEL):
        raise SettingsError(f"{name} is a whole number from 0 to {LARGEST_LEVEL}, not {value!r}.")


def _check_range(name, value, low, high):
    if not (_is_number(value) and low <= value < high):
        raise SettingsError(f"{name} lies in [{low:g}, {high:g}), not {value!r}.")


def _check_choice(name, value, choices):
    if value not in choices:
        named = ", ".join(repr(c) for c in choices if c is not None)
        raise SettingsError(f"{name}={value!r} is none of {named}.")
