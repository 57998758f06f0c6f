"""When not to trust the draws, and what to do then: one set of rules for all ways to sample.

A rule of one chain is a function of plain values that returns a `Finding` or None. What needs many
draws is looked at after 500, 1000, 2000, 4000 ... of them, so that a chain which is watched while
it draws and does not know when it will end (the PyMC step) is told the same as one that is looked
at afterwards. Rules of all chains together, or of the density, can only be asked at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.convergence import least_effective, slowest_dimensions, split_r_hat
from mjhmc_numba.density import Target
from mjhmc_numba.interruption import Press
from mjhmc_numba.results import Result
from mjhmc_numba.tuned import Tuned

__all__ = [
    "EnergySums",
    "Finding",
    "cannot_move",
    "capped",
    "chain_findings",
    "closing_line",
    "diagnose",
    "diagnose_unless_pressed",
    "diverged",
    "findings",
    "first_draws",
    "flat_dimensions",
    "is_look",
    "low_acceptance",
    "slow_dimensions",
    "slow_mixing",
    "stuck",
    "unconverged",
    "untuned",
]

STUCK_STAY = 100  # looks at the neighbours without a move

LOW_ACCEPTANCE = 0.5
ACCEPTANCE_DRAWS = 200  # after the warm-up, over which it is averaged

SMALLEST_BFMI = 0.2  # Betancourt (2016): below 0.2-0.3 the energy explores slowly
REFRESHED = 0.9  # refreshes per draw; with fewer, draws share an energy by design

# Draws after which a chain is looked at: the first number, the second, and its doubles, of which
# as many draws are kept as the second says, evenly spaced.
FIRST_LOOK, LOOK = 500, 1000
# The first draws, of which all dimensions are looked at: so many, or as many as have this many
# numbers, but no fewer than some. Then it is known which dimensions are slow.
ALL_DIMENSIONS, NUMBERS, FEWEST_FIRST = 250, 1 << 19, 50
# Of its draws that a chain should be worth in independent ones. Less than is asked of all chains
# together: that of one is known less well, least of all from the few draws of the first look.
CHAIN_SHARE, FIRST_SHARE = 0.04, 0.02
ENOUGH = 100  # independent ones, of however many draws

FEWEST_DRAWS = 100  # for an R-hat worth the name
LARGEST_R_HAT = 1.05  # above what a run that is only short would have
SMALLEST_SHARE = 0.05  # of the draws of all chains that are worth an independent one
FLATNESS_DRAWS = 8  # of each chain, at which the gradient is looked at

DIAGNOSED_AT_ONCE = 1_000_000  # numbers in the draws, however hurried a user is
ENOUGH_TO_MOVE = 100  # draws, of which at least one is another point than the one before

THE_CHAIN = "The chain"
DIVERGENCE_ADVICE = (
    ": there may be regions of high curvature that the chains do not enter. Raise target_accept, "
    "as in MJHMC(target_accept=0.95) or sample(target_accept=0.95), or reparametrise the model."
)
NON_CENTRED = " A hierarchy is easier to sample written non-centred."
# Shares of the draws of two chains by which one sits lower in log density than the other.
ALMOST_ALL, FEW = 0.9, 0.1


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


# --------------------------------------------------------------- rules of one chain


def stuck(stay: float) -> Finding | None:
    """`stay`: looks at the neighbours of one point without a move."""
    if stay <= STUCK_STAY:
        return None
    return Finding(
        "stuck",
        f"{THE_CHAIN} stayed at one point for {stay:.0f} looks at its neighbours: it was stuck. "
        "Raise target_accept, tune longer, or reparametrise the model.",
    )


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


def cannot_move(has_moved: bool, draws: int) -> str | None:
    """What to raise of a chain that has (not) moved in so many draws since its start."""
    if has_moved or draws < ENOUGH_TO_MOVE:
        return None
    return (
        f"The chain did not move once in {draws} draws: wherever it tried to go, the density is "
        "zero, not finite or much lower. Is it finite beside the start? If step_size or metric "
        "were given, they may be too large for it."
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


@dataclass
class EnergySums:
    """Sums over the energies of a chain's draws, from which follows how slowly they change."""

    draws: int = 0
    refreshes: float = 0.0
    first: float = 0.0
    last: float = 0.0
    total: float = 0.0  # of differences from the first
    squares: float = 0.0  # of these
    changes: float = 0.0  # squared, from draw to draw

    def add(self, energy: float, refreshes: float) -> None:
        """Take one draw in."""
        if self.draws == 0:
            self.first = self.last = energy
        self.draws += 1
        self.refreshes += refreshes
        self.total += energy - self.first
        self.squares += (energy - self.first) ** 2
        self.changes += (energy - self.last) ** 2
        self.last = energy

    @classmethod
    def of(cls, energy: np.ndarray, refreshes: np.ndarray) -> EnergySums:
        """Those of all draws of a chain."""
        off = energy - energy[0]
        changes = float(np.sum(np.diff(energy) ** 2))
        sums = float(off.sum()), float((off**2).sum()), changes
        ends = float(energy[0]), float(energy[-1])
        return cls(energy.size, float(refreshes.sum()), *ends, *sums)

    def finding(self) -> Finding | None:
        """Whether the energy changes little from refresh to refresh, next to its whole range."""
        variance = self.squares / self.draws - (self.total / self.draws) ** 2
        if self.refreshes <= REFRESHED * self.draws or not variance > 0:
            return None
        bfmi = self.changes / (self.draws - 1) / variance
        if not bfmi < SMALLEST_BFMI:
            return None
        return Finding(
            "energy",
            f"{THE_CHAIN} explores its energies slowly (E-BFMI {bfmi:.2g}): tails or the narrow "
            "end of a funnel are reached rarely, and variances may be wrong. Reparametrise the "
            "model.",
        )


