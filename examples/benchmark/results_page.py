"""RESULTS.md and its pictures, from the CSV files of efficiency.py, modes.py and ablation.py."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from page_of_ablation import ablation_ratios, ablation_text
from page_of_costs import sections
from results_pictures import draw_ablation, draw_ratios
from results_table import (
    DEFAULT,
    LOW_RANK,
    NOT_JUDGED,
    OURS,
    OURS_DIAG,
    RATIOS,
    Table,
    geometric_mean,
    read,
)

CONVERGED = 1.01
LARGEST_Z = 4.5  # of the worst of up to hundreds of parameters

ABOUT = """# Efficiency

Written by `efficiency.py report` from the CSV files in `results/`; nothing here is typed by hand
but `results/remarks.md`. {runs}

Efficiency is the effective sample size of the *worst* scored parameter per gradient: the smaller
of bulk and tail, or that of squared deviations from the mean ("squares"), by ArviZ. "After
warm-up" counts the gradients of the draws alone, "all" those of the warm-up too; ours include the
search for a start and a first step. Seeds are averaged geometrically. `nutpie` is nutpie at its
defaults (a diagonal metric), the *better* mode is the better of that and its low-rank mode, model
by model and measure by measure. † An R-hat above 1.05: the effective sample size means nothing
there. {versions}"""


OTHER_MODELS = {
    "case_studies.csv": "## Case studies\n\nOurs / the better of nutpie's modes on models in the "
    "manner of well-known case studies, with simulated data (`case_studies/`)",
    "gallery.csv": "## Real models\n\nOurs / the better of nutpie's modes on models of PyMC's "
    "example gallery, with their data (`gallery/`)",
}


def number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.{digits}g}".rstrip(".")


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


# ------------------------------------------------------------------------ bars

Bar = tuple[str, str, str, bool | None]  # what, measured, wanted, whether it is met


def mean_bar(what: str, ratios: dict[str, float], least: float, count: int) -> Bar:
    """A geometric mean over the models."""
    value = geometric_mean(ratios.values())
    if value is None:
        return what, "not measured", f"≥ {least}", None
    short = "" if len(ratios) == count else f" ({len(ratios)} of {count} models)"
    return what, number(value) + short + without_largest(ratios), f"≥ {least}", value >= least


def without_largest(ratios: dict[str, float]) -> str:
    """The geometric mean of all models but the one that it owes most to."""
    if len(ratios) < 3:
        return ""
    largest = max(ratios, key=lambda model: ratios[model])
    rest = geometric_mean(value for model, value in ratios.items() if model != largest)
    return f"; {number(rest)} without {largest}"


def worst_bar(what: str, ratios: dict[str, float], least: float) -> Bar:
    """No model below."""
    if not ratios:
        return what, "not measured", f"≥ {least}", None
    worst = min(ratios, key=lambda model: ratios[model])
    below = sum(value < least for value in ratios.values())
    text = f"{number(ratios[worst])} ({worst}); {below} below"
    return what, text, f"≥ {least}", not below


def model_bar(what: str, value: float | None, least: float) -> Bar:
    if value is None:
        return what, "not measured", f"≥ {least}", None
    return what, number(value), f"≥ {least}", value >= least


def warmup_bar(table: Table) -> Bar:
    value = geometric_mean(table.ratios("gradients_warmup").values())
    what = "warm-up gradients, ours / nutpie's default, geometric mean"
    if value is None:
        return what, "not measured", "≤ 0.15", None
    return what, number(value), "≤ 0.15", value <= 0.15


def r_hat_bar(table: Table) -> Bar:
    """The largest over the seeds, for both: ours below 1.01 wherever a mode of nutpie's is."""
    missed, counted = [], 0
    for model in table.judged:
        mine = table.largest(model, OURS, "r_hat")
        peers = [table.largest(model, sampler, "r_hat") for sampler in (DEFAULT, LOW_RANK)]
        theirs = min((value for value in peers if value is not None), default=None)
        if mine is None or theirs is None or theirs >= CONVERGED:
            continue
        counted += 1
        if mine >= CONVERGED:
            missed.append(f"{model} {mine:.3f}")
    what = "R-hat < 1.01 in every seed where nutpie has it in every seed (in either mode)"
    if not counted:
        return what, "not measured", "all", None
    text = f"{counted - len(missed)} of {counted} models" + (
        f"; not {', '.join(missed)}" if missed else ""
    )
    return what, text, "all", not missed


