"""All rules of one chain, asked of its draws at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mjhmc_numba.diagnostics.looks import (
    EnergySums,
    first_draws,
    looks_until,
    slow_dimensions,
    slow_mixing,
    stride_at,
)
from mjhmc_numba.diagnostics.rules import (
    ACCEPTANCE_DRAWS,
    STUCK_STAY,
    Finding,
    capped,
    diverged,
    left_a_region,
    low_acceptance,
    stuck,
    unconverged,
    untuned,
)
from mjhmc_numba.tuned import Tuned

__all__ = ["chain_findings"]


def chain_findings(
    draws: np.ndarray, stats: Mapping[str, np.ndarray], tuned: Tuned, names: Sequence[str]
) -> list[Finding]:
    """What all rules of one chain say, each at most once.

    Parameters
    ----------
    draws : (n, d) array
        Draws after the warm-up.
    stats : mapping of str to (n,) array
        Their statistics.
    tuned : Tuned
        What they were made with.
    names : sequence of str
        Of the dimensions.
    """
    rates = stats["acceptance_rate"]
    rates = rates[~np.isnan(rates)][:ACCEPTANCE_DRAWS]
    found = [
        diverged(float(stats["diverging"].sum())),
        stuck(_first_above(stats["longest_stay"], STUCK_STAY)),
        capped(_first_above(stats["n_capped"], 0)),
        unconverged(tuned.converged),
        untuned(tuned.not_learnt),
        left_a_region(tuned.starts),
        low_acceptance(float(rates.mean()), tuned.integrator)
        if rates.size == ACCEPTANCE_DRAWS
        else None,
        next(_energy_findings(stats), None),
        next(_mixing_findings(draws, names), None),
    ]
    return [finding for finding in found if finding is not None]


def _first_above(values: np.ndarray, limit: float) -> float:
    """The first value above the limit, or the limit."""
    above = values[values > limit]
    return float(above[0]) if above.size else limit


def _energy_findings(stats: Mapping[str, np.ndarray]) -> Iterator[Finding]:
    energy, refreshes = stats["energy"], stats["n_R"]
    for n in looks_until(energy.size):
        finding = EnergySums.of(energy[:n], refreshes[:n]).finding()
        if finding is not None:
            yield finding


def _mixing_findings(draws: np.ndarray, names: Sequence[str]) -> Iterator[Finding]:
    looks = looks_until(len(draws))
    if not looks:
        return
    slow = slow_dimensions(draws[: first_draws(draws.shape[1])])
    labels = [names[j] for j in slow]
    for n in looks:
        stride = stride_at(n)
        finding = slow_mixing(draws[stride - 1 : n : stride, slow], n, labels)
        if finding is not None:
            yield finding
