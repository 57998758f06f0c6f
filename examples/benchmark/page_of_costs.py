"""Sections of RESULTS.md: whole runs per CPU second, motions found by search, modes that are known.

Made of per_second.csv, motion_search.csv and modes_known.csv, where they are there.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from results_table import DEFAULT, LOW_RANK, OURS, Table, geometric_mean, read

CONVERGED = 1.01
# Models that are hierarchies: their efficiency must not hang on the seed.
HIERARCHIES = (
    "radon_slopes_centred",
    "alcohol_growth",
    "baseball",
    "rugby",
    "hier_logistic",
    "radon_centered",
    "rat_tumor",
    "election88_like",
    "horseshoe_50",
    "pk_one_compartment",
)
NOT_JUDGED = {
    "funnel_centered": "no fixed step size fits it, so that nutpie does not mix on it",
}
MOST_FOUND = 1.15  # that a search may find over what is chosen


def number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.{digits}g}".rstrip(".")


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


# ------------------------------------------------------------------ per second


class Costs(Table):
    """Rows of per_second.csv, those that were finished."""

    def __init__(self, rows: Sequence[dict[str, str]]):
        super().__init__([with_seconds(row) for row in rows if row["ess_bulk"]])
        self.judged = [m for m in self.models if m not in NOT_JUDGED and self.has_peer(m)]

    def has_peer(self, model: str) -> bool:
        samplers = {row["sampler"] for row in self.rows if row["model"] == model}
        return OURS in samplers and bool(samplers & {DEFAULT, LOW_RANK})

    def best(self, model: str, column: str) -> float | None:
        """That of the mode of nutpie's which does better, of those that were run."""
        known = [self.typical(model, sampler, column) for sampler in (DEFAULT, LOW_RANK)]
        return max((value for value in known if value is not None), default=None)

    def over(self, model: str, column: str, theirs: float | None) -> float | None:
        mine = self.typical(model, OURS, column)
        return None if mine is None or theirs is None else mine / theirs

    def better_ratio(self, column: str) -> Callable[[str], float | None]:
        return lambda model: self.over(model, column, self.best(model, column))

    def default_ratio(self, column: str) -> Callable[[str], float | None]:
        return lambda model: self.over(model, column, self.typical(model, DEFAULT, column))

    def worst_seed(self, model: str) -> float | None:
        """The worst seed's ESS per gradient over their median."""
        values = self.values(model, OURS, "per_1000_draws")
        return min(values) / statistics.median(values) if len(values) > 2 else None


def with_seconds(row: dict[str, str]) -> dict[str, str]:
    """With effective samples per CPU second of the whole run."""
    worst = min(float(row["ess_bulk"]), float(row["ess_tail"]))
    return row | {"per_second": str(worst / float(row["cpu_seconds"]))}


def summary(table: Costs, ratios: dict[str, Callable], bars: dict[str, tuple]) -> str:
    """A line per ratio: geometric mean, worst model, what is wanted."""
    lines = []
    for label, get in ratios.items():
        known = {m: value for m in table.judged if (value := get(m)) is not None}
        if not known:
            continue
        is_cost = label in COSTS
        worst = (max if is_cost else min)(known, key=lambda m: known[m])
        mean, (of_mean, of_worst) = geometric_mean(known.values()), bars.get(label, (None, None))
        below = sum(value > 1 if is_cost else value < 1 for value in known.values())
        lines.append(
            [
                label,
                str(len(known)),
                judged(mean, of_mean, is_cost),
                f"{judged(known[worst], of_worst, is_cost)} ({worst})",
                str(below),
            ]
        )
    return markdown(["ours / nutpie", "models", "geometric mean", "worst", "models lost"], lines)


def judged(value: float | None, bar: float | None, is_cost: bool) -> str:
    """A number beside its bar."""
    if value is None or bar is None:
        return number(value)
    met = value <= bar if is_cost else value >= bar
    return f"{number(value)}, {'met' if met else '**not met**'} ({'≤' if is_cost else '≥'} {bar})"


CPU, WARMUP = "CPU seconds of the whole run / default", "warm-up gradients / default"
COSTS = (CPU, WARMUP)
BARS = {
    "real models and case studies": {
        CPU: (0.5, 1.2),
        "ESS per CPU second / better": (3.0, 1.0),
        "ESS per gradient / better": (2.5, None),
        "with warm-up / better": (3.0, None),
    },
    "posteriors": {
        CPU: (0.5, 1.2),
        "ESS per CPU second / better": (3.0, 1.0),
        "ESS per gradient / better": (3.0, 1.0),
        "with warm-up / better": (3.5, 1.0),
    },
}
FOLDERS = {
    "real models and case studies": ("gallery", "case_studies"),
    "posteriors": ("posteriors",),
}


