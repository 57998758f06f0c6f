"""Means, second moments and R-hat of PyMC models against their references.

    python correctness.py [--bench DIR] [--models a,b] [--seeds 301,302]

Rows are appended to results/correctness.csv, under the version of PyMC that made them: run it in
an environment of each generation. Rows that are there are not made again. Each model has its own
process. `efficiency.py report` makes a table of them.

An error is measured in units of its Monte Carlo error, our own and the reference's together. Our
own is sd / sqrt(ESS), where sd is the larger of the draws' standard deviation and the known one: in
heavy tails, such as those of a funnel's squares, that of the draws is nearly always too small.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import problems
import pymc
from effective import ess, r_hat
from efficiency import append_row
from measure import RESULTS

import mjhmc_numba as mj
import mjhmc_numba.pymc as mp

COLUMNS = ["pymc", "model", "seed", "reference", "r_hat", "z_mean", "z_second", "warnings"]
VERSION = ".".join(pymc.__version__.split(".")[:2])


def worst_z(values: np.ndarray, known, sd, error) -> float:
    """Largest |mean - known| over parameters (chain, draw, k), in Monte Carlo errors."""
    own = np.maximum(values.std(axis=(0, 1), ddof=1), sd) / np.sqrt(
        np.maximum(ess(values, "mean"), 1.0)
    )
    gap = np.abs(values.mean(axis=(0, 1)) - known)
    return float(np.max(gap / np.sqrt(own**2 + np.square(error))))


def check(name: str, entry, seed: int) -> dict:
    """One run by the native path, and how far it is from the reference."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", mj.SamplingWarning)
        data = mp.compile(entry()).sample(
            random_seed=seed, progressbar=False, compute_convergence_checks=False
        )
    parts = [np.asarray(data["posterior"][v].values, dtype=float) for v in entry.var_names]
    draws = np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2)
    shapes = {v: p.shape[2:] for v, p in zip(entry.var_names, parts, strict=True)}
    known = entry.reference().take(entry.param_names(shapes))
    return {
        "pymc": VERSION,
        "model": name,
        "seed": seed,
        "reference": known.kind,
        "r_hat": float(r_hat(draws).max()),
        "z_mean": worst_z(draws, known.mean, known.sd, known.mcse_mean),
        "z_second": worst_z(draws**2, known.m2, known.sd_sq, known.mcse_m2),
        "warnings": sum(issubclass(w.category, mj.SamplingWarning) for w in caught),
    }


def known_rows(path: Path) -> set[tuple[str, str, int]]:
    if not path.exists():
        return set()
    with open(path, newline="") as file:
        return {(row["pymc"], row["model"], int(row["seed"])) for row in csv.DictReader(file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_folder(parser)
    parser.add_argument("--models", help="names, separated by commas; all if not given")
    parser.add_argument("--seeds", default="301,302,303")
    parser.add_argument("--out", type=Path, default=RESULTS / "correctness.csv")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    entries = problems.bench_models(arguments.bench)
    wanted = problems.choose(arguments.models, arguments.bench)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    done = known_rows(arguments.out)
    for name in wanted:
        missing = [seed for seed in seeds if (VERSION, name, seed) not in done]
        if arguments.one:
            for seed in missing:
                row = check(name, entries[name], seed)
                append_row(arguments.out, COLUMNS, row)
                print(*row.values(), flush=True)
        elif missing:
            subprocess.run([sys.executable, *sys.argv, "--one", "--models", name], check=True)


if __name__ == "__main__":
    main()
