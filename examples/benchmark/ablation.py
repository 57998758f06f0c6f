"""What each ingredient is worth: one changed at a time, all else tuned as always.

    python ablation.py [--models a,b] [--variants "leapfrog;full refresh"]

Rows are appended to results/ablation.csv; those that are there are not run again.
`efficiency.py report` makes the table and the picture.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import problems
from effective import Run, score
from efficiency import append_row, text
from measure import RESULTS
from results_table import read

import mjhmc_numba as mj
from mjhmc_numba.tuned import INTEGRATORS

TARGETS = [
    "scales_50",
    "rotated_50",
    "student_t_20",
    "log_gamma_10",
    "eight_schools_noncentered",
    "garch11",
    "hier_logistic",
]

VARIANTS = {
    "default": mj.Settings(),
    "clock: Poisson": mj.Settings(clock="poisson"),
    "no thinning (and Poisson)": mj.Settings(method="competing", clock="poisson"),
    "full refresh": mj.Settings(refresh_alpha=0.0),
    "leapfrog": mj.Settings(integrator="leapfrog"),
    "diagonal metric": mj.Settings(metric="diag"),
    "no reparametrisation": mj.Settings(reparametrisation="none"),
    "no step jitter": mj.Settings(step_jitter=0.0),
    "path jitter 0.3": mj.Settings(refresh_jitter=0.3),
    "no refined rungs": mj.Settings(refine_levels=0),
    "g: Barker": mj.Settings(rates="barker"),
    "g: sqrt (and Poisson)": mj.Settings(rates="sqrt"),
    "the paper's rule": mj.Settings.paper(),
}
# The kernel cannot do without its cache of rungs: these rows are computed from those of a variant.
UNCACHED = {
    "default": "no ladder cache (computed)",
    "the paper's rule": "the paper's rule, no ladder cache (computed)",
}
COLUMNS = [
    "model",
    "variant",
    "seed",
    "gradients_warmup",
    "gradients_draws",
    "per_1000_draws",
    "per_1000_all",
    "squares_per_1000_draws",
    "r_hat",
    "divergences",
    "flips",
]


def gradients_of_flips(result: mj.Result) -> int:
    """What it would cost to compute a rung anew after every flip, as the paper does."""
    flips = result.stats["n_F"].sum(axis=1)
    cost = [tuned.num_steps * INTEGRATORS[tuned.integrator][0] for tuned in result.tuned]
    return int(flips @ cost)


def rows_of(problem: problems.Problem, variant: str, seed: int, arguments) -> list[dict]:
    """The row of a variant, and the one without a cache if it has one."""
    run, result = problem.mjhmc(seed, arguments.draws, arguments.tune, settings=VARIANTS[variant])
    base = {"model": problem.name, "seed": seed, "flips": int(result.stats["n_F"].sum())}
    rows = [base | {"variant": variant} | score(run)]
    if variant in UNCACHED:
        rows.append(base | {"variant": UNCACHED[variant]} | score(uncached(run, result)))
        rows[-1]["per_1000_all"] = None  # flips of the warm-up are not counted
    return rows


def uncached(run: Run, result: mj.Result) -> Run:
    made = run.gradients["draws"] + gradients_of_flips(result)
    return run._replace(gradients={"warmup": run.gradients["warmup"], "draws": made})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_folder(parser)
    parser.add_argument("--models", help="names, separated by commas")
    parser.add_argument("--variants", help="names, separated by semicolons; all if not given")
    parser.add_argument("--seeds", default="301,302,303")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=RESULTS / "ablation.csv")
    arguments = parser.parse_args()
    chosen = problems.choose(arguments.models or ",".join(TARGETS), arguments.bench)
    variants = arguments.variants.split(";") if arguments.variants else list(VARIANTS)
    known = read(arguments.out) if arguments.out.exists() else []
    done = {(row["model"], row["variant"], int(row["seed"])) for row in known}
    loaded = {name: problems.load(name, arguments.bench) for name in chosen}
    for seed in map(int, arguments.seeds.split(",")):
        for name, variant in itertools.product(chosen, variants):
            if (name, variant, seed) in done:
                continue
            for row in rows_of(loaded[name], variant, seed, arguments):
                append_row(arguments.out, COLUMNS, row)
                print(name, seed, row["variant"], text(row["per_1000_draws"]), flush=True)


if __name__ == "__main__":
    main()
