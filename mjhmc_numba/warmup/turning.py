"""When a chain turns to the rotation, about which Gaussian, and when it goes back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mjhmc_numba.metric import Metric
from mjhmc_numba.saving import GIVEN
from mjhmc_numba.settings import Settings, Tuned
from mjhmc_numba.warmup import rotation
from mjhmc_numba.warmup.trajectory import QUARTER_TURN

__all__ = ["Turning"]

ROUGH_FROM = 20.0  # gradients a draw from which a rotation is tried
ROUGH_GAIN = 2.0  # it must be worth as many times its gradients
# While it is tried, and in the end.
LEAST_ACCEPTANCE = 0.1, 0.15
LONGEST_STAY = 200.0, 20.0  # moves for which a draw may hold it, at most
HEAVIEST_TAIL = math.inf, 0.5


@dataclass
class Turning:
    """A wide Gaussian is tried in the middle of the warm-up: it finds what draws that crept have
    not seen. Only one that has found all is kept to the end, on a target with ripples.

    Parameters
    ----------
    settings : what the user fixed is left alone
    density_changes : between draws; a Gaussian that moves is no good one to rotate about
    turns : quarter turns a draw
    turned : newest draws that were made with the present Gaussian
    found : whether that one is of draws which had found all
    """

    settings: Settings = field(metadata=GIVEN)
    ndim: int
    density_changes: bool
    turns: int = 1
    turned: int = 0
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

    def count(self, tuned: Tuned) -> None:
        """Take in that a draw was made with these."""
        self.turned += tuned.integrator == "rotation"

    def without(self, tuned: Tuned) -> Tuned:
        """Leapfrog in its place, which finds the way from anywhere and learns from gradients."""
        if tuned.integrator != "rotation" or self.settings.step_size is not None:
            return tuned
        return tuned.replace(integrator="leapfrog")

    def choose(
        self,
        tuned: Tuned,
        used: Metric,
        x: np.ndarray,
        grad: np.ndarray,
        logp: np.ndarray,
        gradients: float,
        *,
        last: bool,
    ) -> Tuned:
        """With the rotation about the Gaussian of the draws, if that is wanted or pays.

        Parameters
        ----------
        tuned : what is used otherwise
        used : the Gaussian of the newest draws, if they were made with a rotation
        x, grad, logp : draws, gradients and log densities
        gradients : that an independent draw costs otherwise
        last : for the rest of the run
        """
        chosen = self._chosen(tuned, used, x, grad, logp, gradients, last=last)
        if chosen.integrator != "rotation":
            self.turned, self.found = 0, False
        return chosen

    def _chosen(self, tuned, used, x, grad, logp, gradients, *, last) -> Tuned:
        if not self._free:
            return tuned.replace(integrator="rotation") if self._wanted else tuned
        enough = rotation.enough(self.ndim)
        if self.turned:  # its draws are better ones than those from before
            n = max(self.turned, enough // 2)
            x, grad, logp = x[-n:], grad[-n:], logp[-n:]
        covered = self.turned >= enough and rotation.covers(used, x, again=self.found)
        tells = rotation.moves(x) if self.turned else len(x) >= enough
        if not self._wanted and (not tells or (last and not covered)):
            return tuned
        guide = self._guide(x, logp, rotation.WIDENED if covered else rotation.wide(self.ndim))
        if guide is None:
            return tuned
        pays = (
            tuned.integrator != "harmonic"
            and _pays(guide, gradients, final=covered)
            and (not covered or rotation.is_rough(guide.metric, grad))
        )
        return self._about(tuned, guide, found=covered) if self._wanted or pays else tuned

    def looks_again(self, left: int) -> bool:
        """Whether it is time to `follow`, with so many draws left in the window."""
        half = rotation.enough(self.ndim) // 2
        return self._free and self.turned > 0 and self.turned % half == 0 and left >= half

    def follow(self, tuned: Tuned, x: np.ndarray, logp: np.ndarray) -> Tuned | None:
        """Where draws go beyond their Gaussian: with a rotation about a wider one.

        Parameters
        ----------
        x, logp : draws made with the present one
        """
        if not rotation.grows(tuned.metric, x):
            return None
        guide = self._guide(x, logp, rotation.wide(self.ndim))
        if guide is None or not _does(guide, final=False):
            return None
        return self._about(tuned, guide, found=False)

    def _guide(self, x, logp, widened: float) -> rotation.Guide | None:
        return rotation.fit(x, logp, widened, diagonal=self.settings.metric == "diag")

    def _about(self, tuned: Tuned, guide: rotation.Guide, *, found: bool) -> Tuned:
        self.turns, self.turned, self.found = guide.turns, 0, found
        return tuned.replace(integrator="rotation", step_size=QUARTER_TURN, metric=guide.metric)


def _pays(guide: rotation.Guide, gradients: float, *, final: bool) -> bool:
    """Where a draw costs many gradients otherwise, far more than it would then."""
    if not final and gradients < ROUGH_FROM:
        return False
    return ROUGH_GAIN * guide.turns <= gradients and _does(guide, final=final)


def _does(guide: rotation.Guide, *, final: bool) -> bool:
    """Whether it moves often enough and is nowhere stuck for long."""
    return (
        guide.acceptance >= LEAST_ACCEPTANCE[final]
        and guide.longest_stay <= LONGEST_STAY[final]
        and guide.tail <= HEAVIEST_TAIL[final]
    )
