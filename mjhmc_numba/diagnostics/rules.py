"""Rules of one chain that are asked of plain values: each returns a `Finding` or None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mjhmc_numba.tuned import Starts

__all__ = [
    "Finding",
    "cannot_move",
    "capped",
    "diverged",
    "left_a_region",
    "low_acceptance",
    "stuck",
    "unconverged",
    "untuned",
]

# Looks at the neighbours without a move. Where one in ten moves is accepted a chain stays so long
# once in 40,000 visits (0.9^100), where one in fifty is in 13 % of them.
STUCK_STAY = 100

# The warm-up aims at 0.8 or more. The mean over 200 draws after it has a standard error of 0.035 at
# most (0.5 / sqrt(200)) if draws are independent.
LOW_ACCEPTANCE = 0.5
ACCEPTANCE_DRAWS = 200
# Draws, of which at least one is another point than the one before: a chain that leaves with
# probability 0.1 per draw does not move in so many once in 40,000 runs.
ENOUGH_TO_MOVE = 100

MAY_HOLD_MASS = -7.0  # log mass of a region over that of the best: a thousandth

THE_CHAIN = "The chain"
DIVERGENCE_ADVICE = (
    ": there may be regions of high curvature that the chains do not enter. Raise target_accept, "
    "as in MJHMC(target_accept=0.95) or sample(target_accept=0.95), or reparametrise the model."
)
NON_CENTRED = " A hierarchy is easier to sample written non-centred."


class Finding(NamedTuple):
    """What is wrong with a chain, and what to do: a kind, and sentences about "The chain"."""

    kind: str
    message: str

    def fitting(self, is_hierarchy: bool) -> Finding:
        """The same with the advice that fits a hierarchy, where the model is known to be one."""
        if not is_hierarchy or self.kind not in ("energy", "mixing"):
            return self
        return self._replace(message=self.message + NON_CENTRED)

    def of(self, chain: int) -> str:
        """The same of a chain with a number."""
        return f"Chain {chain}{self.message.removeprefix(THE_CHAIN)}"


def cannot_move(has_moved: bool, draws: int) -> str | None:
    """What to raise of a chain that has (not) moved in so many draws since its start."""
    if has_moved or draws < ENOUGH_TO_MOVE:
        return None
    return (
        f"The chain did not move once in {draws} draws: wherever it tried to go, the density is "
        "zero, not finite or much lower. Is it finite beside the start? If step_size or metric "
        "were given, they may be too large for it."
    )


def stuck(stay: float) -> Finding | None:
    """`stay`: looks at the neighbours of one point without a move."""
    if stay <= STUCK_STAY:
        return None
    return Finding(
        "stuck",
        f"{THE_CHAIN} stayed at one point for {stay:.0f} looks at its neighbours: it was stuck. "
        "Raise target_accept, tune longer, or reparametrise the model.",
    )


def diverged(n_diverging: float) -> Finding | None:
    """`n_diverging`: integrator steps of a draw that diverged."""
    if n_diverging <= 0:
        return None
    return Finding("divergence", f"{THE_CHAIN} met a divergence{DIVERGENCE_ADVICE}")


def capped(n_capped: float) -> Finding | None:
    """`n_capped`: whether a draw was cut short."""
    if n_capped <= 0:
        return None
    return Finding(
        "capped",
        f"{THE_CHAIN} has draws that were cut short at max_jumps or max_gradients (n_capped), so "
        "they are not quite exact. Lower draw_interval, or raise these caps.",
    )


def unconverged(has_converged: bool) -> Finding | None:
    """`has_converged`: whether the end of the warm-up asked for no other refresh rate."""
    if has_converged:
        return None
    return Finding(
        "unconverged",
        f"{THE_CHAIN}'s refresh rate did not converge: the last draws of its warm-up had quite "
        "another extent than those that it was chosen by. Tune longer, or reparametrise the model.",
    )


def untuned(not_learnt: Sequence[str]) -> Finding | None:
    """`not_learnt`: what the warm-up was too short for, or was not given where there is none."""
    if not not_learnt:
        return None
    return Finding(
        "untuned",
        f"{THE_CHAIN} had too short a warm-up to learn {', '.join(not_learnt)}: guesses from where "
        "it started are used, which suit a target with standard deviations near 1. Its draws are "
        "valid but may be worth little. Tune for 200 draws or more, or give these settings.",
    )


def left_a_region(starts: Starts) -> Finding | None:
    """`starts`: what the several starts of the chain have come to."""
    left = [mass for mass in starts.elsewhere if mass > MAY_HOLD_MASS]
    if not left:
        return None
    return Finding(
        "regions",
        f"{THE_CHAIN} began with {starts.tried} starts, of which {len(left)} ended in another "
        f"region, beyond a gap. It may hold some of the mass (log mass roughly {max(left):+.1f} "
        "against that of the region it went on from), of which the draws say nothing if chains "
        "cannot cross. Compare runs with other seeds and starts=1, or use a sampler made for "
        "several modes.",
    )


def low_acceptance(mean: float, integrator: str) -> Finding | None:
    """`mean`: acceptance rate of the first draws after the warm-up.

    That of a Gaussian independence proposal (the rotation) says how much the target differs from a
    Gaussian, which no step size changes. It is used where it mixes best all the same; whether it
    does is seen by `slow_mixing` and `stuck`.
    """
    if mean >= LOW_ACCEPTANCE or integrator == "rotation":
        return None
    return Finding(
        "acceptance",
        f"{THE_CHAIN} has a mean acceptance of {mean:.2f}: its step size does not fit where it is "
        "now. Tune longer, or raise target_accept.",
    )
