"""Everything a user may set."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.balancing import Balancing, resolve_rates
from mjhmc_numba.coordinates import Metric, Reparametrisation
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.kernel.layout import (
    CLOCK_POISSON,
    CLOCK_REGULAR,
    COMPETING,
    THINNING,
)
from mjhmc_numba.markup import card
from mjhmc_numba.tuned import INTEGRATORS

__all__ = ["PAPER", "Resolved", "Settings", "check_chain", "check_counts", "choose_settings"]


# For a tuned step size; 0.05 to 0.5 were tried. What these and the refinement are worth is measured
# in examples/benchmark/RESULTS.md ("What each ingredient is worth").
STEP_JITTER = 0.15
REFINE_LEVELS = 5  # halvings of a step: 32 times as many gradients, for a rung that is refined
REFINE_THRESHOLD = 8.0  # energy error; a move with it has probability exp(-8), 3e-4
LARGEST_LEVEL = 16  # halvings that can be asked for: 65,536 gradients in place of one

# The paper's process: sqrt rates, Poisson time, leapfrog, full refresh, no jitter.
PAPER: dict[str, Any] = {
    "rates": "sqrt",
    "clock": "poisson",
    "integrator": "leapfrog",
    "refresh_alpha": 0.0,
    "step_jitter": 0.0,
    "refine_levels": 0,
}


class Resolved(NamedTuple):
    """Settings that depend on which others were given, and on the integrator."""

    step_jitter: float
    refine_levels: int
    refine_threshold: float


@dataclass(frozen=True, eq=False)
class Settings:
    """A user's settings. What is None, and an integrator "auto", is found in the warm-up.

    Two settings are equal if their contents are, arrays included.

    Parameters
    ----------
    step_size : float, optional
        Length of an integrator step per gradient, in units of the metric.
    num_steps : int, optional
        Integrator steps M between two rungs of the ladder.
    refresh_rate : float, optional
        Momentum refreshes per unit of system time, the paper's beta.
    draw_interval : float, optional
        System time between two draws.
    integrator : {"auto", "leapfrog", "two_stage", "three_stage", "harmonic", "rotation"}
        The map L from one rung to the next. "auto" tries leapfrog, two stages and the harmonic one;
        the rotation, an independence proposal, where ripples hide the shape, as in the paper's
        rough well.
    rates : {"metropolis", "barker", "sqrt"} or callable
        The balancing function g(t) of the rates; "sqrt" is the paper's.
    rates_bound : float, optional
        The largest value of a balancing function given as a function.
    clock : {"regular", "poisson"}, optional
        "poisson" is the Markov jump process itself. By default regular where g is bounded.
    method : {"thinning", "competing"}, optional
        How the process is simulated. By default thinning where g is bounded.
    metric : {"low_rank", "diag"}, Metric or array_like
        A form to be tuned, or the metric; a vector is taken as variances, a matrix as a
        covariance.
    reparametrisation : {"auto", "none"} or Reparametrisation
        "auto" finds other coordinates where the scale of some dimensions depends on others, as in
        a hierarchy. With a given step size or metric "auto" is "none".
    refresh_alpha : float, optional
        Share of the momentum that a refresh keeps; 0 is a full refresh. By default 0 for a given
        refresh rate, else it is chosen with the path length.
    refresh_jitter : float
        Spread of the times between refreshes under the regular clock.
    step_jitter : float, optional
        Spread of the step size, drawn anew at each refresh. By default 0 for a given step size,
        which is used as given, else 0.15.
    target_accept : float, optional
        Acceptance statistic that the step size is tuned to.
    refine_levels : int, optional
        How many times the steps of a rung are halved where the energy error is large. By default
        0 for a given step size, else 5.
    refine_threshold : float, optional
        Energy error above which it is. By default 8, and never for the rotation.
    ess_per_draw : float
        Effective sample size per draw that the slowest dimension should have, as the end of the
        warm-up shows it. Where it has less, draws are made further apart. It is no efficiency that
        is bought by this, but fewer draws to keep.
    most_spacing : int
        The largest factor by which they are; 1 leaves draws a path apart.
    starts : int, optional
        Short runs from dispersed starts that a warm-up of at least 200 draws may begin with; the
        best is gone on with. 1 starts a chain once. By default as many as it takes until 3
        have burnt in, 6 at most.
    max_jumps, max_gradients : int
        A draw that costs more is cut short, counted and warned of.
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
    refresh_alpha: float | None = None
    refresh_jitter: float = 0.0
    step_jitter: float | None = None
    target_accept: float | None = None
    refine_levels: int | None = None
    refine_threshold: float | None = None
    ess_per_draw: float = 0.5
    most_spacing: int = 5
    starts: int | None = None
    # No draw that is worth its time takes so many: a second where a gradient takes 1 us.
    max_jumps: int = 100_000
    max_gradients: int = 1_000_000

    def __post_init__(self) -> None:
        positive = ("step_size", "refresh_rate", "draw_interval", "refine_threshold", "rates_bound")
        for name in positive:
            _check_positive(name, getattr(self, name))
        for name in ("most_spacing", "max_jumps", "max_gradients"):
            _check_whole(name, getattr(self, name))
        for name in ("num_steps", "starts"):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name))
        _check_range("refresh_jitter", self.refresh_jitter, 0.0, 1.0)
        _check_range("ess_per_draw", self.ess_per_draw, 0.0, 1.0)
        for name in ("refresh_alpha", "step_jitter"):
            if getattr(self, name) is not None:
                _check_range(name, getattr(self, name), 0.0, 1.0)
        if self.refine_levels is not None:
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
        if isinstance(self.reparametrisation, np.ndarray):
            raise SettingsError("reparametrisation is 'auto', 'none' or one, not an array.")
        if not isinstance(self.reparametrisation, Reparametrisation):
            _check_choice("reparametrisation", self.reparametrisation, ("auto", "none"))

    def _check_simulation(self) -> None:
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
    def paper(cls, **options: Any) -> Settings:
        """The paper's process: sqrt rates, Poisson time, leapfrog, full refresh, no jitter."""
        return cls.create(PAPER | options)

    def for_record(self) -> Settings:
        """The same for a run with a jump record, which needs all rates of leaving a state."""
        if self.clock == "regular":
            raise SettingsError("A jump record is one of the jump process: use clock='poisson'.")
        if self.method == "thinning":
            raise SettingsError("A jump record needs method='competing', which knows all rates.")
        return dataclasses.replace(self, clock="poisson", method="competing")

    def resolve(self, integrator: str) -> Resolved:
        """What was left to us, now that the integrator is known."""
        is_given = self.step_size is not None
        is_rotation = integrator == "rotation"
        return Resolved(
            step_jitter=_first(self.step_jitter, 0.0 if is_given else STEP_JITTER),
            refine_levels=_first(self.refine_levels, 0 if is_given else REFINE_LEVELS),
            # In smaller steps a rotation would go to the same place.
            refine_threshold=_first(
                self.refine_threshold, math.inf if is_rotation else REFINE_THRESHOLD
            ),
        )

    def _given(self) -> dict[str, str]:
        """What differs from the defaults; arrays by their class alone."""
        shown = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if _content(value) == _content(field.default):
                continue
            is_plain = isinstance(value, (str, bool, Integral, Real))
            shown[field.name] = repr(value) if is_plain else _kind(value)
        return shown

    def given(self) -> str:
        """What differs from the defaults, as keyword arguments; arrays by their class alone."""
        return ", ".join(f"{name}={value}" for name, value in self._given().items())

    def __repr__(self) -> str:
        return f"Settings({self.given()})"

    def _repr_html_(self) -> str:
        given = self._given()
        return card("Settings that differ from the default" if given else repr(self), given)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settings):
            return NotImplemented
        return _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash(_content(self))

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
            try:
                array = np.asarray(metric)
                if array.dtype.kind in "cb":  # NumPy would make numbers of them
                    raise TypeError(f"it has dtype {array.dtype}")
                array = array.astype(float)
            except (TypeError, ValueError) as error:
                raise SettingsError(f"metric is no array of numbers: {error}") from error
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


