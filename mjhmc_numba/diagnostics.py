"""When not to trust the draws, and what to do then."""

from __future__ import annotations

import numpy as np

from mjhmc_numba.convergence import least_effective, split_r_hat
from mjhmc_numba.results import Result
from mjhmc_numba.target import Target

__all__ = ["diagnose", "flat_dimensions"]

STUCK_STAY = 100  # rings without a move
LARGEST_R_HAT = 1.05  # above what a run that is only short would have
SMALLEST_BFMI = 0.2  # Betancourt (2016): below 0.2-0.3 the energy explores slowly
FEWEST_DRAWS = 100  # for an R-hat worth the name
SMALLEST_SHARE = 0.05  # of the draws that are worth an independent one, in a value or its square
FLATNESS_DRAWS = 8  # of each chain, at which the gradient is looked at


def diagnose(result: Result, target: Target | None = None) -> list[str]:
    """Messages about a run, each with advice; none if all looks well.

    Parameters
    ----------
    result : the run
    target : its density, which is asked whether it is flat
    """
    messages = [*_divergences(result), *_caps(result), *_stuck_chains(result)]
    messages += [*_unsettled_chains(result), *_slow_energy(result)]
    try:
        flat = flat_dimensions(result, target) if target is not None else []
    except Exception as error:  # no reason to lose the draws
        flat = []
        messages.append(f"The density raised {error!r} at a draw, when it was asked again.")
    if flat:
        messages.append(
            f"The log density does not depend on {_some(flat)}: it has no finite integral, and "
            "the draws mean nothing. Give it a prior there, or check its gradient."
        )
    elif result.draws.shape[1] >= FEWEST_DRAWS:
        messages += _disagreement(result) or _few_effective(result)
    return messages


def _divergences(result: Result) -> list[str]:
    diverging = result.stats["diverging"]
    if not diverging.any():
        return []
    message = (
        f"{diverging.sum()} of {diverging.size} draws met a divergence: there may be "
        "regions of high curvature that the chains do not enter. Raise target_accept, or "
        "give the density an easier parametrisation."
    )
    return [message]


def _caps(result: Result) -> list[str]:
    capped = int((result.stats["n_capped"] > 0).sum())
    if not capped:
        return []
    message = (
        f"{capped} draws were cut short at max_jumps or max_gradients, so they are not quite "
        "exact. Lower draw_interval or raise the caps."
    )
    return [message]


def _stuck_chains(result: Result) -> list[str]:
    stays = result.stats["longest_stay"].max(axis=1)
    return [
        f"Chain {chain} once stayed at a point for {stay} looks at its neighbours: it was "
        "stuck. Raise target_accept, or give the density an easier parametrisation."
        for chain, stay in zip(result.chains, stays, strict=True)
        if stay > STUCK_STAY
    ]


def _unsettled_chains(result: Result) -> list[str]:
    """Chains whose refresh rate was still about to change at the end of their warm-up."""
    unsettled = [
        str(chain)
        for chain, tuned in zip(result.chains, result.tuned, strict=True)
        if not tuned.settled
    ]
    if not unsettled:
        return []
    message = (
        f"The refresh rate of chain {', '.join(unsettled)} did not settle: the last draws of the "
        "warm-up had quite another extent than those that it was chosen by. Tune longer, or give "
        "the density an easier parametrisation."
    )
    return [message]


def _slow_energy(result: Result) -> list[str]:
    """Chains whose energy changes little from refresh to refresh, next to its whole range."""
    energy = result.stats["energy"]
    refreshed = result.stats["n_R"].mean() > 0.9  # else draws share an energy by design
    if energy.shape[1] < FEWEST_DRAWS or not refreshed:
        return []
    with np.errstate(all="ignore"):
        bfmi = np.mean(np.diff(energy, axis=1) ** 2, axis=1) / energy.var(axis=1)
    slow = np.flatnonzero(bfmi < SMALLEST_BFMI)
    if not slow.size:
        return []
    named = ", ".join(str(result.chains[k]) for k in slow)
    message = (
        f"The energy explores slowly in chain {named} (E-BFMI down to {bfmi[slow].min():.2g}): "
        "tails or a narrow neck are reached rarely, and variances may be wrong. Give the density "
        "an easier parametrisation, for example a non-centred one."
    )
    return [message]


def _disagreement(result: Result) -> list[str]:
    r_hat = split_r_hat(result.draws)
    largest = LARGEST_R_HAT + 10 / result.draws.shape[1]  # short chains differ by chance
    bad = np.flatnonzero(~(r_hat <= largest))
    if not bad.size:
        return []
    worst = bad[np.argmax(np.nan_to_num(r_hat[bad], nan=np.inf))]
    named = _some([result.names[j] for j in bad])
    message = (
        f"The chains disagree in {named} (R-hat up to {r_hat[worst]:.3g}): they have not mixed, "
        "or there is nothing to agree on because the density does not fall off. Run longer, give "
        "the density an easier parametrisation, or check that it has a finite integral."
    )
    return [message]


def _few_effective(result: Result) -> list[str]:
    size, dimension = least_effective(result.draws)
    total = result.draws.shape[0] * result.draws.shape[1]
    if size >= SMALLEST_SHARE * total:
        return []
    name = result.names[dimension]
    return [
        (
            f"The {total} draws are worth only {size:.0f} independent ones in {name} or its "
            "square: the chains creep. Draw more, or give the density an easier parametrisation."
        )
    ]


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def flat_dimensions(result: Result, target: Target) -> list[str]:
    """Names of the dimensions in which the gradient vanishes at each of several draws."""
    chains, n, d = result.draws.shape
    is_flat = np.ones(d, dtype=bool)
    for k in range(chains):
        for i in np.unique(np.linspace(0, n - 1, FLATNESS_DRAWS, dtype=int)):
            is_flat &= target.logp_and_grad(result.draws[k, i])[1] == 0
            if not is_flat.any():
                return []
    return [result.names[j] for j in np.flatnonzero(is_flat)]