def mode_bar(table: Table) -> Bar:
    """Chains in a minor mode, over the models and seeds that both have."""
    ours = theirs = chains = 0
    for model in table.judged:
        mine = table.values(model, OURS, "minor_chains")
        default = table.values(model, DEFAULT, "minor_chains")
        seeds = min(len(mine), len(default))
        ours, theirs = ours + int(sum(mine[:seeds])), theirs + int(sum(default[:seeds]))
        chains += 4 * seeds
    what = "chains left in a minor mode, ours / nutpie's default"
    if not chains:
        return what, "not measured", "ours ≤ nutpie's", None
    alone = {m: table.values(m, OURS, "minor_chains") for m in table.judged}
    alone = {m: v for m, v in alone.items() if v and not table.values(m, DEFAULT, "minor_chains")}
    text = f"{ours} / {theirs} of {chains}"
    for model, found in alone.items():
        text += f"; {model}, where nutpie was not run: {int(sum(found))} of {4 * len(found)}"
    met = None if any(sum(v) for v in alone.values()) else ours <= theirs
    return what, text, "ours ≤ nutpie's", met


def per_draw_bar(table: Table) -> Bar:
    """ESS per draw of the median parameter."""
    column = "ess_median_per_draw"
    known = {m: table.typical(m, OURS, column) for m in table.judged}
    values = {m: v for m, v in known.items() if v is not None}
    return worst_bar("bulk ESS per draw of the median parameter, smallest", values, 0.5)


def growth_bar(table: Table) -> Bar:
    """The exponent with which ESS per gradient falls from 10 to 1000 dimensions."""
    what = "isotropic Gaussian, 10-d to 1,000-d: exponent of ESS per gradient in d"
    few = table.typical("normal_10", OURS, "per_1000_draws")
    many = table.typical("normal_1000", OURS, "per_1000_draws")
    if few is None or many is None:
        return what, "not measured", "≥ -0.25", None
    slope = math.log(many / few) / math.log(100.0)
    return what, f"{slope:.3f}", "≥ -0.25", slope >= -0.25


def bars(table: Table) -> list[Bar]:
    count = len(table.judged)
    every: list[Bar] = []
    for label, suffix in (("after warm-up", "_draws"), ("all", "_all")):
        main, squares = "per_1000" + suffix, "squares_per_1000" + suffix
        better = table.ratios(main, peer="better")
        diagonal = table.ratios(main, ours=OURS_DIAG)
        every += [
            mean_bar(
                f"ours / nutpie's default, geometric mean, {label}", table.ratios(main), 8, count
            ),
            mean_bar(f"ours / better mode, geometric mean, {label}", better, 2.5, count),
            worst_bar(f"ours / better mode, worst model, {label}", better, 1.0),
            mean_bar(
                f"squares: ours / better mode, geometric mean, {label}",
                table.ratios(squares, peer="better"),
                3,
                count,
            ),
            mean_bar(f"diagonal against diagonal, geometric mean, {label}", diagonal, 2.5, count),
        ]
    every += [warmup_bar(table), r_hat_bar(table), mode_bar(table), per_draw_bar(table)]
    for model, peer, least in (("rough_well", DEFAULT, 1.0), ("stoch_vol", "better", 1.5)):
        name = "nutpie's default" if peer == DEFAULT else "better mode"
        ratio = table.ratio(model, "per_1000_draws", peer=peer)
        every.append(model_bar(f"{model}: ours / {name}, after warm-up", ratio, least))
    return [*every, growth_bar(table)]


