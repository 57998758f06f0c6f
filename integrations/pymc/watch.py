"""What a chain has to tell when something is wrong with it: each thing once, with advice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pymc.stats.convergence import WarningType

from mjhmc_numba.convergence import least_effective, slowest_dimensions
from mjhmc_numba.diagnostics import SMALLEST_SHARE, STUCK_STAY
from mjhmc_numba.pymc.stats import COLUMN
from mjhmc_numba.settings import Tuned

__all__ = ["Watch"]

LOW_ACCEPTANCE = 0.5
ACCEPTANCE_DRAWS = 200  # after tuning, over which it is averaged
# Draws of which all dimensions are kept; then it is known which are slow, and only those are.
ALL_DIMENSIONS = 250
FIRST_LOOK = 500  # draws after which it is looked whether they creep; then whenever they double

_STAY, _N_CAPPED = COLUMN["longest_stay"], COLUMN["n_capped"]

Advice = tuple[WarningType, str]


class Watch:
    """Looks at the draws of one chain after its tuning, as they come.

    Parameters
    ----------
    labels : of the dimensions
    """

    def __init__(self, labels: list[str]):
        self.labels = labels
        self.told: list[str] = []
        self.tried = 0  # draws that have an acceptance
        self.acceptance = 0.0
        self.slow: np.ndarray | None = None  # the dimensions that are kept
        self.kept: list[np.ndarray] = []

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

    def _keep(self, x: np.ndarray) -> None:
        self.kept.append(x.copy() if self.slow is None else x[self.slow])
        if self.slow is None and len(self.kept) == ALL_DIMENSIONS:
            draws = np.array(self.kept)
            by_values = slowest_dimensions(draws[None])
            by_squares = slowest_dimensions(draws[None], of_squares=True)
            self.slow = np.union1d(by_values, by_squares)
            self.kept = list(draws[:, self.slow])

    def _creeps(self) -> Advice | None:
        """Whether its draws are worth few independent ones, in a value or its square."""
        n = len(self.kept)
        looks = n // FIRST_LOOK
        if self.slow is None or n % FIRST_LOOK or looks & (looks - 1):
            return None
        size, dimension = least_effective(np.array(self.kept)[None])
        if size >= SMALLEST_SHARE * n or not self._is_new("creeps"):
            return None
        return WarningType.BAD_PARAMS, (
            f"The first {n} draws of a chain are worth only {size:.0f} independent ones in "
            f"{self.labels[self.slow[dimension]]} or its square: it creeps, and its variance may "
            "be wrong. Draw more, or reparameterize: a non-centred hierarchy is easier."
        )

    def _is_new(self, what: str) -> bool:
        """Whether it has not been told of this chain."""
        is_new = what not in self.told
        if is_new:
            self.told.append(what)
        return is_new

    # ------------------------------------------------------------- save and load

    def save(self) -> dict[str, Any]:
        """As arrays and numbers."""
        return {
            "told": list(self.told),
            "tried": self.tried,
            "acceptance": self.acceptance,
            "slow": None if self.slow is None else self.slow.copy(),
            "kept": np.array(self.kept),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self.told = list(saved["told"])
        self.tried, self.acceptance = saved["tried"], saved["acceptance"]
        self.slow = saved["slow"]
        self.kept = list(saved["kept"])
