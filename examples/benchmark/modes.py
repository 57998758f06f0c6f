"""How many chains end in a minor mode, over many seeds, against nutpie.

    python modes.py [--bench DIR] [--models lotka_volterra]
    python modes.py --bench several_modes --out results/modes_known.csv

Short runs: where a chain ends is decided in the first hundred gradients. A row per run is appended
to results/modes.csv; rows that are there are not run again. `efficiency.py report` reads them.

Where a folder knows the parameters that its data were simulated with (`TRUTH` of its models.py), a
chain is in a minor mode if its mean log density lies two standard deviations below that of a chain
started there; elsewhere, if it lies so far below that of the best chain of the run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import problems
from effective import MINOR_MODE, Run, score
from efficiency import SAMPLERS, append_row, known_rows
from measure import RESULTS

import mjhmc_numba as mj

COLUMNS = [
    "model",
    "sampler",
    "seed",
    "chains",
    "minor_chains",
    "gradients_warmup",
    "r_hat",
    "warnings",
    "below",
]
MODELS = ["lotka_volterra"]
DRAWS = 100
# Nutpie's own number; ours is that of the other benchmarks.
TUNE = {"mjhmc": 1000, "nutpie": 400}


def point_at(model, truth: dict) -> dict:
    """A model's initial point, but with these values of its variables."""
    point = model.initial_point()
    for rv in model.free_RVs:
        value, transform = model.rvs_to_values[rv], model.rvs_to_transforms[rv]
        there = truth[rv.name]
        if transform is not None:
            there = transform.forward(there, *rv.owner.inputs).eval()
        point[value.name] = np.asarray(there, dtype=float)
    return point


def main_mode(problem, truth: dict) -> tuple[float, float]:
    """Mean and standard deviation of the log density, of chains that start at the truth."""
    result = mj.sample(
        problem.target(),
        problem.density.layout.ravel(point_at(problem.model, truth)),
        chains=2,
        cores=1,
        draws=500,
        tune=400,
        seed=1,
        starts=1,
        progress=False,
    )
    logp = result.stats["lp"]
    return float(logp.mean()), float(logp.std())


def far_below(run: Run, known: tuple[float, float] | None) -> np.ndarray:
    """How far each chain's mean log density lies below the main mode's, in its deviations."""
    means = run.logp.mean(axis=1)
    level, sd = known or (means.max(), float(np.median(run.logp.std(axis=1))))
    return (level - means) / sd


def run_sampler(problem, sampler: str, seed: int) -> Run:
    if sampler == "nutpie":
        return problem.nutpie(seed, DRAWS, TUNE[sampler], **SAMPLERS[sampler])
    return problem.mjhmc(seed, DRAWS, TUNE[sampler])[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_folder(parser)
    parser.add_argument("--models", help="names, separated by commas")
    parser.add_argument("--samplers", default=",".join(TUNE))
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--out", type=Path, default=RESULTS / "modes.csv")
    arguments = parser.parse_args()
    truths = getattr(problems.bench_module(arguments.bench), "TRUTH", None)
    usual = ",".join(MODELS) if truths is None else None
    done = known_rows(arguments.out)
    for name in problems.choose(arguments.models or usual, arguments.bench):
        problem = problems.load(name, arguments.bench)
        known = None if truths is None else main_mode(problem, truths[name])
        for sampler in arguments.samplers.split(","):
            for seed in range(701, 701 + arguments.seeds):
                if (name, sampler, seed) in done:
                    continue
                run = run_sampler(problem, sampler, seed)
                below = far_below(run, known)
                row = score(run) | {"model": name, "sampler": sampler, "seed": seed}
                row |= {"chains": len(run.draws), "minor_chains": int((below > MINOR_MODE).sum())}
                row["below"] = "/".join(f"{value:.2g}" for value in below)
                append_row(arguments.out, COLUMNS, row)
                print(name, sampler, seed, row["minor_chains"], row["below"], flush=True)


if __name__ == "__main__":
    main()