def bars_text(table: Table) -> str:
    words = {True: "met", False: "**not met**", None: ""}
    rows = [(what, got, wanted, words[met]) for what, got, wanted, met in bars(table)]
    return "## The bars\n\n" + markdown(["what", "measured", "bar", "verdict"], rows)


# ---------------------------------------------------------------------- tables


def ratios_text(table: Table) -> str:
    rows = []
    for model in table.models:
        mark = "" if model in table.judged else " (not judged)"
        mark += "" if all(table.is_mixed(model, s) for s in (OURS, DEFAULT)) else " †"
        rows.append([model + mark, *(number(get(table, model)) for _, get in RATIOS)])
    means = []
    for _, get in RATIOS:
        known = (get(table, model) for model in table.judged)
        means.append(number(geometric_mean(value for value in known if value is not None)))
    rows.append(["**geometric mean**", *(f"**{mean}**" if mean else "" for mean in means)])
    why = "; ".join(f"{name}: {reason}" for name, reason in NOT_JUDGED.items())
    return (
        "## Ours / nutpie\n\nSquares and diagonal against diagonal are after warm-up. Not judged: "
        f"the built-in targets where there are others; {why}.\n\n"
        + markdown(["model", *(label for label, _ in RATIOS)], rows)
        + "\n\n![Ratios by model](results/efficiency.png)"
    )


def absolute_text(table: Table) -> str:
    """Effective samples per 1000 gradients, and what tells whether to believe them."""
    samplers = [s for s in (OURS, OURS_DIAG, DEFAULT, LOW_RANK) if any_row(table, s)]
    rows = []
    for model in table.models:
        for sampler in samplers:
            seeds = len(table.values(model, sampler, "r_hat"))
            if not seeds:
                continue
            mark = "" if table.is_mixed(model, sampler) else " †"
            typical = [
                number(table.typical(model, sampler, column))
                for column in ("per_1000_draws", "per_1000_all", "squares_per_1000_draws")
            ]
            gradients = [
                number(table.typical(model, sampler, column))
                for column in ("gradients_warmup", "gradients_draws")
            ]
            r_hat = table.largest(model, sampler, "r_hat")
            counts = [
                f"{sum(table.values(model, sampler, c)):.0f}"
                for c in ("divergences", "minor_chains")
            ]
            z = [number(table.largest(model, sampler, c)) for c in ("z_mean", "z_variance")]
            per_draw = number(table.typical(model, sampler, "ess_median_per_draw"))
            known = f"{r_hat:.3f}" if r_hat is not None else ""
            rows.append(
                [model, sampler + mark, str(seeds), *typical, *gradients, per_draw, known]
                + [*counts, *z]
            )
    header = ["model", "sampler", "seeds", "after warm-up", "all", "squares", "warm-up gradients"]
    header += ["gradients", "ESS per draw", "R-hat", "divergences", "minor-mode chains"]
    header += ["z of mean", "z of variance"]
    return (
        "## Effective samples per 1000 gradients\n\nESS per draw is the median parameter's; R-hat "
        "and z (the error against the reference, in Monte Carlo errors) are the largest over "
        "parameters and seeds. With k parameters and three seeds a sound sampler has a largest z "
        "of about sqrt(2 log 3k), 3 to 4. A chain counts as left in a minor mode if its mean log "
        "density lies two standard deviations below the best chain's.\n\n" + markdown(header, rows)
    )


def any_row(table: Table, sampler: str) -> bool:
    return any(row["sampler"] == sampler for row in table.rows)


# ------------------------------------------------------------------- weak spots


def peers_text(table: Table, model: str, column: str, form: str) -> str:
    """What nutpie's modes have at most."""
    known = [table.largest(model, sampler, column) for sampler in (DEFAULT, LOW_RANK)]
    shown = " and ".join(format(value, form) for value in known if value is not None)
    return f"nutpie's modes: {shown or 'not measured'}"


