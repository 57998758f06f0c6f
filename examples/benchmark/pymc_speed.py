"""The native path beside nutpie on PyMC models: time per gradient.

    python pymc_speed.py [--bench DIR] [--models a,b]

Of one chain on one thread: what a long run takes more than a short one with the same warm-up, over
the gradients that it makes more. All that is done for a draw counts, what is done once per run does
not. The bar is for models that are not small. Start-up is measured by `whole_runs.py`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import problems
from measure import interleaved, ratio, report, verdict

GRADIENT_BAR = 1.1
SMALL = 10.0  # microseconds of nutpie's gradient below which a model is small and has no bar
DRAWS, TUNE = (500, 2500), 500
GRADIENTS = [
    "gp_regr",
    "garch11",
    "hmm_example",
    "hier_logistic",
    "gauss_ill100",
    "stoch_vol",
    "lotka_volterra",
]


def run_mjhmc(compiled, draws: int, **options):
    return compiled.sample(
        draws=draws,
        tune=TUNE,
        chains=1,
        cores=1,
        random_seed=1,
        progressbar=False,
        compute_convergence_checks=False,
        **options,
    )


def run_nutpie(compiled, draws: int, **options):
    import nutpie

    return nutpie.sample(
        compiled,
        draws=draws,
        tune=TUNE,
        chains=1,
        cores=1,
        seed=1,
        progress_bar=False,
        **options,
    )


def time_gradient(run: Callable) -> float:
    """Seconds per gradient: what a long run takes more than a short one with the same warm-up."""
    seconds, count = [], []
    for draws in DRAWS:
        began = time.perf_counter()
        data = run(draws)
        seconds.append(time.perf_counter() - began)
        count.append(float(data["sample_stats"]["n_steps"].sum()))
    return (seconds[1] - seconds[0]) / (count[1] - count[0])


def gradients(name: str, bench: Path, repeats: int) -> dict:
    """A row of times per gradient."""
    import nutpie

    from mjhmc_numba.pymc import compile as compile_model

    problem = problems.load(name, bench)
    ours, theirs = compile_model(problem.model), problem.nutpie_model[0]
    low_rank = problems.low_rank_options(nutpie.sample)
    runs = {
        "mjhmc": lambda draws: run_mjhmc(ours, draws),
        "mjhmc diagonal": lambda draws: run_mjhmc(ours, draws, metric="diag"),
        "nutpie": lambda draws: run_nutpie(theirs, draws),
        "nutpie low-rank": lambda draws: run_nutpie(theirs, draws, **low_rank),
    }
    costs = interleaved({what: partial(time_gradient, run) for what, run in runs.items()}, repeats)
    shown = {f"{what} us": 1e6 * statistics.median(values) for what, values in costs.items()}
    ratios = {
        "defaults": ratio(costs, "mjhmc", "nutpie"),
        "both diagonal": ratio(costs, "mjhmc diagonal", "nutpie"),
        "both low-rank": ratio(costs, "mjhmc", "nutpie low-rank"),
    }
    bar = GRADIENT_BAR if shown["nutpie us"] >= SMALL else None
    return {
        "model": name,
        "dimensions": problem.dim,
        **shown,
        **ratios,
        "bar": bar,
        "verdict": verdict(max(ratios.values()), bar),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_folder(parser)
    parser.add_argument("--models", help="names, separated by commas; those of SPEED.md if not")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of measurements")
    arguments = parser.parse_args()
    bench = arguments.bench
    names = problems.choose(arguments.models or ",".join(GRADIENTS), bench)
    report("pymc_gradients", [gradients(n, bench, arguments.repeats) for n in names], "model")


if __name__ == "__main__":
    main()
