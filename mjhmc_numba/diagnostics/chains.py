"""What is wrong with a run: with each of its chains, with all together, with the density."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjhmc_numba.convergence import least_effective, split_r_hat
from mjhmc_numba.density import Target
from mjhmc_numba.diagnostics.chain import chain_findings
from mjhmc_numba.diagnostics.flatness import flat_dimensions
from mjhmc_numba.diagnostics.rules import DIVERGENCE_ADVICE, Finding
from mjhmc_numba.interruption import Press
from mjhmc_numba.results import Result

__all__ = ["closing_line", "diagnose", "diagnose_unless_pressed", "findings"]

# A limit on R-hat must be above what chains have by chance. Of 2,000 stationary series, 4 chains
# each, worth 0.2 of their draws, 0.3 % are above the limit for 100 draws and none for 200 or more;
# of those worth 0.05, which `SMALLEST_SHARE` is about, 0.5 % for 1000. With 50 draws it is 0.8 % of
# the former, so nothing is said of so few.
FEWEST_DRAWS = 100
LARGEST_R_HAT, FOR_CHANCE = 1.05, 10.0  # the limit is the first plus the second per draw
SMALLEST_SHARE = 0.05  # of the draws of all chains that are worth an independent one: 200 of 4000
# Shares of the draws of two chains by which one sits lower in log density than the other: of chains
# that explore one region half lie below the other's median, and no more than chance changes that.
ALMOST_ALL, FEW = 0.9, 0.1
DIAGNOSED_AT_ONCE = 1_000_000  # numbers in the draws: they take 0.1 s, so Ctrl-C need not end that


def diagnose(
    result: Result, target: Target | None = None, *, is_hierarchy: bool = False
) -> list[str]:
    """Messages about a run, each with advice; none if all looks well.

    Parameters
    ----------
    result : Result
        The run.
    target : Target, optional
        Its density, which is asked whether it is flat.
    is_hierarchy : bool
        Whether priors are known to depend on other variables.

    Returns
    -------
    list of str
    """
    found = findings(result, is_hierarchy)
    others = [[f for f in of_chain if f.kind != "divergence"] for of_chain in found]
    messages = [*_divergences(result), *_merged(result.chains, others)]
    is_slow = any(finding.kind == "mixing" for of_chain in found for finding in of_chain)
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
        messages += _disagreement(result) or ([] if is_slow else _few_effective(result))
    return messages


def diagnose_unless_pressed(
    result: Result, target: Target, press: Press, **options: Any
) -> list[str]:
    """What `diagnose` finds, and whether Ctrl-C came after the last draw. Where it would take long,
    Ctrl-C ends it.
    """
    found = []
    try:
        quick = result.draws.size < DIAGNOSED_AT_ONCE
        with contextlib.nullcontext() if quick else press.raising():
            found = diagnose(result, target, **options)
    except KeyboardInterrupt:
        found.append("Interrupted: it was not checked whether the draws can be trusted.")
    if press.is_set() and not result.interrupted:
        chains, draws = result.draws.shape[:2]
        found.append(f"Interrupted after the last draw: all {draws}, of {chains} chains, are kept.")
    return found


def findings(result: Result, is_hierarchy: bool = False) -> list[list[Finding]]:
    """What the rules of one chain say of each."""
    found = []
    for k, draws in enumerate(result.draws):
        stats = {name: values[k] for name, values in result.stats.items()}
        of_chain = chain_findings(draws, stats, result.tuned[k], result.names)
        found.append([finding.fitting(is_hierarchy) for finding in of_chain])
    return found


def closing_line(result: Result, seconds: float) -> str:
    """What came of a run: time, gradients, divergences, worst R-hat and effective sample size."""
    chains, draws, _ = result.draws.shape
    gradients = sum(result.gradients.values())
    line = (
        f"Sampled {chains} chains x ({result.tune} + {draws}) draws in {seconds:.1f} s: "
        f"{gradients:,} gradients, {result.stats['diverging'].sum()} diverging"
    )
    if draws < FEWEST_DRAWS:
        return line
    r_hat = split_r_hat(result.draws)
    worst = np.nan if np.isnan(r_hat).any() else r_hat.max()
    return f"{line}, worst R-hat {worst:.3f}, worst ESS {least_effective(result.draws)[0]:.0f}"


def _merged(chains: Sequence[int], found: Sequence[Sequence[Finding]]) -> list[str]:
    """One message of each kind, about the first chain that it was found in, naming the others."""
    told: dict[str, tuple[str, list[int]]] = {}
    for chain, of_chain in zip(chains, found, strict=True):
        for finding in of_chain:
            if finding.kind in told:
                told[finding.kind][1].append(chain)
            else:
                told[finding.kind] = finding.of(chain), []
    return [message + _also(others) for message, others in told.values()]


def _also(chains: list[int]) -> str:
    if not chains:
        return ""
    named = ", ".join(map(str, chains))
    return f" The same is true of chain{'s' if len(chains) > 1 else ''} {named}."


def _divergences(result: Result) -> list[str]:
    diverging = result.stats["diverging"]
    if not diverging.any():
        return []
    return [f"{diverging.sum()} of {diverging.size} draws met a divergence{DIVERGENCE_ADVICE}"]


def _disagreement(result: Result) -> list[str]:
    r_hat = split_r_hat(result.draws)
    largest = LARGEST_R_HAT + FOR_CHANCE / result.draws.shape[1]
    bad = np.flatnonzero(~(r_hat <= largest))
    if not bad.size:
        return []
    worst = bad[np.argmax(np.nan_to_num(r_hat[bad], nan=np.inf))]
    named = _some([result.names[j] for j in bad])
    why = _lower_chains(result) or (
        "they did not converge, or there is nothing to converge to because the density does not "
        "fall off. Run longer, reparametrise the model, or check that its density has a finite "
        "integral."
    )
    return [f"The chains disagree in {named} (R-hat up to {r_hat[worst]:.3g}): {why}"]


def _lower_chains(result: Result) -> str:
    """Which chains sit at a lower log density than another: nearly all of their draws lie below
    nearly all of its draws.
    """
    lp = result.stats["lp"]
    low, median, high = np.quantile(lp, [FEW, 0.5, ALMOST_ALL], axis=1)
    best = int(median.argmax())
    lower = np.flatnonzero(high < low[best])
    # Where float64 has no digit after the point a density is not that of a mode: it rises for ever.
    if not lower.size or not np.abs(median).max() < 1 / np.finfo(float).eps:
        return ""
    named = " and ".join(str(result.chains[k]) for k in lower)
    many = lower.size > 1
    return (
        f"chain{'s' if many else ''} {named} {'sit' if many else 'sits'} at a lower log density "
        f"than chain {result.chains[best]} (about {median[lower].max():.5g} against "
        f"{median[best]:.5g}). {'They are' if many else 'It is'} in another region, perhaps a "
        "minor mode that longer runs do not leave. Compare what the chains found, or start them "
        "elsewhere."
    )


def _few_effective(result: Result) -> list[str]:
    size, dimension = least_effective(result.draws)
    total = result.draws.shape[0] * result.draws.shape[1]
    if size >= SMALLEST_SHARE * total:
        return []
    message = (
        f"The chains mix slowly: their {total} draws are worth only {size:.0f} independent ones in "
        f"{result.names[dimension]} or its square. Draw more, or reparametrise the model."
    )
    return [message]


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
