"""What each ingredient is worth: one changed at a time, all else tuned as always.

    python ablation.py [--models a,b] [--variants "leapfrog;full refresh"]
    python ablation.py --bench gallery --models rugby,baseball

Ingredients that have a setting are changed by it. Rules of the warm-up that have none are replaced
by one that does nothing (`RULES`); a rule that is no longer where it was is an error, so that this
table is kept true.

Rows are appended to results/ablation.csv; those that are there are not run again. Seed by seed, so
that what was interrupted has all variants of the models it has.
`efficiency.py report` makes the table and the picture.
"""

from __future__ import annotations

import argparse
import itertools
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import problems
from effective import Run, score
from efficiency import append_row, text
from measure import RESULTS
from results_table import read

import mjhmc_numba as mj
from mjhmc_numba.tuned import INTEGRATORS
from mjhmc_numba.warmup import spectrum

# Those that cost little, so that there can be many seeds.
TARGETS = [
    "scales_50",
    "rotated_50",
    "student_t_20",
    "log_gamma_10",
    "kidscore_interaction",
    "earn_height",
    "logearn_interaction",
    "mesquite",
    "nes2000",
    "sblrc",
    "arK",
    "garch11",
    "eight_schools_noncentered",
    "hier_logistic",
    "gp_regr",
    "low_dim_gauss_mix",
    "gauss_ill100",
    "funnel_noncentered",
    "funnel_centered",
    "rough_well",
]

SETTINGS = {
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
    "one start": mj.Settings(starts=1),
    "draws a path apart": mj.Settings(most_spacing=1),
    "g: Barker": mj.Settings(rates="barker"),
    "g: sqrt (and Poisson)": mj.Settings(rates="sqrt"),
    "the paper's rule": mj.Settings.paper(),
}

WARMUP = "mjhmc_numba.warmup"


def never(*_: Any, **__: Any) -> bool:
    return False


# What stands in the place of a rule that has no setting.
RULES: dict[str, dict[str, Any]] = {
    "no harmonic integrator": {f"{WARMUP}.motion._with_harmonic": lambda best, *_: best},
    "no two stages": {f"{WARMUP}.motion.STAGES": 0.0},
    "no longer paths where draws are alike": {f"{WARMUP}.tuner.lengthening": lambda alike: 1.0},
    "no rotation": {f"{WARMUP}.independence.IndependenceProposal._free": property(never)},
    "no fine metric for harmonic": {f"{WARMUP}.motion.FINE_DETAIL": spectrum.COARSE_DETAIL},
}
VARIANTS = [*SETTINGS, *RULES]
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
    "cpu_seconds",
    "notes",
]


def gradients_of_flips(result: mj.Result) -> int:
    """What it would cost to compute a rung anew after every flip, as the paper does."""
    flips = result.stats["n_F"].sum(axis=1)
    cost = [tuned.num_steps * INTEGRATORS[tuned.integrator][0] for tuned in result.tuned]
    return int(flips @ cost)


def rows_of(problem: problems.Problem, variant: str, seed: int, arguments) -> list[dict]:
    """The row of a variant, and the one without a cache if it has one."""
    settings = SETTINGS.get(variant, mj.Settings())
    with ExitStack() as changed:
        for place, instead in RULES.get(variant, {}).items():
            changed.enter_context(mock.patch(place, instead))
        began = time.process_time()
        run, result = problem.mjhmc(seed, arguments.draws, arguments.tune, settings=settings)
        cpu_seconds = time.process_time() - began
    base = {"model": problem.name, "seed": seed, "flips": int(result.stats["n_F"].sum())}
    base |= {"cpu_seconds": cpu_seconds, "notes": run.notes}
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
    parser.add_argument("--seeds", default="301,302,303,304,305")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=RESULTS / "ablation.csv")
    arguments = parser.parse_args()
    cheap = arguments.bench == problems.POSTERIORS and ",".join(TARGETS)
    chosen = problems.choose(arguments.models or cheap or None, arguments.bench)
    variants = arguments.variants.split(";") if arguments.variants else VARIANTS
    known = read(arguments.out) if arguments.out.exists() else []
    done = {(row["model"], row["variant"], int(row["seed"])) for row in known}
    loaded: dict[str, problems.Problem] = {}
    for seed in map(int, arguments.seeds.split(",")):
        for name, variant in itertools.product(chosen, variants):
            if (name, variant, seed) in done:
                continue
            if name not in loaded:
                loaded[name] = problems.load(name, arguments.bench)
            for row in rows_of(loaded[name], variant, seed, arguments):
                append_row(arguments.out, COLUMNS, row)
                print(name, seed, row["variant"], text(row["per_1000_draws"]), flush=True)


if __name__ == "__main__":
    main()