def check_chain(chain: Any, chains: int, seed: Any) -> None:
    """Raise unless a chain that is to run alone is one of them, and has a seed to share."""
    if chain is None:
        return
    if not _is_whole(chain) or chain not in range(chains):
        raise SettingsError(f"A chain is a whole number from 0 to {chains - 1}, not {chain!r}.")
    if seed is None:
        raise SettingsError("Chains that run apart need the same seed: give it.")


def choose_settings(settings: Settings | None, options: dict) -> Settings:
    """The settings given as an object, or made of keyword arguments."""
    if settings is not None and not isinstance(settings, Settings):
        raise SettingsError(f"settings is a Settings, not {type(settings).__name__}.")
    if settings is not None and options:
        raise SettingsError(f"Give settings= or {', '.join(options)}, not both.")
    return settings if settings is not None else Settings.create(options)


LARGEST_COUNT = 10**15  # counts are float64 in statistics, exact up to 2**53, 9e15


def check_counts(**counts: Any) -> None:
    """Raise unless all are whole numbers that make sense."""
    for name, value in counts.items():
        least = 0 if name == "tune" else 1
        if value is None and name == "cores":
            continue
        if not _is_whole(value) or value < least:
            raise SettingsError(f"{name} is a whole number >= {least}, not {value!r}.")
        if value > LARGEST_COUNT:
            raise SettingsError(f"{name} is beyond all machines: at most {LARGEST_COUNT:.0e}.")


