"""As many draws as an error needs, and no more.

A run goes on in rounds. After each the sharpened Monte Carlo errors say how many draws are still
needed. Stopping when an estimated error is small enough gives intervals that cover as they should
when the error is small (Glynn and Whitt 1992).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.convergence import split_r_hat
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.estimates.checks import FEWEST_DRAWS_PER_CHAIN
from mjhmc_numba.estimates.estimate import estimate
from mjhmc_numba.estimates.functions import as_columns
from mjhmc_numba.estimates.table import Estimates
from mjhmc_numba.results import Round

__all__ = ["Refined", "Until", "refine"]

# Times the draws that the errors ask for: the square of one is known to a fifth from 50 batches of
# draws, sqrt(2 / 50).
CAREFUL = 1.2
MOST_GROWTH = 2.0  # of the number of draws in one round: at most twice what is needed is made
UNITS = ("sd", "absolute")

Quantities = Callable[[np.ndarray], Mapping[str, np.ndarray]]
More = Callable[[int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Until:
    """When a run has enough draws: the Monte Carlo errors of some means are small enough.

    Parameters
    ----------
    tolerance : float or mapping of str to float
        The largest error of the mean of each named quantity; or one number, for all of them.
    unit : {"sd", "absolute"}
        Whether errors are counted in standard deviations of the quantity, or as they are.
    most_draws : int
        Draws per chain after which a run ends in any case, with a warning.
    r_hat : float
        The largest split R-hat of the quantities with which an error counts.
    functions : mapping of str to callable, optional
        More quantities by name. `mjhmc_numba.sample` gives them the draws (chain, draw, d), PyMC's
        side the posterior as a Dataset; they return (chain, draw, ...).

    Examples
    --------
    >>> Until({"mu": 0.01}).unit
    'sd'
    """

    tolerance: float | Mapping[str, float]
    unit: str = "sd"
    most_draws: int = 10_000
    r_hat: float = 1.01
    functions: Mapping[str, Callable] | None = None

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise SettingsError(f"until: unit={self.unit!r} is unknown; choose one of {UNITS}.")
        if not self.r_hat > 1.0:
            raise SettingsError(f"until: r_hat is above 1, not {self.r_hat}.")
        for name, function in (self.functions or {}).items():
            if not callable(function):
                raise SettingsError(f"until: {name} is a function of the draws, which come later.")
        tolerances = self.tolerance
        if not isinstance(tolerances, Mapping):
            tolerances = {"all quantities": tolerances}
        elif lacking := [name for name in self.functions or {} if name not in tolerances]:
            raise SettingsError(f"until: say which error is small enough for {lacking[0]}.")
        if not tolerances:
            raise SettingsError("until: name at least one quantity.")
        for name, value in tolerances.items():
            if not (isinstance(value, int | float | np.number) and 0 < value < math.inf):
                raise SettingsError(f"until: the tolerance of {name} is positive, not {value!r}.")

    def check_draws(self, draws: int) -> None:
        """Raise unless the first round can have so many draws per chain."""
        if not FEWEST_DRAWS_PER_CHAIN <= draws <= self.most_draws:
            raise SettingsError(
                f"until: draws={draws} of the first round are not between "
                f"{FEWEST_DRAWS_PER_CHAIN} and most_draws={self.most_draws}."
            )

    @property
    def names(self) -> list[str] | None:
        """Of quantities that are no functions; None if they are all that there are."""
        if not isinstance(self.tolerance, Mapping):
            return None
        return [name for name in self.tolerance if name not in (self.functions or {})]

    def of(self, name: str) -> float:
        """The tolerance of a quantity."""
        if isinstance(self.tolerance, Mapping):
            return float(self.tolerance[name])
        return float(self.tolerance)

    def of_dimensions(self, dimensions: Sequence[str]) -> Quantities:
        """What to estimate of draws (chain, draw, d) whose dimensions have names; "x" stands for
        all of x[0], x[1] and so on.
        """
        wanted = list(dimensions) if self.names is None else self.names
        places: dict[str, Any] = {}
        for name in wanted:
            parts = [k for k, label in enumerate(dimensions) if label.startswith(f"{name}[")]
            if name not in dimensions and not parts:
                some = ", ".join(dimensions[:10])
                raise SettingsError(f"until: there is no quantity {name}; there are {some}.")
            places[name] = dimensions.index(name) if name in dimensions else parts
        functions = dict(self.functions or {})

        def quantities(draws: np.ndarray) -> dict[str, np.ndarray]:
            named = {name: draws[..., place] for name, place in places.items()}
            return named | {name: np.asarray(f(draws)) for name, f in functions.items()}

        return quantities

    def judge(self, values: Mapping[str, np.ndarray], found: Estimates) -> Round:
        """Where a run stands: the quantity whose error is largest, over its tolerance."""
        tolerance = np.concatenate(
            [np.full(int(np.prod(v.shape[2:])), self.of(name)) for name, v in values.items()]
        )
        error = found.mcse_mean
        if self.unit == "sd":
            error = error / np.where(found.sd > 0, found.sd, 1.0)
        error = np.where(np.isnan(error), np.inf, error)  # one that is not known is not small
        worst = int(np.argmax(error / tolerance))
        draws = next(iter(values.values())).shape[1]
        ratios = split_r_hat(as_columns(values, next(iter(values.values())), [])[0])
        ratios = np.where(np.isfinite(ratios), ratios, 1.0)  # of what does not vary
        slowest = int(np.argmax(ratios))
        return Round(
            draws,
            found.names[worst],
            float(error[worst]),
            float(tolerance[worst]),
            self.unit,
            float(ratios[slowest]),
            found.names[slowest],
        )

    def is_met(self, last: Round) -> bool:
        """Whether a run may end."""
        return last.error <= last.tolerance and last.r_hat <= self.r_hat

    def draws_after(self, last: Round, first: int) -> int:
        """Draws per chain that the next round is to end with."""
        growth = min(CAREFUL * (last.error / last.tolerance) ** 2, MOST_GROWTH)
        return min(max(math.ceil(last.draws * growth), last.draws + first), self.most_draws)


class Refined(NamedTuple):
    """What `refine` returns.

    Parameters
    ----------
    estimates : Estimates
        From all draws of the last round that was whole.
    rounds : list of Round
    is_met : bool
        False if the cap, or the end of the chains, came before the tolerance.
    trouble : str
        Why it is not, and what to do; empty if it is.
    """

    estimates: Estimates
    rounds: list[Round]
    is_met: bool
    trouble: str


def refine(
    draws: np.ndarray,
    grads: np.ndarray,
    until: Until,
    more: More,
    *,
    quantities: Quantities | None = None,
    report: Callable[[Round], None] | None = None,
    **options: Any,
) -> Refined:
    """Draw in rounds until the errors of means are below a tolerance.

    Parameters
    ----------
    draws, grads : (chain, draw, d) array
        The first round.
    until : Until
        When to end.
    more : callable
        n -> all draws and gradients, those so far and n more per chain; if there are fewer, it
        ends.
    quantities : callable, optional
        Draws (chain, draw, d) -> what `until` names, each (chain, draw, ...); by default the
        dimensions x[0], x[1] and so on.
    report : callable, optional
        Told of each round.
    **options
        See `estimate`.
    """
    first = wanted = draws.shape[1]
    until.check_draws(first)
    if quantities is None:
        quantities = until.of_dimensions([f"x[{j}]" for j in range(draws.shape[2])])
    rounds: list[Round] = []
    while True:
        values = quantities(draws)
        found = estimate(draws, grads, values, if_refused="plain", **options)
        rounds.append(until.judge(values, found))
        if report is not None:
            report(rounds[-1])
        is_met = until.is_met(rounds[-1])
        if is_met or wanted >= until.most_draws or not np.isfinite(found.mean).all():
            break
        wanted = until.draws_after(rounds[-1], first)
        draws, grads = more(wanted - rounds[-1].draws)
        if draws.shape[1] < wanted:
            break
    return Refined(found, rounds, is_met, "" if is_met else _trouble(until, rounds[-1], found))


def _trouble(until: Until, last: Round, found: Estimates) -> str:
    """What is not as it was asked for."""
    start = f"until: after {last.draws} draws per chain "
    note = found.notes.get(last.quantity)
    if note:
        return f"{start}the error of {last.quantity} is not known: {note}"
    if last.r_hat > until.r_hat:
        return (
            f"{start}R-hat of {last.r_hat_of} is {last.r_hat:.3f}, not {until.r_hat:g}: the chains "
            "have not converged, and no error counts. Raise most_draws, or look at what the "
            "chains disagree about."
        )
    return (
        f"{start}the Monte Carlo error of {last.quantity} is {last.shown_error}, not "
        f"{last.tolerance:g} as asked. Raise most_draws, or take a larger error."
    )