def ratios_of(table: Costs) -> dict[str, Callable[[str], float | None]]:
    return {
        CPU: table.default_ratio("cpu_seconds"),
        "ESS per CPU second / better": table.better_ratio("per_second"),
        "ESS per CPU second / default": table.default_ratio("per_second"),
        "ESS per gradient / better": table.better_ratio("per_1000_draws"),
        "with warm-up / better": table.better_ratio("per_1000_all"),
        "squares / better": table.better_ratio("squares_per_1000_draws"),
        WARMUP: table.default_ratio("gradients_warmup"),
    }


def models_text(table: Costs) -> str:
    """A line per model."""
    ratios = ratios_of(table)
    header = ["model", "d", "seeds", *ratios, "CPU s ours / default / low rank"]
    header += ["R-hat ours / default / low rank", "worst seed / median"]
    lines = []
    for model in table.models:
        if not table.has_peer(model):
            continue
        dim = next(row["dim"] for row in table.rows if row["model"] == model)
        cpu = [table.typical(model, s, "cpu_seconds") for s in (OURS, DEFAULT, LOW_RANK)]
        r_hat = [table.largest(model, s, "r_hat") for s in (OURS, DEFAULT, LOW_RANK)]
        lines.append(
            [
                model + (" (not judged)" if model in NOT_JUDGED else ""),
                dim,
                str(len(table.values(model, OURS, "r_hat"))),
                *(number(get(model)) for get in ratios.values()),
                " / ".join(number(value) or "-" for value in cpu),
                " / ".join("-" if value is None else f"{value:.3f}" for value in r_hat),
                number(table.worst_seed(model)),
            ]
        )
    return markdown(header, lines)


def r_hat_text(table: Costs) -> str:
    """Where nutpie mixes in all seeds, do we?"""
    missed, counted = [], 0
    for model in table.judged:
        peers = [table.largest(model, sampler, "r_hat") for sampler in (DEFAULT, LOW_RANK)]
        if min(value for value in peers if value is not None) >= CONVERGED:
            continue
        counted += 1
        values = table.values(model, OURS, "r_hat")
        bad = sum(value >= CONVERGED for value in values)
        if bad:
            missed.append(f"{model} ({bad} of {len(values)} seeds, {max(values):.3f})")
    found = f"; not on {', '.join(missed)}" if missed else ""
    return (
        f"R-hat below {CONVERGED} in every seed, where a mode of nutpie's has it in every seed: "
        f"{counted - len(missed)} of {counted} models{found}."
    )


def seeds_text(table: Costs) -> str:
    """How much hierarchies hang on the seed."""
    known = {m: table.worst_seed(m) for m in HIERARCHIES if m in table.models}
    shown = {m: value for m, value in known.items() if value is not None}
    if not shown:
        return ""
    below = [f"{m} {number(value)}" for m, value in shown.items() if value < 1 / 3]
    values = [value for m in shown for value in table.values(m, OURS, "r_hat")]
    good = sum(value < CONVERGED for value in values)
    return (
        "Hierarchies, the worst seed's ESS per gradient over the median of the seeds (bar: at "
        f"least 1/3): below it are {', '.join(below) or 'none'} of {len(shown)}. R-hat is below "
        f"{CONVERGED} in {good} of their {len(values)} runs (bar: 95 %)."
    )


def load_text(rows: Sequence[dict[str, str]]) -> str:
    """How busy the machine was."""
    loads = [float(row["load"]) for row in rows if row.get("load")]
    if not loads:
        return ""
    return (
        f" Processes that wanted a core while the rows were made: {statistics.median(loads):.0f}."
    )


def per_second_text(rows: Sequence[dict[str, str]]) -> str:
    # Those of PyMC's NUTS, made at another time, are in the README's picture alone.
    rows = [row for row in rows if row["sampler"] in (OURS, DEFAULT, LOW_RANK)]
    parts = [
        "## Whole runs per CPU second\n\nFrom the compiled model to the ArviZ object "
        "(`per_second.py`): 4 chains of 1000 + 1000 draws, one after the other, samplers in turn. "
        "CPU seconds are those of the process and its threads; ESS is the worst scored "
        "parameter's, the smaller of bulk and tail. The better mode is the better of nutpie's "
        "default and low rank, column by column; where low rank takes a minute it has one or two "
        "seeds. Not judged: "
        + "; ".join(f"{m}: {why}" for m, why in NOT_JUDGED.items())
        + "."
        + load_text(rows)
    ]
    for title, folders in FOLDERS.items():
        table = Costs([row for row in rows if row["folder"] in folders])
        if not table.judged:
            continue
        parts += [f"### {title.capitalize()}", summary(table, ratios_of(table), BARS[title])]
        parts += [r_hat_text(table), seeds_text(table), models_text(table)]
    return "\n\n".join(part for part in parts if part)


