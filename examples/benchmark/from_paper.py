"""From the paper's process to the default, step by step, and what each of its outputs is worth.

    python from_paper.py [--seeds 20]

Rows are written to results/from_paper.csv and results/from_paper_outputs.csv, and tables of them
into docs/weighted_draws.md; `--report` makes the tables alone.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np
import problems
from ablation import uncached
from effective import score
from efficiency import append_row, text
from measure import RESULTS
from results_table import MIXED, geometric_mean, read

import mjhmc_numba as mj
from mjhmc_numba import weights
from mjhmc_numba.settings import PAPER

MODELS = ("eight_schools_noncentered", "arK", "garch11")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "weighted_draws.md"

COMPETING = PAPER | {"rates": "metropolis", "method": "competing"}
# Each row changes one thing in the row above it; all else is tuned.
STEPS = {
    "every rung computed anew after a flip, as the paper does (computed)": None,
    "the paper's process: square-root rates, Poisson time, leapfrog; rungs kept": PAPER,
    "Metropolis rates": COMPETING,
    "thinned: neighbours looked at when needed": COMPETING | {"method": "thinning"},
    "regular clock": COMPETING | {"method": "thinning", "clock": "regular"},
    "tuned integrator, jitter, refined rungs: the default": {},
}
UNCACHED, FIRST, *_ = STEPS
STEP_COLUMNS = ["model", "step", "seed", "gradients_draws", "per_1000_draws", "r_hat"]
OUTPUT_COLUMNS = ["model", "output", "chains", "effective", "per_1000_draws"]


def step_rows(problem: problems.Problem, seed: int, draws: int, tune: int) -> list[dict]:
    """One run of each step."""
    rows = []
    for step, options in STEPS.items():
        if options is None:
            continue
        settings = mj.Settings(**options)
        run, result = problem.mjhmc(seed, draws, tune, settings=settings)
        rows.append({"model": problem.name, "step": step, "seed": seed} | score(run))
        if step == FIRST:
            rows.insert(0, rows[0] | {"step": UNCACHED} | score(uncached(run, result)))
    return rows


def chain_means(problem: problems.Problem, seed: int, draws: int, tune: int):
    """Means (chain, parameter) by each output of the paper's process, and its gradients."""
    run, result = problem.mjhmc(seed, draws, tune, settings=mj.Settings.paper(), jumps=True)
    assert result.jumps is not None
    means: dict[str, list[np.ndarray]] = {"clock draws": list(run.draws.mean(axis=1))}
    rng = np.random.default_rng(seed)
    for record in result.jumps:
        x = problem.scored(record["x"][None])[0]
        expected, sampled = record["expected_holding_time"], record["holding_time"]
        made = {
            "weighted by expected holding times": weights.mean(x, expected),
            "weighted by sampled holding times": weights.mean(x, sampled),
        }
        for method in ("systematic", "stratified", "multinomial"):
            chosen = weights.resample(expected, draws, method, rng)
            made[f"resampled, {method}"] = x[chosen].mean(axis=0)
        for output, mean in made.items():
            means.setdefault(output, []).append(mean)
    return means, run.draws.var(axis=(0, 1)), run.gradients["draws"] / len(result.jumps)


def output_rows(problem: problems.Problem, seeds: range, draws: int, tune: int) -> list[dict]:
    """Effective numbers of draws per chain: the variance of a draw over that of chains' means."""
    runs = [chain_means(problem, seed, draws, tune) for seed in seeds]
    variance = np.mean([run[1] for run in runs], axis=0)
    gradients = np.mean([run[2] for run in runs])
    rows = []
    for output in runs[0][0]:
        means = np.concatenate([run[0][output] for run in runs])
        # The harmonic mean over parameters, which have scales of their own.
        effective = float(1 / np.mean(means.var(axis=0, ddof=1) / variance))
        rows.append(
            {
                "model": problem.name,
                "output": output,
                "chains": len(means),
                "effective": effective,
                "per_1000_draws": 1000.0 * effective / gradients,
            }
        )
    return rows