def _first(given: Any, otherwise: Any) -> Any:
    return otherwise if given is None else given


def _content(value: Any) -> Any:
    """A value that can be compared and hashed: arrays and dataclasses of arrays by content."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = (_content(getattr(value, field.name)) for field in dataclasses.fields(value))
        return (type(value), *parts)
    if isinstance(value, (np.ndarray, list, tuple)):
        # A metric may be given as a list; 0.0 makes one of both zeros.
        array = np.asarray(value, dtype=float) + 0.0
        return (array.shape, array.tobytes())
    return value


def _kind(value: Any) -> str:
    return getattr(value, "__name__", type(value).__name__)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _check_positive(name: str, value: Any) -> None:
    if value is not None and not (_is_number(value) and 0 < value < np.inf):
        raise SettingsError(f"{name} must be positive and finite, not {value!r}.")


def _check_whole(name: str, value: Any) -> None:
    if not (_is_whole(value) and value >= 1):
        raise SettingsError(f"{name} is a whole number >= 1, not {value!r}.")
    if value > LARGEST_COUNT:  # the kernel counts in 64 bits
        raise SettingsError(f"{name} is beyond all machines: at most {LARGEST_COUNT:.0e}.")


def _check_levels(name: str, value: Any) -> None:
    if not (_is_whole(value) and 0 <= value <= LARGEST_LEVEL):
        raise SettingsError(f"{name} is a whole number from 0 to {LARGEST_LEVEL}, not {value!r}.")


def _check_range(name: str, value: Any, low: float, high: float) -> None:
    if not (_is_number(value) and low <= value < high):
        raise SettingsError(f"{name} lies in [{low:g}, {high:g}), not {value!r}.")


def _check_choice(name: str, value: Any, choices: Collection) -> None:
    if not (value is None or isinstance(value, str)) or value not in choices:
        named = ", ".join(repr(c) for c in choices if c is not None)
        raise SettingsError(f"{name}={value!r} is none of {named}.")
