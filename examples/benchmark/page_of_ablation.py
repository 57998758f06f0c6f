"""The section of RESULTS.md on what each rule is worth, from ablation.csv."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

WANTED = 1.05  # that the best variant may have over the default
COLUMNS = {
    "ESS per gradient": "per_1000_draws",
    "with warm-up": "per_1000_all",
    "squares": "squares_per_1000_draws",
}
SMALLEST = 1e-9  # efficiency that counts as none


class Effect(NamedTuple):
    """What a variant has over the default: mean over the models of logarithms, and its error."""

    log_mean: float
    error: float
    by_model: dict[str, float]

    @property
    def text(self) -> str:
        return f"{math.exp(self.log_mean):.3f} ± {math.exp(self.log_mean) * self.error:.3f}"


Logs = dict[tuple[str, str], dict[str, float]]


def logs_of(rows: Sequence[dict[str, str]], column: str) -> Logs:
    """By variant and model, the logarithms of a column by seed."""
    logs: Logs = {}
    for row in rows:
        if row[column] != "":
            value = math.log(max(float(row[column]), SMALLEST))
            logs.setdefault((row["variant"], row["model"]), {})[row["seed"]] = value
    return logs


def effect(logs: Logs, variant: str) -> Effect | None:
    """The variant's over the default's, seed by seed, over the models that both have.

    The error is that of the seeds; a rule that was never used leaves the same runs, and none.
    """
    by_model, squares = {}, 0.0
    for (name, model), values in logs.items():
        base = logs.get(("default", model), {})
        gains = [value - base[seed] for seed, value in values.items() if seed in base]
        if name != variant or not gains:
            continue
        by_model[model] = statistics.fmean(gains)
        if len(gains) > 1:
            squares += statistics.variance(gains) / len(gains)
    if not by_model:
        return None
    mean = statistics.fmean(by_model.values())
    return Effect(mean, math.sqrt(squares) / len(by_model), by_model)


def ablation_ratios(rows: Sequence[dict[str, str]], column: str) -> dict[str, dict[str, float]]:
    """By variant and target: efficiency over that of the default."""
    logs, cells = logs_of(rows, column), {}
    for variant in dict.fromkeys(row["variant"] for row in rows):
        found = effect(logs, variant)
        if found is not None:
            cells[variant] = {model: math.exp(value) for model, value in found.by_model.items()}
    return cells


def _extreme(found: Effect, which) -> str:
    model = which(found.by_model, key=lambda name: found.by_model[name])
    return f"{math.exp(found.by_model[model]):.2f} {model}"


def verdict(found: Sequence[Effect | None]) -> str:
    """Whether the rule's absence shows, in any column, by twice the error of the seeds."""
    known = [one for one in found if one is not None]
    if all(not one.log_mean and not one.error for one in known):
        return "the same runs"
    shown = [one for one in known if abs(one.log_mean) > 2 * one.error]
    if not shown:
        return "within the noise"
    if all(one.log_mean < 0 for one in shown):
        return "worse"
    return "better" if all(one.log_mean > 0 for one in shown) else "better and worse"


def r_hats(rows: Sequence[dict[str, str]], variant: str) -> str:
    values = [float(r["r_hat"]) for r in rows if r["variant"] == variant and r["r_hat"] != ""]
    return f"{sum(value >= 1.01 for value in values)} of {len(values)}"


def ablation_text(rows: Sequence[dict[str, str]]) -> str:
    logs = {label: logs_of(rows, column) for label, column in COLUMNS.items()}
    lines, best = [], (1.0, "default")
    for variant in dict.fromkeys(row["variant"] for row in rows):
        found = [effect(logs[label], variant) for label in COLUMNS]
        main = found[0]
        if main is None:
            continue
        best = max(best, (math.exp(main.log_mean), variant))
        shown = [one.text if one is not None else "" for one in found]
        extremes = [_extreme(main, min), _extreme(main, max)]
        line = [variant, str(len(main.by_model)), *shown, *extremes, r_hats(rows, variant)]
        lines.append([*line, "" if variant == "default" else verdict(found)])
    seeds = sorted({int(row["seed"]) for row in rows})
    models = ", ".join(dict.fromkeys(row["model"] for row in rows))
    header = ["variant", "models", *COLUMNS, "least", "most", "R-hat ≥ 1.01", "without it"]
    table = "\n".join(
        "| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *lines]
    )
    met = "met" if best[0] <= WANTED else "**not met**"
    return (
        "## What each ingredient is worth\n\nEfficiency of the worst parameter over that of the "
        "default settings, geometric means over the models with their error from the scatter of "
        f"seeds ({seeds[0]} to {seeds[-1]}); one rule changed at a time, all that is not named is "
        "tuned as always, also for the paper's own rule (sqrt rates, Poisson time, leapfrog, full "
        "refresh). Below 1 the default is the better choice. A rule shows if a mean is off 1 by "
        f"twice its error. Best variant over the default: {best[0]:.3f} ({best[1]}), at most "
        f"{WANTED} is wanted: {met}. The kernel has no switch for its cache of rungs: the rows "
        "without it are computed, from the same draws, with one rung (all its gradients) added "
        f"for every flip, the least it costs. Models: {models}.\n\n{table}"
        "\n\n![Ablation](results/ablation.png)"
    )
