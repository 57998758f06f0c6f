"""Where chains start: what users give, a finite point near it, the best of several starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mjhmc_numba.coordinates import Draws
from mjhmc_numba.density import Target
from mjhmc_numba.errors import InitialPointError, SettingsError, TargetError
from mjhmc_numba.gradient_check import GRADIENTS_TAKEN, check_gradient

__all__ = [
    "STARTS_TAKE",
    "STARTS_TAKE_WINDOWS",
    "Multistart",
    "Region",
    "check_first_start",
    "end_level",
    "far_below",
    "find_start",
    "first_finite",
    "given_starts",
    "has_burnt_in",
    "is_finite",
    "log_mass",
    "regions",
    "too_far",
]

TRIES = 100  # as many as Stan makes
SPREAD = 2.0  # a random start is uniform in (-SPREAD, SPREAD), as in Stan
LEAST_SPREAD = 1.0  # at least so far from a given start others may be: PyMC's jitter


class Region(NamedTuple):
    """Where chains start: uniform within `spread` of `centre` in each dimension; 0 is a point."""

    centre: np.ndarray
    spread: float

    @classmethod
    def anywhere(cls, ndim: int) -> Region:
        """For chains of which nothing is said."""
        return cls(np.zeros(ndim), SPREAD)

    @property
    def widened(self) -> Region:
        """Where other starts are looked for: some way around it at least."""
        return Region(self.centre, max(self.spread, LEAST_SPREAD))

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return self.centre + rng.uniform(-self.spread, self.spread, self.centre.size)


def given_starts(initial, ndim: int | None, chains: int) -> tuple[np.ndarray | None, int | None]:
    """Starts (chains, d) if the user gave any, and the number of dimensions if it is known."""
    if initial is None:
        return None, ndim
    given = np.asanyarray(initial) if isinstance(initial, np.ndarray) else initial
    if np.ma.is_masked(given):
        raise TargetError("initial is masked: a chain has to start somewhere in every dimension.")
    if getattr(given, "dtype", np.dtype(float)).kind in "bc":
        raise TargetError(f"initial has dtype {given.dtype}; real numbers only.")
    try:
        start = np.array(initial, dtype=float)
    except (TypeError, ValueError) as error:
        raise TargetError(f"initial is no array of numbers: {error}") from error
    if start.ndim not in (1, 2) or start.shape[-1] == 0:
        raise TargetError(f"initial has shape (d,) or (chains, d), not {start.shape}.")
    if start.ndim == 2 and len(start) != chains:
        raise TargetError(f"initial has {len(start)} rows for {chains} chains.")
    if ndim is not None and start.shape[-1] != ndim:
        raise TargetError(f"initial has {start.shape[-1]} dimensions, but ndim={ndim}.")
    return np.broadcast_to(start, (chains, start.shape[-1])), start.shape[-1]


def regions(starts: np.ndarray | None, spread: float, ndim: int, chains: int) -> list[Region]:
    """Where each chain starts, from what the user gave."""
    if not (isinstance(spread, (int, float, np.number)) and 0 <= spread < math.inf):
        raise SettingsError(f"spread is a distance, not {spread!r}.")
    if starts is None:
        if spread > 0:
            raise SettingsError("spread is the distance of starts from initial=; give that too.")
        return [Region.anywhere(ndim)] * chains
    if starts.shape[1] != ndim:
        raise TargetError(f"initial has {starts.shape[1]} dimensions, the density {ndim}.")
    return [Region(np.array(start), float(spread)) for start in starts]


# A warm-up computes fourth powers of distances: those of larger ones are infinite, or their sums.
FARTHEST_START = 1e75


def is_finite(target: Target, x: np.ndarray) -> bool:
    """Whether density and gradient are finite at x, and x is not too far away."""
    logp, grad = target.logp_and_grad(x)
    return bool(np.isfinite(logp) and np.isfinite(grad).all()) and too_far(x, target.names) is None


def too_far(x: np.ndarray, names: Sequence[str]) -> str | None:
    """What to say of a point where numbers are too large to go on from."""
    far = np.flatnonzero(~(np.abs(x) <= FARTHEST_START))
    if not far.size:
        return None
    named = ", ".join(f"{names[j]} is {x[j]:g}" for j in far[:5])
    return (
        f"The initial point is too far away: {named}. Squares of squares are computed on the way, "
        f"and of numbers beyond {FARTHEST_START:g} they are infinite. Measure it in a larger unit."
    )


def first_finite(
    target: Target, region: Region, rng: np.random.Generator, tries: int
) -> tuple[np.ndarray, bool, int]:
    """Draw points of a region up to the first with a finite density and gradient.

    Returns
    -------
    x : (d,) array
        The last point that was drawn.
    is_found : bool
        Whether it is the one.
    tried : int
        Gradients spent.
    """
    for tried in range(1, tries + 1):
        x = region.draw(rng)
        if is_finite(target, x):
            return x, True, tried
    return x, False, tries


def find_start(target: Target, region: Region, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """A point with a finite density and gradient, and the number of gradients that it took."""
    x, is_found, tried = first_finite(target, region, rng, TRIES if region.spread > 0 else 1)
    if not is_found:
        raise InitialPointError(_complaint(target, region, x, *target.logp_and_grad(x)))
    return x, tried


def _complaint(target, region, x, logp, grad) -> str:
    if not np.isfinite(x).all():
        bad = np.flatnonzero(~np.isfinite(x))
        named = ", ".join(f"{target.names[j]} is {x[j]}" for j in bad[:5])
        return f"The initial point is not finite: {named}."
    far = too_far(x, target.names)
    if far is not None:
        return far
    if not np.isfinite(logp):
        what = f"the log density is {logp}"
    else:
        bad = np.flatnonzero(~np.isfinite(grad))
        named = ", ".join(f"{target.names[j]} ({grad[j]})" for j in bad[:5])
        what = f"the log density is {logp:.6g} but its gradient is not finite in {named}"
    where = np.array2string(x, threshold=12, precision=4)
    if region.spread > 0:
        around = f"in (-{SPREAD:g}, {SPREAD:g})"
        advice = "Give a point inside the support with initial=."
        if region.spread != SPREAD or region.centre.any():
            around = f"within {region.spread:g} of initial"
            advice = "Lower spread=, or give a point further inside the support."
        return (
            f"No start was found: at {TRIES} random points {around} the density or its gradient "
            f"is not finite; at the last one, {where}, {what}. {advice}"
        )
    return f"At the initial point {where} {what}. Give a point inside the support with initial=."


def check_first_start(target: Target, region: Region, seed: np.random.SeedSequence) -> int:
    """Check the gradient at a point where a chain may start; returns the gradients spent."""
    rng = np.random.default_rng(seed)
    x, tries = find_start(target, region, rng)
    check_gradient(target, x, rng)
    return tries + GRADIENTS_TAKEN


# ------------------------------------------------------------------------- several starts
#
# Where a chain burns in may decide on the mode it stays in. So short runs from dispersed starts are
# compared, once they have burnt in, by the mass that is where they have come to.

# Runs that burnt in. One in three ends on a plateau of lotka_volterra. With three instead of four,
# and shorter paths in them, a warm-up takes 7 % fewer gradients and has more draws left where it
# stays: 1.15 times the efficiency on five posteriors, 5 seeds each.
ENOUGH_RUNS = 3
MOST_STARTS = 6  # three that do not burn in may be replaced
STARTS_TRIED = 5  # to find another start; where density is missing at half of them, one in 32 fails
STARTS_TAKE_WINDOWS = 3  # of the warm-up, at most: a run ends where it has burnt in
STARTS_TAKE = 1 / 3  # of the warm-up, all together: a bound on their cost
JUDGED_BY = 4  # draws at the end of a run; their mean is known to half a standard deviation


def far_below(ndim: int) -> float:
    """A difference of log densities that draws of one mode do not show: 10, and 10 standard
    deviations of half a chi-square with as many degrees.
    """
    return 10 + 10 * math.sqrt(0.5 * ndim)


def end_level(draws: Draws) -> float:
    """The log density where a run has led to."""
    return float(draws.logp[-JUDGED_BY:].mean())


def has_burnt_in(draws: Draws) -> bool:
    """Whether the log density at the end of a run no longer rises by more than one mode shows."""
    rise = end_level(draws) - draws.logp[-2 * JUDGED_BY : -JUDGED_BY].mean()
    return bool(rise < far_below(draws.x.shape[1]) / 2)


def log_mass(draws: Draws) -> float:
    """The log density where a run has led to, and the log volume of what is around.

    The volume is that of the scales which the draws and gradients of its second half tell (see
    warmup/metric.py).
    """
    half = slice(len(draws.x) // 2, None)
    spread, steepness = draws.x[half].var(axis=0), draws.grad[half].var(axis=0)
    tells = (spread > 0) & (steepness > 0)
    volume = 0.25 * np.sum(np.log(spread[tells]) - np.log(steepness[tells]))
    return end_level(draws) + float(volume)


@dataclass
class Multistart:
    """The runs so far from starts in one region, and whether there should be more.

    Parameters
    ----------
    region : Region
        Of the starts.
    most : int
        Runs to try.
    most_draws : float
        Draws that they may take together.
    tried : list of Draws
        Each run so far.
    """

    region: Region
    most: int = MOST_STARTS
    most_draws: float = math.inf
    tried: list[Draws] = field(default_factory=list)

    @property
    def _ndim(self) -> int:
        return self.region.centre.size

    @property
    def draws(self) -> int:
        """That all runs have made."""
        return sum(len(run.x) for run in self.tried)

    def add(self, run: Draws) -> None:
        self.tried.append(run)

    @property
    def enough(self) -> bool:
        """If enough have burnt in, or there is no room for more.

        That two end alike would not tell: a minor mode may well be met twice.
        """
        another = self.draws + len(self.tried[-1].x)
        is_full = len(self.tried) >= self.most or another > self.most_draws
        return is_full or len(self._burnt_in) >= ENOUGH_RUNS

    @property
    def _burnt_in(self) -> list[Draws]:
        return [run for run in self.tried if has_burnt_in(run)]

    @property
    def best(self) -> Draws:
        """The first of those with the most mass; where none has burnt in, the highest."""
        runs = self._burnt_in
        top = max(map(end_level, self.tried))
        if not runs or top - max(map(end_level, runs)) > far_below(self._ndim):
            runs = self.tried
        most, another_mode = max(map(log_mass, runs)), far_below(self._ndim) / 2
        return next(run for run in runs if most - log_mass(run) < another_mode)

    def elsewhere(self, evaluate: Callable[[np.ndarray], Draws]) -> list[tuple[float, np.ndarray]]:
        """For each that came to another region, with a gap of low density between the two: the
        logarithm of the mass there over that of the best, roughly, and where it ended. Takes a
        gradient per run.
        """
        best, gap = self.best, far_below(self._ndim) / 2
        found = []
        for run in self._burnt_in:
            if run is best:
                continue
            between = float(evaluate((best.x[-1] + run.x[-1]) / 2).logp)
            if not between > min(end_level(best), end_level(run)) - gap:
                found.append((log_mass(run) - log_mass(best), run.x[-1].copy()))
        return found

    def another_start(
        self,
        rng: np.random.Generator,
        evaluate: Callable[[np.ndarray], Draws],
        otherwise: np.ndarray,
    ) -> np.ndarray:
        """A point of the region where the density is finite.

        Parameters
        ----------
        rng : numpy.random.Generator
            Draws the points.
        evaluate : callable
            The `Draws` of a point.
        otherwise : (d,) array
            Where to start if none is found.
        """
        for _ in range(STARTS_TRIED):
            x = self.region.draw(rng)
            draw = evaluate(x)
            if math.isfinite(draw.logp) and np.isfinite(draw.grad).all():
                return x
        return otherwise
