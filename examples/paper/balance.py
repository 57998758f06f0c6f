"""Appendix A, checked in exact arithmetic; and the transition probability, put right.

The balance condition: on circular ladders whose probabilities are squares of rational numbers
all rates of the paper's rule are rational, so pi Q is computed without rounding.

The transition probability: the least of competing exponential times is event i with probability
Gamma_i / sum_k Gamma_k. The appendix multiplies the probabilities of winning against each
rival alone, as if they were independent, which they are not.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from examples.paper.common import COLOURS, column, pyplot, read_csv, save, select, write_csv

RULES = ("sqrt", "metropolis", "barker")


def balancing(rule: str, here: Fraction, there: Fraction) -> Fraction:
    """g(pi_there / pi_here), where the arguments are the roots of the probabilities."""
    ratio = (there / here) ** 2
    if rule == "sqrt":
        return there / here
    if rule == "metropolis":
        return min(Fraction(1), ratio)
    return 2 * ratio / (1 + ratio)


def exact_generator(rule: str, roots: list[Fraction], beta: Fraction) -> list[list[Fraction]]:
    """Generator on the circular ladder: state (i, +1) is i, state (i, -1) is k + i."""
    k = len(roots)
    Q = [[Fraction(0)] * (2 * k) for _ in range(2 * k)]
    for s, offset, other in ((1, 0, k), (-1, k, 0)):
        for i in range(k):
            ahead, behind = roots[(i + s) % k], roots[(i - s) % k]
            g_ahead = balancing(rule, roots[i], ahead)
            g_behind = balancing(rule, roots[i], behind)
            row = Q[offset + i]
            row[offset + (i + s) % k] += g_ahead
            row[other + i] += max(Fraction(0), g_behind - g_ahead) + beta / 2
            row[offset + i] -= sum(row)
    return Q


def imbalance(rule: str, roots: list[Fraction], beta: Fraction) -> Fraction:
    """Largest entry of pi Q: the rate of change of a probability at pi."""
    Q = exact_generator(rule, roots, beta)
    pi = [root**2 for root in roots] * 2
    return max(abs(sum(pi[a] * Q[a][b] for a in range(len(pi)))) for b in range(len(pi)))


def compute(p: dict, results: Path) -> None:
    rng = np.random.default_rng(p["seed"])
    write_csv(results / "balance.csv", [_balance_row(rule, p, rng) for rule in RULES])
    rows = []
    for name, rates in p["rates"].items():
        rows += _transition_rows(name, np.array(rates), p["simulations"], rng)
    write_csv(results / "transition_probability.csv", rows)


def _balance_row(rule, p, rng) -> dict:
    worst = Fraction(0)
    for _ in range(p["ladders"]):
        size = int(rng.integers(2, p["largest_ladder"] + 1))
        roots = [Fraction(int(a), int(b)) for a, b in rng.integers(1, 1000, (size, 2))]
        beta = Fraction(int(rng.integers(0, 100)), 100)
        worst = max(worst, imbalance(rule, roots, beta))
    return {"rule": rule, "ladders": p["ladders"], "largest_imbalance": str(worst)}


def _transition_rows(name, rates, n, rng) -> list[dict]:
    times = rng.standard_exponential((n, rates.size)) / rates
    wins = np.bincount(times.argmin(axis=1), minlength=rates.size) / n
    exact = rates / rates.sum()
    product = [
        np.prod([rates[j] / (rates[j] + rates[k]) for k in range(rates.size) if k != j])
        for j in range(rates.size)
    ]
    return [
        {
            "case": name,
            "event": j + 1,
            "rate": rates[j],
            "exact": exact[j],
            "paper": product[j],
            "simulated": wins[j],
            "standard_error": np.sqrt(exact[j] * (1 - exact[j]) / n),
        }
        for j in range(rates.size)
    ]


def claims(results: Path) -> dict:
    balance = read_csv(results / "balance.csv")
    rows = read_csv(results / "transition_probability.csv")
    z = (column(rows, "simulated") - column(rows, "exact")) / column(rows, "standard_error")
    wrong = (column(rows, "simulated") - column(rows, "paper")) / column(rows, "standard_error")
    equal = select(rows, case="three equal rates")
    return {
        "imbalance": max(abs(Fraction(str(row["largest_imbalance"]))) for row in balance),
        "ladders": sum(row["ladders"] for row in balance),
        "equal_exact": equal[0]["exact"],
        "equal_paper": equal[0]["paper"],
        "equal_paper_sum": float(column(equal, "paper").sum()),
        "equal_simulated": equal[0]["simulated"],
        "equal_error": equal[0]["standard_error"],
        "largest_z": float(np.abs(z).max()),
        "largest_z_paper": float(np.abs(wrong[column(rows, "case") != "two rates"]).max()),
    }


def draw(results: Path, figures: Path) -> None:
    rows = read_csv(results / "transition_probability.csv")
    cases = list(dict.fromkeys(row["case"] for row in rows))
    plt = pyplot()
    figure, panels = plt.subplots(1, len(cases), figsize=(9, 3.2), sharey=True)
    looks = {"exact": COLOURS["MJHMC"], "paper": COLOURS["HMC"], "simulated": COLOURS["grey"]}
    names = {
        "exact": r"exact: $\Gamma_i / \sum_k \Gamma_k$",
        "paper": "the appendix's product",
        "simulated": "simulated",
    }
    for axes, case in zip(panels, cases, strict=True):
        chosen = select(rows, case=case)
        for place, (key, colour) in enumerate(looks.items()):
            at = column(chosen, "event") + 0.27 * (place - 1)
            axes.bar(at, column(chosen, key), 0.25, color=colour, label=names[key])
        labels = [f"rate {row['rate']:g}" for row in chosen]
        axes.set_xticks(column(chosen, "event"), labels)
        axes.set_title(case, fontsize=11)
        axes.grid(axis="x", visible=False)
    panels[0].set_ylabel("probability of the event")
    panels[1].legend(loc="upper center", fontsize=10)
    panels[0].set_ylim(0, 1.05)
    figure.tight_layout()
    save(figure, figures / "transition_probability.png")