# --------------------------------------------------------------- motion search


def motions_text(rows: Sequence[dict[str, str]]) -> str:
    lines, gains = [], []
    for key in dict.fromkeys((row["model"], row["seed"]) for row in rows):
        of_model = {r["what"]: r for r in rows if (r["model"], r["seed"]) == key}
        chosen = of_model["chosen"]
        line = [*key, chosen["tries"], motion(chosen)]
        for what in ("both", "ess", "squares"):
            best, column = of_model[f"best {what}"], f"{what}_per_1000"
            gain = float(best[column]) / float(chosen[column])
            line += [f"{number(gain)}: {motion(best)}" if gain > 1 else "1: as chosen"]
            if what == "both":
                gains.append(gain)
        lines.append(line)
    kept = sum(gain <= MOST_FOUND for gain in gains)
    header = ["model", "seed", "tries", "chosen", "best of both", "best of ESS", "best of squares"]
    return (
        "## Better motions\n\nWhat a random search finds beside the motion that the warm-up chose, "
        "in the same coordinates (`motion_search.py`): confirmed efficiency over that of the "
        "chosen motion; both is the geometric mean of ESS (bulk or tail) and squares. A motion: "
        "integrator, step size, steps per rung x rungs, draws per path, share of momentum kept, "
        f"path jitter. At most {MOST_FOUND} is wanted: {kept} of {len(gains)} keep it, the "
        f"geometric mean is {number(geometric_mean(gains))}.\n\n" + markdown(header, lines)
    )


def motion(row: dict[str, str]) -> str:
    """In short."""
    rungs = int(row["rungs"])
    per_path = rungs / float(row["draw_interval"])
    shown = f"{row['integrator']} {float(row['step_size']):.2g}, {row['num_steps']} x {rungs}"
    shown += f", {per_path:.2g} draws" if per_path != 1 else ""
    for name, value in (("kept", row["refresh_alpha"]), ("jitter", row["refresh_jitter"])):
        shown += f", {name} {float(value):.2g}" if float(value) else ""
    return shown


# ----------------------------------------------------------------- known modes


def known_modes_text(rows: Sequence[dict[str, str]]) -> str:
    lines, lost = [], []
    for model in dict.fromkeys(row["model"] for row in rows):
        shares = {}
        line = [model]
        for sampler in (OURS, DEFAULT):
            chosen = [r for r in rows if r["model"] == model and r["sampler"] == sampler]
            minor = sum(int(r["minor_chains"]) for r in chosen)
            chains = sum(int(r["chains"]) for r in chosen)
            shares[sampler] = minor / max(chains, 1)
            line.append(f"{minor} of {chains}")
        warned = [r for r in rows if r["model"] == model and r["sampler"] == OURS]
        wrong = [r for r in warned if int(r["minor_chains"])]
        told = sum(int(r["warnings"]) > 0 for r in wrong)
        line.append(f"{told} of {len(wrong)}")
        lines.append(line)
        if shares[OURS] > shares[DEFAULT]:
            lost.append(model)
    outcome = f"not met by {', '.join(lost)}" if lost else "met by all"
    return (
        "## Modes that are known\n\nChains that end in a minor mode, of models whose data were "
        "simulated so that one mode has the mass (`several_modes/`, `modes.py`); short runs. The "
        f"bar, no more of ours than of nutpie's on each model, is {outcome}.\n\n"
        + markdown(["model", "ours", "nutpie", "runs with such chains that were warned of"], lines)
    )


SECTIONS = {
    "per_second.csv": per_second_text,
    "motion_search.csv": motions_text,
    "modes_known.csv": known_modes_text,
}


def sections(folder: Path) -> list[str]:
    """All whose rows are there."""
    found = {name: read(folder / name) for name in SECTIONS if (folder / name).exists()}
    return [SECTIONS[name](rows) for name, rows in found.items() if rows]


if __name__ == "__main__":
    import sys

    print("\n\n".join(sections(Path(sys.argv[1] if sys.argv[1:] else "results"))))