# ------------------------------------------------------------------ tables


def step_table(rows: list[dict[str, str]]) -> list[str]:
    """Effective samples per 1000 gradients, each step's factor, and runs that did not mix."""
    lines = [
        f"| step | {' | '.join(MODELS)} | factor of this step | runs with R-hat > {MIXED} |",
        "|---|" + "---|" * (len(MODELS) + 2),
    ]
    before = None
    for step in STEPS:
        here = [_typical(rows, "step", step, model) for model in MODELS]
        r_hats = [float(row["r_hat"]) for row in rows if row["step"] == step]
        unmixed = f"{sum(r > MIXED for r in r_hats)} of {len(r_hats)}"
        factor = "" if before is None else f"{_factor(here, before):.2f}"
        lines.append(
            f"| {step} | {' | '.join(f'{value:.0f}' for value in here)} | {factor} | {unmixed} |"
        )
        before = here
    return lines


def output_table(rows: list[dict[str, str]]) -> list[str]:
    """Effective samples per 1000 gradients of one run's outputs, and their share of the best."""
    outputs = list(dict.fromkeys(row["output"] for row in rows))
    best = [_typical(rows, "output", "weighted by expected holding times", m) for m in MODELS]
    lines = [
        f"| output | {' | '.join(MODELS)} | of the first row |",
        "|---|" + "---|" * (len(MODELS) + 1),
    ]
    table = {o: [_typical(rows, "output", o, model) for model in MODELS] for o in outputs}
    for output, here in sorted(table.items(), key=lambda row: -_factor(row[1], best)):
        numbers = " | ".join(f"{value:.0f}" for value in here)
        lines.append(f"| {output} | {numbers} | {_factor(here, best):.2f} |")
    return lines


def _typical(rows, key: str, name: str, model: str) -> float:
    """The median over the seeds: a run that does not mix counts as one, however bad."""
    chosen = [r for r in rows if r[key] == name and r["model"] == model]
    return statistics.median(float(row["per_1000_draws"]) for row in chosen)


def _factor(here: list[float], before: list[float]) -> float:
    factor = geometric_mean(a / b for a, b in zip(here, before, strict=True))
    assert factor is not None
    return factor


def replaced(page: str, name: str, lines: list[str]) -> str:
    """The page with new lines between its two marks of this name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = page.split(begin)
    return before + begin + "\n".join(["", *lines, "", ""]) + end + rest.split(end)[1]


def page_of(page: str, results: Path) -> str:
    """The page with tables of what is in the CSV files."""
    page = replaced(page, "steps", step_table(read(results / "from_paper.csv")))
    return replaced(page, "outputs", output_table(read(results / "from_paper_outputs.csv")))


def measure(arguments) -> None:
    files = {n: arguments.results / f"{n}.csv" for n in ("from_paper", "from_paper_outputs")}
    for path in files.values():
        path.unlink(missing_ok=True)
    for name in MODELS:
        problem = problems.load(name)
        for seed in range(401, 401 + arguments.seeds):
            for row in step_rows(problem, seed, arguments.draws, arguments.tune):
                append_row(files["from_paper"], STEP_COLUMNS, row)
                print(name, seed, row["step"], text(row["per_1000_draws"]), flush=True)
        seeds = range(501, 501 + arguments.chains // problems.CHAINS)
        for row in output_rows(problem, seeds, arguments.draws, arguments.tune):
            append_row(files["from_paper_outputs"], OUTPUT_COLUMNS, row)
            print(name, row["output"], text(row["per_1000_draws"]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=9)
    parser.add_argument("--chains", type=int, default=200, help="for the table of outputs")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=1000)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true", help="make the tables alone")
    arguments = parser.parse_args()
    if not arguments.report:
        measure(arguments)
    if arguments.results == RESULTS:
        PAGE.write_text(page_of(PAGE.read_text(), RESULTS))


if __name__ == "__main__":
    main()
