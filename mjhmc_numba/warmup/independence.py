"""When a chain uses a Gaussian independence proposal (the rotation), and which."""

from __future__ import annotations

from dataclasses import dataclass, field

from mjhmc_numba.coordinates import Draws, Metric
from mjhmc_numba.saving import GIVEN
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Tuned
from mjhmc_numba.warmup import proposal as gaussian
from mjhmc_numba.warmup.proposal import Proposal
from mjhmc_numba.warmup.trajectory import QUARTER_TURN

__all__ = ["IndependenceProposal"]


@dataclass
class IndependenceProposal:
    """A wide Gaussian, about which a chain turns from the middle of the warm-up on: it finds what
    draws that mix slowly have not seen, and is fitted again until it covers what it finds.

    It is made for targets whose ripples hide the large shape, as the rough well, and tried there
    only: chains that tried it wherever draws cost many gradients lost the draws of the trial, and
    one of four its tails (best, two seeds).

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
    used : int
        Newest draws that were made with the present Gaussian.
    found : bool
        Whether that one is of draws which had found all.
    is_used : bool
        Whether the chain proposes from one now.
    """

    settings: Settings = field(metadata=GIVEN)
    ndim: int
    density_changes: bool
    per_draw: int = 1
    used: int = 0
    found: bool = False
    is_used: bool = False

    @property
    def _is_wanted(self) -> bool:
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
        if not (self._free and self.is_used):
            return left
        half = gaussian.enough(self.ndim) // 2
        return min(left, half - self.used % half)

    def without(self, tuned: Tuned) -> Tuned:
        """Leapfrog in its place, which finds the way from anywhere and learns from gradients."""
        if tuned.integrator != "rotation" or self.settings.step_size is not None:
            return tuned
        return tuned.replace(integrator="leapfrog")

    def choose(self, tuned: Tuned, before: Metric, draws: Draws, *, last: bool) -> Tuned:
        """With proposals from the user's Gaussian, or that of the draws, if that is wanted or they
        show ripples.

        Parameters
        ----------
        tuned : Tuned
            What is used otherwise.
        before : Metric
            The Gaussian of the newest draws, if they were made with a proposal.
        draws : Draws
            In the coordinates of `tuned`.
        last : bool
            For the rest of the run.
        """
        chosen = self._chosen(tuned, before, draws, last)
        self.is_used = chosen.integrator == "rotation"
        if not self.is_used:
            self.used, self.found = 0, False
        return chosen

    def _chosen(self, tuned: Tuned, before: Metric, draws: Draws, last: bool) -> Tuned:
        if not self._free:
            return tuned.replace(integrator="rotation") if self._is_wanted else tuned
        enough = gaussian.enough(self.ndim)
        if self.used:  # its draws are better ones than those from before
            draws = draws.take(slice(-max(self.used, enough // 2), None))
        covered = self.used >= enough and gaussian.covers_draws(before, draws.x, again=self.found)
        proposal = self._fitted(
            draws, gaussian.WIDENED if covered else gaussian.widening(self.ndim)
        )
        if proposal is None:
            return tuned
        is_rough = gaussian.is_rough(proposal.metric, draws.grad, surely=covered)
        if self._is_wanted or (is_rough and (covered or not last)):
            return self._about(tuned, proposal, found=covered)
        return tuned

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
        return None if proposal is None else self._about(tuned, proposal, found=False)

    def _fitted(self, draws: Draws, widened: float) -> Proposal | None:
        return gaussian.fit(draws.x, draws.logp, widened, diagonal=self.settings.metric == "diag")

    def _about(self, tuned: Tuned, proposal: Proposal, *, found: bool) -> Tuned:
        self.per_draw, self.used, self.found = proposal.moves_per_draw, 0, found
        return tuned.replace(integrator="rotation", step_size=QUARTER_TURN, metric=proposal.metric)
