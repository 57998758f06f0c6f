"""When not to trust the draws, and what to do then."""

from __future__ import annotations

import numpy as np

from mjhmc_numba.results import Result

__all__ = ["diagnose"]

STUCK_STAY = 100  # rings without a move
ACCEPTANCE_RANGE = (0.6, 0.995)


def diagnose(result: Result) -> list[str]:
    """Messages about a run, each with advice; none if all looks well."""
    stats = result.stats
    messages = []
    diverging = int(stats["diverging"].sum())
    if diverging:
        messages.append(
            f"{diverging} of {stats['diverging'].size} draws met a divergence: there may be "
            "regions of high curvature that the chains do not enter. Raise target_accept, or "
            "give the density an easier parametrisation."
        )
    capped = int((stats["n_capped"] > 0).sum())
    if capped:
        messages.append(
            f"{capped} draws were cut short at max_jumps or max_gradients, so they are not quite "
            "exact. Lower draw_interval or raise the caps."
        )
    stays = stats["longest_stay"].max(axis=1)
    for chain, stay in zip(result.chains, stays, strict=True):
        if stay > STUCK_STAY:
            messages.append(
                f"Chain {chain} once stayed at a point for {stay} looks at its neighbours: it was "
                "stuck. Raise target_accept, or give the density an easier parametrisation."
            )
    return messages