def is_look(n: int) -> bool:
    """Whether a chain is looked at after n draws."""
    looks, rest = divmod(n, LOOK)
    return n == FIRST_LOOK or (rest == 0 and looks > 0 and looks & (looks - 1) == 0)


def stride_at(n: int) -> int:
    """From one draw that is kept to the next, after n of them."""
    return 1 << max(-(-n // LOOK) - 1, 0).bit_length()


def first_draws(ndim: int) -> int:
    """From how many draws the slow dimensions are chosen."""
    return min(ALL_DIMENSIONS, max(NUMBERS // ndim, FEWEST_FIRST))


def slow_dimensions(draws: np.ndarray) -> np.ndarray:
    """Those that `slow_mixing` looks at, chosen from the first draws (n, d)."""
    return np.union1d(*slowest_dimensions(draws[None]))


def slow_mixing(kept: np.ndarray, n: int, labels: Sequence[str]) -> Finding | None:
    """Whether n draws are worth few independent ones.

    Parameters
    ----------
    kept : (m, k) array
        Some of the n draws, evenly spaced, in their slow dimensions.
    n : int
        Draws made.
    labels : sequence of str
        Names of these dimensions.
    """
    size, dimension = least_effective(np.ascontiguousarray(kept)[None])
    if size >= min((CHAIN_SHARE if n >= LOOK else FIRST_SHARE) * n, ENOUGH):
        return None
    return Finding(
        "mixing",
        f"{THE_CHAIN} mixes slowly: its first {n} draws are worth only {size:.0f} independent ones "
        f"in {labels[dimension]} or its square, and its variance may be wrong. Draw more, or "
        "reparametrise the model.",
    )


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


def _looks(n: int) -> list[int]:
    """Numbers of draws, up to n, after which a chain is looked at."""
    looks = [FIRST_LOOK, LOOK]
    while looks[-1] < n:
        looks.append(2 * looks[-1])
    return [look for look in looks if look <= n]


def _energy_findings(stats: Mapping[str, np.ndarray]) -> Iterator[Finding]:
    energy, refreshes = stats["energy"], stats["n_R"]
    for n in _looks(energy.size):
        finding = EnergySums.of(energy[:n], refreshes[:n]).finding()
        if finding is not None:
            yield finding


def _mixing_findings(draws: np.ndarray, names: Sequence[str]) -> Iterator[Finding]:
    looks = _looks(len(draws))
    if not looks:
        return
    slow = slow_dimensions(draws[: first_draws(draws.shape[1])])
    labels = [names[j] for j in slow]
    for n in looks:
        stride = stride_at(n)
        finding = slow_mixing(draws[stride - 1 : n : stride, slow], n, labels)
        if finding is not None:
            yield finding


# ------------------------------------------------------ all chains, and the density


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
    largest = LARGEST_R_HAT + 10 / result.draws.shape[1]  # short chains differ by chance
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
    if not lower.size:
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


def flat_dimensions(result: Result, target: Target) -> list[str]:
    """Names of the dimensions in which the gradient vanishes at each of several draws, and that no
    wall ends: a bounded uniform density is flat, but has an integral.
    """
    chains, n, d = result.draws.shape
    is_flat = np.ones(d, dtype=bool)
    for k in range(chains):
        for i in np.unique(np.linspace(0, n - 1, FLATNESS_DRAWS, dtype=int)):
            is_flat &= target.logp_and_grad(result.draws[k, i])[1] == 0
            if not is_flat.any():
                return []
    flat = np.flatnonzero(is_flat).tolist()
    return [result.names[j] for j in flat if not _is_walled(result.draws, target, j)]


def _is_walled(draws: np.ndarray, target: Target, j: int) -> bool:
    """Whether the density vanishes on both sides of the draws in dimension j, further out than
    they reach.
    """
    low, high = draws[..., j].min(), draws[..., j].max()
    x = draws[0, 0].copy()
    for x[j] in (low - (high - low) - 1.0, high + (high - low) + 1.0):
        if target.logp_and_grad(x)[0] > -np.inf:
            return False
    return True