def weak_spots(table: Table) -> list[str]:
    found = []
    for model in table.models:
        low = [
            f"{number(value)} ({label})"
            for label, get in RATIOS[:-1]
            if (value := get(table, model)) is not None and value < 1.0
        ]
        troubles = [f"{', '.join(low)} times nutpie"] if low else []
        r_hat = table.largest(model, OURS, "r_hat")
        if r_hat is not None and r_hat >= CONVERGED:
            shown = peers_text(table, model, "r_hat", ".3f")
            troubles.append(f"R-hat up to {r_hat:.3f} ({shown})")
        minor = int(sum(table.values(model, OURS, "minor_chains")))
        if minor:
            troubles.append(
                f"{minor} of {4 * len(table.values(model, OURS, 'r_hat'))} chains in a minor mode"
            )
        for column in ("z_mean", "z_variance"):
            z = table.largest(model, OURS, column)
            if z is not None and z > LARGEST_Z:
                shown = peers_text(table, model, column, ".1f")
                troubles.append(f"{column.replace('_', ' of ')} {z:.1f} ({shown})")
        per_draw = table.typical(model, OURS, "ess_median_per_draw")
        if per_draw is not None and per_draw < 0.5:
            troubles.append(f"ESS per draw of the median parameter {per_draw:.2f}")
        if troubles:
            warned = sum(v > 0 for v in table.values(model, OURS, "warnings"))
            seeds = len(table.values(model, OURS, "warnings"))
            found.append(
                f"- **{model}**: {'; '.join(troubles)}. Warned in {warned} of {seeds} runs."
            )
    return found


def weak_text(table: Table) -> str:
    lines = weak_spots(table) or ["Nowhere in these rows."]
    return (
        "## Where it is weak\n\nModels with a ratio below 1, an R-hat of 1.01 or more, a chain in "
        f"a minor mode, a z above {LARGEST_Z} or draws worth less than half an independent one.\n\n"
        + "\n".join(lines)
    )


# ---------------------------------------------------------------- case studies


def other_models_text(table: Table, about: str) -> str:
    """Ratios and R-hats on the models of another folder, below a heading and what they are."""
    columns = {
        "better, after warm-up": "per_1000_draws",
        "better, all": "per_1000_all",
        "squares, better": "squares_per_1000_draws",
    }
    samplers = (OURS, DEFAULT, LOW_RANK)
    mixed = [m for m in table.models if all(table.is_mixed(m, s) for s in samplers)]
    rows = []
    for model in table.models:
        ratios = [table.ratio(model, column, peer="better") for column in columns.values()]
        r_hats = [table.largest(model, s, "r_hat") for s in samplers]
        shown = ["" if value is None else f"{value:.3f}" for value in r_hats]
        rows.append([model + ("" if model in mixed else " †"), *map(number, ratios), *shown])
    means = []
    for column in columns.values():
        known = table.ratios(column, peer="better")
        means.append(number(geometric_mean(known[m] for m in mixed if m in known)))
    rows.append(["**geometric mean without †**", *(f"**{mean}**" for mean in means), "", "", ""])
    seeds = len({row["seed"] for row in table.rows})
    header = ["model", *columns, "R-hat", "nutpie's R-hat", "low-rank R-hat"]
    return (
        f"{about}; {seeds} seeds. R-hat is the largest over parameters and seeds.\n\n"
        + markdown(header, rows)
    )


# ----------------------------------------------------------------------- modes


