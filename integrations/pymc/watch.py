"""What is wrong with a chain that PyMC draws one by one: each thing once, with advice.

The rules are those of `mjhmc_numba.diagnostics`, asked while the draws come.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from pymc.stats.convergence import WarningType

from mjhmc_numba.diagnostics.looks import (
    EnergySums,
    first_draws,
    is_look,
    slow_dimensions,
    slow_mixing,
    stride_at,
)
from mjhmc_numba.diagnostics.rules import (
    ACCEPTANCE_DRAWS,
    Finding,
    capped,
    diverged,
    left_a_region,
    low_acceptance,
    stuck,
    unconverged,
    untuned,
)
from mjhmc_numba.pymc.layout import Layout
from mjhmc_numba.saving import GIVEN
from mjhmc_numba.stats import COLUMN
from mjhmc_numba.tuned import Tuned

__all__ = ["KINDS", "Watch"]

# PyMC's word for each kind of finding.
KINDS = {
    "divergence": WarningType.DIVERGENCE,
    "stuck": WarningType.BAD_ACCEPTANCE,
    "capped": WarningType.BAD_PARAMS,
    "unconverged": WarningType.BAD_PARAMS,
    "untuned": WarningType.BAD_PARAMS,
    "regions": WarningType.CONVERGENCE,
    "acceptance": WarningType.BAD_ACCEPTANCE,
    "energy": WarningType.BAD_ENERGY,
    "mixing": WarningType.BAD_PARAMS,
}

_DIVERGING, _STAY, _N_CAPPED, _ENERGY, _N_R = (
    COLUMN[name] for name in ("n_diverging", "longest_stay", "n_capped", "energy", "n_R")
)


@dataclass
class Watch:
    """Looks at the draws of one chain after its warm-up, as they come.

    Parameters
    ----------
    layout : Layout
        Of the variables in a draw.
    """

    layout: Layout = field(metadata=GIVEN)
    told: list[str] = field(default_factory=list)  # kinds
    waiting: list[Finding] = field(default_factory=list)  # a draw carries one
    tried: int = 0  # draws that have an acceptance
    acceptance: float = 0.0  # their sum
    made: int = 0
    kept: list[np.ndarray] = field(default_factory=list)
    slow: np.ndarray | None = None  # dimensions that are kept; None: all
    energy: EnergySums = field(default_factory=EnergySums)

    def finding(
        self, row: list[float], x: np.ndarray, acceptance: float, tuned: Tuned
    ) -> Finding | None:
        """What is wrong with this draw or with those so far, if it has not been told.

        Parameters
        ----------
        row : list of float
            The kernel's statistics of the draw.
        x : (d,) array
            The draw.
        acceptance : float
            The last that is known, or NaN.
        tuned : Tuned
            What it was made with.
        """
        self.made += 1
        self._tell(diverged(row[_DIVERGING]))
        self._tell(stuck(row[_STAY]))
        self._tell(capped(row[_N_CAPPED]))
        self._tell(unconverged(tuned.converged))
        self._tell(untuned(tuned.not_learnt))
        self._tell(left_a_region(tuned.starts))
        if self.tried < ACCEPTANCE_DRAWS and not math.isnan(acceptance):
            self.tried += 1
            self.acceptance += acceptance
            if self.tried == ACCEPTANCE_DRAWS:
                mean = self.acceptance / ACCEPTANCE_DRAWS
                self._tell(low_acceptance(mean, tuned.integrator))
        self.energy.add(row[_ENERGY], row[_N_R])
        if "mixing" not in self.told:
            self._keep(x)
        if is_look(self.made):
            self._tell(self.energy.finding())
            self._tell(self._mixing())
        return self.waiting.pop(0) if self.waiting else None

    def _tell(self, finding: Finding | None) -> None:
        if finding is not None and finding.kind not in self.told:
            self.told.append(finding.kind)
            self.waiting.append(finding.fitting(self.layout.is_hierarchy))

    def _keep(self, x: np.ndarray) -> None:
        """Every draw, then every other one, and so on: few numbers however long the chain."""
        stride = stride_at(self.made)
        if stride > stride_at(self.made - 1):
            self.kept = self.kept[1::2]
        if self.made % stride:
            return
        self.kept.append(x.copy() if self.slow is None else x[self.slow])
        if self.slow is None and len(self.kept) >= first_draws(x.size):
            draws = np.array(self.kept)
            self.slow = slow_dimensions(draws)
            self.kept = list(draws[:, self.slow])

    def _mixing(self) -> Finding | None:
        if "mixing" in self.told or self.slow is None:
            return None
        labels = [self.layout.told[j] for j in self.slow]
        finding = slow_mixing(np.array(self.kept), self.made, labels)
        if finding is not None:
            self.kept = []
        return finding
