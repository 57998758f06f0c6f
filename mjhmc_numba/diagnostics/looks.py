"""Rules of one chain that need many draws.

They are asked after 500, 1000, 2000, 4000 ... of them, so that a chain which is watched while it
draws and does not know when it will end (the PyMC step) is told the same as one that is looked at
afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mjhmc_numba.convergence import least_effective, slowest_dimensions
from mjhmc_numba.diagnostics.rules import THE_CHAIN, Finding

__all__ = [
    "EnergySums",
    "first_draws",
    "is_look",
    "looks_until",
    "slow_dimensions",
    "slow_mixing",
    "stride_at",
]

SMALLEST_BFMI = 0.2  # Betancourt (2016): below 0.2-0.3 the energy explores slowly
# Refreshes per draw, of which the warm-up aims at one or more; with fewer, draws share an energy by
# design. It leaves room for clocks that ring at random: 500 of rate 1 make 450 once in 80 runs.
REFRESHED = 0.9

# Draws after which a chain is looked at: the first number, the second, and its doubles, of which
# as many draws are kept as the second says, evenly spaced. Looks at doubles cost as much in all as
# the last of them alone; the first comes in time to stop a run of the usual 1000 draws.
FIRST_LOOK, SECOND_LOOK = 500, 1000
# The first draws, of which all dimensions are looked at: so many, or as many as have this many
# numbers (4 MB), but no fewer than some. Then it is known which dimensions are slow.
ALL_DIMENSIONS, FIRST_NUMBERS, FEWEST_FIRST = 250, 1 << 19, 50
# Of its draws that a chain should be worth in independent ones. Less than is asked of all chains
# together: that of one is known less well, least of all from the few draws of the first look. Of
# 100 stationary series in ten dimensions worth 0.1 of their draws none is warned of, at 500, 1000
# or 2000; worth 0.05, 4 at 500 and 74 at 1000; worth 0.03, 35 and all.
CHAIN_SHARE, FIRST_SHARE = 0.04, 0.02
ENOUGH_INDEPENDENT = 100  # independent ones, of however many draws: PyMC's bar per chain


def is_look(n: int) -> bool:
    """Whether a chain is looked at after n draws."""
    looks, rest = divmod(n, SECOND_LOOK)
    return n == FIRST_LOOK or (rest == 0 and looks > 0 and looks & (looks - 1) == 0)


def looks_until(n: int) -> list[int]:
    """Numbers of draws, up to n, after which a chain is looked at."""
    looks = [FIRST_LOOK, SECOND_LOOK]
    while looks[-1] < n:
        looks.append(2 * looks[-1])
    return [look for look in looks if look <= n]


def stride_at(n: int) -> int:
    """From one draw that is kept to the next, after n of them."""
    return 1 << max(-(-n // SECOND_LOOK) - 1, 0).bit_length()


@dataclass
class EnergySums:
    """Sums over the energies of a chain's draws, from which follows how slowly they change."""

    draws: int = 0
    refreshes: float = 0.0
    first: float = 0.0
    last: float = 0.0
    total: float = 0.0  # of differences from the first
    squares: float = 0.0  # of these
    changes: float = 0.0  # squared, from draw to draw

    def add(self, energy: float, refreshes: float) -> None:
        """Take one draw in."""
        if self.draws == 0:
            self.first = self.last = energy
        self.draws += 1
        self.refreshes += refreshes
        self.total += energy - self.first
        self.squares += (energy - self.first) ** 2
        self.changes += (energy - self.last) ** 2
        self.last = energy

    @classmethod
    def of(cls, energy: np.ndarray, refreshes: np.ndarray) -> EnergySums:
        """Those of all draws of a chain."""
        off = energy - energy[0]
        changes = float(np.sum(np.diff(energy) ** 2))
        sums = float(off.sum()), float((off**2).sum()), changes
        ends = float(energy[0]), float(energy[-1])
        return cls(energy.size, float(refreshes.sum()), *ends, *sums)

    def finding(self) -> Finding | None:
        """Whether the energy changes little from refresh to refresh, next to its whole range."""
        variance = self.squares / self.draws - (self.total / self.draws) ** 2
        if self.refreshes <= REFRESHED * self.draws or not variance > 0:
            return None
        bfmi = self.changes / (self.draws - 1) / variance
        if not bfmi < SMALLEST_BFMI:
            return None
        return Finding(
            "energy",
            f"{THE_CHAIN} explores its energies slowly (E-BFMI {bfmi:.2g}): tails or the narrow "
            "end of a funnel are reached rarely, and variances may be wrong. Reparametrise the "
            "model.",
        )


def first_draws(ndim: int) -> int:
    """From how many draws the slow dimensions are chosen."""
    return min(ALL_DIMENSIONS, max(FIRST_NUMBERS // ndim, FEWEST_FIRST))


def slow_dimensions(draws: np.ndarray) -> np.ndarray:
    """Those that `slow_mixing` looks at, chosen from the first draws (n, d)."""
    return np.union1d(*slowest_dimensions(draws[None]))


def slow_mixing(kept: np.ndarray, n: int, labels: Sequence[str]) -> Finding | None:
    """Whether n draws are worth few independent ones.

    Parameters
    ----------
    kept : (m, k) array
        Some of the n draws, evenly spaced, in their slow dimensions.
    n : int
        Draws made.
    labels : sequence of str
        Names of these dimensions.
    """
    size, dimension = least_effective(np.ascontiguousarray(kept)[None])
    if size >= min((CHAIN_SHARE if n >= SECOND_LOOK else FIRST_SHARE) * n, ENOUGH_INDEPENDENT):
        return None
    return Finding(
        "mixing",
        f"{THE_CHAIN} mixes slowly: its first {n} draws are worth only {size:.0f} independent ones "
        f"in {labels[dimension]} or its square, and its variance may be wrong. Draw more, or "
        "reparametrise the model.",
    )