def modes_text(rows: Sequence[dict[str, str]]) -> str:
    """Chains in a minor mode over many seeds, from modes.csv."""
    body = []
    for model in dict.fromkeys(row["model"] for row in rows):
        for sampler in dict.fromkeys(row["sampler"] for row in rows):
            chosen = [r for r in rows if r["model"] == model and r["sampler"] == sampler]
            if chosen:
                minor, chains = (sum(int(r[c]) for r in chosen) for c in ("minor_chains", "chains"))
                shown = f"{minor} of {chains} ({100 * minor / chains:.0f} %)"
                body.append([model, sampler, str(len(chosen)), shown])
    return (
        "## Minor modes\n\nChains whose mean log density lies two standard deviations below the "
        "best chain's of their run, in short runs with many seeds (`modes.py`).\n\n"
        + markdown(["model", "sampler", "seeds", "chains in a minor mode"], body)
    )


# ----------------------------------------------------------------- correctness

CORRECT_Z, CORRECT_R_HAT = 4.5, 1.01


def correctness_text(rows: Sequence[dict[str, str]]) -> str:
    """The worst over the seeds of each model and generation of PyMC, from correctness.csv."""
    versions = sorted({row["pymc"] for row in rows})
    header, body, missed = ["model", "reference", "runs"], [], []
    for version in versions:
        header += [f"R-hat, PyMC {version}", "z of mean", "z of second moment"]
    for model in dict.fromkeys(row["model"] for row in rows):
        chosen = [row for row in rows if row["model"] == model]
        line = [model, chosen[0]["reference"], str(len(chosen))]
        for version in versions:
            of_version = [row for row in chosen if row["pymc"] == version]
            if not of_version:
                line += ["", "", ""]
                continue
            worst = [max(float(r[c]) for r in of_version) for c in ("r_hat", "z_mean", "z_second")]
            line += [f"{worst[0]:.4f}", f"{worst[1]:.2f}", f"{worst[2]:.2f}"]
            if worst[0] >= CORRECT_R_HAT or max(worst[1:]) >= CORRECT_Z:
                missed.append(f"{model} (PyMC {version})")
        body.append(line)
    outcome = f"not met by {', '.join(missed)}" if missed else "met by all"
    return (
        "## Correct on both generations of PyMC\n\nThe native path against the references, the "
        "worst of all runs and of all scored parameters (`correctness.py`, which says what "
        f"a z is). The bar, R-hat below {CORRECT_R_HAT} and z below {CORRECT_Z}, is "
        f"{outcome}.\n\n" + markdown(header, body)
    )


# ------------------------------------------------------------------------ page


def about(table: Table) -> str:
    seeds = sorted({int(row["seed"]) for row in table.rows})
    shown = ", ".join(map(str, seeds))
    runs = f"Four chains of 1000 draws after 1000 of warm-up; seeds {shown}."
    found = []
    for package in ("mjhmc_numba", "pymc", "nutpie", "numba", "arviz"):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ABOUT.format(runs=runs, versions=f"Versions: {', '.join(found)}.")


def write(efficiency: Path, ablation: Path, page: Path) -> None:
    """The page beside pictures in the folders of the CSV files."""
    table = Table(read(efficiency))
    parts = [about(table), bars_text(table)]
    correctness = efficiency.with_name("correctness.csv")
    if correctness.exists():
        parts.append(correctness_text(read(correctness)))
    modes = efficiency.with_name("modes.csv")
    if modes.exists():
        parts.append(modes_text(read(modes)))
    remarks = efficiency.with_name("remarks.md")
    if remarks.exists():
        parts.append(remarks.read_text().strip())
    parts += [ratios_text(table), weak_text(table)]
    for name, text in OTHER_MODELS.items():
        rows = efficiency.with_name(name)
        if rows.exists():
            parts.append(other_models_text(Table(read(rows)), text))
    parts += sections(efficiency.parent)
    draw_ratios(table, efficiency.with_suffix(".png"))
    if ablation.exists():
        rows = read(ablation)
        parts.append(ablation_text(rows))
        draw_ablation(ablation_ratios(rows, "per_1000_draws"), ablation.with_suffix(".png"))
    parts.append(absolute_text(table))
    page.write_text("\n\n".join(parts) + "\n")
