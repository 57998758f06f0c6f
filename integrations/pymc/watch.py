"""What a chain has to tell when something is wrong with it: each thing once, with advice."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from pymc.stats.convergence import WarningType

from mjhmc_numba.convergence import least_effective, slowest_dimensions
from mjhmc_numba.diagnostics import STUCK_STAY
from mjhmc_numba.pymc.layout import Layout
from mjhmc_numba.saving import GIVEN
from mjhmc_numba.settings import Tuned
from mjhmc_numba.stats import COLUMN

__all__ = ["Watch"]

LOW_ACCEPTANCE = 0.5
ACCEPTANCE_DRAWS = 200  # after tuning, over which it is averaged

# Draws of which all dimensions are kept, and numbers that they may be, but for a few draws; then
# it is known which dimensions are slow, and only those are kept.
ALL_DIMENSIONS, NUMBERS, FEWEST = 250, 1 << 19, 50
# Kept draws at which it is looked whether they creep; at the second number every other one is
# dropped, so that further looks come whenever the number of draws has doubled.
FIRST_LOOK, LOOK = 500, 1000
# Of its draws that a chain should be worth in independent ones. Less than is asked of all chains
# together: that of one is known less well, least of all from the few draws of the first look.
SMALLEST_SHARE, FIRST_SHARE = 0.04, 0.02
ENOUGH = 100  # independent ones, of however many draws

_STAY, _N_CAPPED = COLUMN["longest_stay"], COLUMN["n_capped"]

Advice = tuple[WarningType, str]


@dataclass
class Watch:
    """Looks at the draws of one chain after its tuning, as they come.

    Parameters
    ----------
    layout : of the variables in a draw
    """

    layout: Layout = field(metadata=GIVEN)
    told: list[str] = field(default_factory=list)
    tried: int = 0  # draws that have an acceptance
    acceptance: float = 0.0
    made: int = 0
    stride: int = 1  # of the draws that are kept
    kept: list[np.ndarray] = field(default_factory=list)
    slow: np.ndarray | None = None  # their dimensions; None: all
    is_due: bool = False  # a look that something else came before

    def advice(
        self, row: list[float], x: np.ndarray, acceptance: float, tuned: Tuned
    ) -> Advice | None:
        """What is wrong with this draw or with those so far, if it has not been told.

        Parameters
        ----------
        row : statistics of the draw
        x : (d,), the draw
        acceptance : the last that is known, or NaN
        tuned : what it was made with
        """
        self._keep(x)
        if not math.isnan(acceptance) and self.tried < ACCEPTANCE_DRAWS:
            self.tried += 1
            self.acceptance += acceptance / ACCEPTANCE_DRAWS
        if row[_STAY] > STUCK_STAY and self._is_new("stuck"):
            return WarningType.BAD_ACCEPTANCE, (
                f"A chain stayed at one point for {row[_STAY]:.0f} looks at its neighbours: it was "
                "stuck. Raise target_accept of MJHMC, tune longer, or reparameterize."
            )
        if row[_N_CAPPED] > 0 and self._is_new("capped"):
            return WarningType.BAD_PARAMS, (
                "A draw was cut short at max_jumps or max_gradients, so it is not quite exact. "
                "Lower draw_interval of MJHMC or raise these caps."
            )
        if not tuned.settled and self._is_new("unsettled"):
            return WarningType.BAD_PARAMS, (
                "The refresh rate of a chain did not settle: its last tuning draws had quite "
                "another extent than those that it was chosen by. Tune longer, or reparameterize."
            )
        is_low = self.tried == ACCEPTANCE_DRAWS and self.acceptance < LOW_ACCEPTANCE
        if is_low and self._is_new("acceptance"):
            return WarningType.BAD_ACCEPTANCE, (
                f"The mean acceptance of a chain is {self.acceptance:.2f}: its step size does "
                "not fit where the chain is now. Tune longer, or raise target_accept of MJHMC."
            )
        return self._creeps()

    def _is_new(self, what: str) -> bool:
        """Whether it has not been told of this chain."""
        is_new = what not in self.told
        if is_new:
            self.told.append(what)
        return is_new

    # ------------------------------------------------------- whether its draws creep

    def _keep(self, x: np.ndarray) -> None:
        self.made += 1
        if "creeps" in self.told or self.made % self.stride:
            return
        if len(self.kept) == LOOK:
            self.kept = self.kept[1::2]
            self.stride *= 2
            if self.made % self.stride:
                return
        self.kept.append(x.copy() if self.slow is None else x[self.slow])
        if self.slow is None and len(self.kept) >= min(
            ALL_DIMENSIONS, max(NUMBERS // x.size, FEWEST)
        ):
            draws = np.array(self.kept)
            self.slow = np.union1d(*slowest_dimensions(draws[None]))
            self.kept = list(draws[:, self.slow])
        self.is_due |= self.made == FIRST_LOOK or len(self.kept) == LOOK

    def _creeps(self) -> Advice | None:
        """Whether its draws are worth few independent ones, in a value or its square."""
        if not self.is_due or self.slow is None:
            return None
        self.is_due = False
        n = len(self.kept) * self.stride
        size, dimension = least_effective(np.array(self.kept)[None])
        if size >= min((SMALLEST_SHARE if n >= LOOK else FIRST_SHARE) * n, ENOUGH):
            return None
        self.told.append("creeps")
        self.kept = []
        return WarningType.BAD_PARAMS, (
            f"The first {n} draws of a chain are worth only {size:.0f} independent ones in "
            f"{self.layout.labels[self.slow[dimension]]} or its square: it creeps, and its "
            "variance may be wrong. Draw more, or reparameterize: a non-centred hierarchy is "
            "easier."
        )
