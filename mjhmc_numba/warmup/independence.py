"""When a chain uses a Gaussian independence proposal (the rotation), and which."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mjhmc_numba.coordinates import Draws, Metric
from mjhmc_numba.saving import GIVEN
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Tuned
from mjhmc_numba.warmup import proposal as gaussian
from mjhmc_numba.warmup.proposal import Proposal
from mjhmc_numba.warmup.trajectory import QUARTER_TURN

__all__ = ["IndependenceProposal"]

# Chosen by trial on targets with ripples.
ROUGH_FROM = 20.0  # gradients per draw from which one is tried
ROUGH_GAIN = 2.0  # it must be worth as many times its gradients
# The first number holds while it is tried, the second in the end.
LEAST_ACCEPTANCE = 0.1, 0.15  # of a quarter turn, on average
LONGEST_STAY = 200.0, 20.0  # moves for which a draw may hold it, at most
HEAVIEST_TAIL = math.inf, 0.5  # from 1/2 on the variance of pi / q is infinite


@dataclass
class IndependenceProposal:
    """A wide Gaussian is tried in the middle of the warm-up: it finds what draws that mix slowly
    have not seen. Only one that has found all is kept to the end, on a target with ripples.

    Parameters
    ----------
    settings : Settings
        What the user fixed is left alone.
    ndim : int
        Dimensions.
    density_changes : bool
        Whether the density changes between draws; a Gaussian that moves is no good one to propose
        from.
    per_draw : int
        Proposals (quarter turns) per draw.
    is_used : bool
        Whether the chain proposes from one now.
    used : int
        Newest draws that were made with the present Gaussian.
    found : bool
        Whether that one is of draws which had found all.
    """

    settings: Settings = field(metadata=GIVEN)
    ndim: int
    density_changes: bool
    per_draw: int = 1
    is_used: bool = False
    used: int = 0
    found: bool = False

    @property
    def _wanted(self) -> bool:
        return self.settings.integrator == "rotation"

    @property
    def _free(self) -> bool:
        """Whether step size, metric and integrator may be chosen for it."""
        settings = self.settings
        return (
            settings.step_size is None
            and settings.fixed_metric(self.ndim) is None
            and settings.integrator in ("rotation", "auto")
            and not self.density_changes
        )

    def count(self, tuned: Tuned, draws: int) -> None:
        """Take in that so many draws were made with these."""
        if tuned.integrator == "rotation":
            self.used += draws

    def draws_ahead(self, left: int) -> int:
        """Draws until it may be time to `widen`, with so many left in the window."""
        if self.used == 0 and not self.is_used:
            return left
        half = gaussian.enough(self.ndim) // 2
        return min(left, half - self.used % half)

    def without(self, tuned: Tuned) -> Tuned:
        """Leapfrog in its place, which finds the way from anywhere and learns from gradients."""
        if tuned.integrator != "rotation" or self.settings.step_size is not None:
            return tuned
        return tuned.replace(integrator="leapfrog")

    def choose(
        self,
        tuned: Tuned,
        before: Metric,
        draws: Draws,
        gradients: float,
        *,
        last: bool,
    ) -> Tuned:
        """With proposals from the Gaussian of the draws, if that is wanted or pays.

        Parameters
        ----------
        tuned : Tuned
            What is used otherwise.
        before : Metric
            The Gaussian of the newest draws, if they were made with a proposal.
        draws : Draws
            In the coordinates of `tuned`.
        gradients : float
            That an independent draw costs otherwise.
        last : bool
            For the rest of the run.
        """
        chosen = self._chosen(tuned, before, draws, gradients, last=last)
        self.is_used = chosen.integrator == "rotation"
        if not self.is_used:
            self.used, self.found = 0, False
        return chosen

    def _chosen(self, tuned, before, draws: Draws, gradients, *, last) -> Tuned:
        if not self._free:
            return tuned.replace(integrator="rotation") if self._wanted else tuned
        enough = gaussian.enough(self.ndim)
        if self.used:  # its draws are better ones than those from before
            n = max(self.used, enough // 2)
            draws = draws.take(slice(-n, None))
        x = draws.x
        covered = self.used >= enough and gaussian.covers_draws(before, x, again=self.found)
        tells = gaussian.moves(x) if self.used else len(x) >= enough
        if not self._wanted and (not tells or (last and not covered)):
            return tuned
        proposal = self._fitted(
            draws, gaussian.WIDENED if covered else gaussian.widening(self.ndim)
        )
        if proposal is None:
            return tuned
        pays = (
            tuned.integrator != "harmonic"
            and _pays(proposal, gradients, final=covered)
            and (not covered or gaussian.is_rough(proposal.metric, draws.grad))
        )
        return self._about(tuned, proposal, found=covered) if self._wanted or pays else tuned

    def looks_again(self, left: int) -> bool:
        """Whether it is time to `widen`, with so many draws left in the window."""
        half = gaussian.enough(self.ndim) // 2
        return self._free and self.used > 0 and self.used % half == 0 and left >= half

    def widen(self, tuned: Tuned, draws: Draws) -> Tuned | None:
        """Where draws go beyond their Gaussian: with a wider one.

        Parameters
        ----------
        tuned : Tuned
            The present Gaussian.
        draws : Draws
            Made with it, in the coordinates of `tuned`.
        """
        if not gaussian.must_widen(tuned.metric, draws.x):
            return None
        proposal = self._fitted(draws, gaussian.widening(self.ndim))
        if proposal is None or not _does(proposal, final=False):
            return None
        return self._about(tuned, proposal, found=False)

    def _fitted(self, draws: Draws, widened: float) -> Proposal | None:
        return gaussian.fit(draws.x, draws.logp, widened, diagonal=self.settings.metric == "diag")

    def _about(self, tuned: Tuned, proposal: Proposal, *, found: bool) -> Tuned:
        self.per_draw, self.used, self.found = proposal.moves_per_draw, 0, found
        return tuned.replace(integrator="rotation", step_size=QUARTER_TURN, metric=proposal.metric)


def _pays(proposal: Proposal, gradients: float, *, final: bool) -> bool:
    """Where a draw costs many gradients otherwise, far more than it would then."""
    if not final and gradients < ROUGH_FROM:
        return False
    return ROUGH_GAIN * proposal.moves_per_draw <= gradients and _does(proposal, final=final)


def _does(proposal: Proposal, *, final: bool) -> bool:
    """Whether it moves often enough and is nowhere stuck for long."""
    return (
        proposal.acceptance >= LEAST_ACCEPTANCE[final]
        and proposal.longest_stay <= LONGEST_STAY[final]
        and proposal.tail <= HEAVIEST_TAIL[final]
    )
