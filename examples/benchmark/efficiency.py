"""Effective samples per gradient of the worst parameter, against nutpie.

    python efficiency.py                            # the PyMC models in posteriors/
    python efficiency.py --bench case_studies --out results/case_studies.csv
    python efficiency.py --bench DIR                # those of another folder, see problems.py
    python efficiency.py --models normal_10,banana --samplers mjhmc --seeds 1,2    # built-in ones
    python efficiency.py report                     # RESULTS.md and pictures from the CSV files

Rows are appended to results/efficiency.csv; those that are there are not run again. Each problem
has its own process, so that one that crashes takes no other with it.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from pathlib import Path

import problems
import results_page
from effective import Run, score
from measure import RESULTS

SAMPLERS = {
    "mjhmc": {},
    "mjhmc_diag": {"metric": "diag"},
    "nutpie": {"low_rank": False},
    "nutpie_lowrank": {"low_rank": True},
    "pymc": {},
}
# PyMC's own NUTS is in no table and takes long: it is run where it is asked for.
USUAL = [name for name in SAMPLERS if name != "pymc"]
COLUMNS = [
    "model",
    "sampler",
    "seed",
    "dim",
    "scored",
    "ess_bulk",
    "ess_tail",
    "ess_squares",
    "ess_median_per_draw",
    "gradients_warmup",
    "gradients_draws",
    "per_1000_draws",
    "per_1000_all",
    "squares_per_1000_draws",
    "squares_per_1000_all",
    "r_hat",
    "divergences",
    "warnings",
    "logp_spread",
    "minor_chains",
    "z_mean",
    "z_variance",
    "seconds",
    "cpu_seconds",
    "notes",
]


def known_rows(path: Path) -> set[tuple[str, str, int]]:
    """Model, sampler and seed of the rows that a file has."""
    if not path.exists():
        return set()
    with open(path, newline="") as file:
        return {(row["model"], row["sampler"], int(row["seed"])) for row in csv.DictReader(file)}


def append_row(path: Path, columns: list[str], row: dict) -> None:
    """Add a row to a file; one that was begun with other columns keeps them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    if not is_new:
        with open(path, newline="") as file:
            columns = next(csv.reader(file))
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow({key: text(row[key]) for key in columns})


def text(value) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def run_sampler(problem: problems.Problem, sampler: str, seed: int, draws: int, tune: int) -> Run:
    options = SAMPLERS[sampler]
    if sampler.startswith("nutpie"):
        return problem.nutpie(seed, draws, tune, **options)
    if sampler == "pymc":
        return problem.pymc(seed, draws, tune)
    return problem.mjhmc(seed, draws, tune, **options)[0]


def measure_problem(name: str, todo: list[tuple[str, int]], arguments) -> None:
    """Run samplers and seeds on one problem, a row for each."""
    problem = problems.load(name, arguments.bench)
    for sampler, seed in todo:
        problem.compile(sampler)
        began, cpu_began = time.perf_counter(), time.process_time()
        run = run_sampler(problem, sampler, seed, arguments.draws, arguments.tune)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        row = {
            "model": name,
            "sampler": sampler,
            "seed": seed,
            "dim": problem.dim,
            "scored": run.draws.shape[2],
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "notes": run.notes,
            **score(run, problem.moments),
        }
        append_row(arguments.out, COLUMNS, row)
        shown = {k: text(row[k]) for k in ("per_1000_draws", "per_1000_all", "r_hat", "z_mean")}
        print(f"{name} {sampler} {seed} {shown} {seconds:.1f} s", flush=True)


def run_all(arguments) -> None:
    """A process for each problem that lacks rows."""
    done, failed = known_rows(arguments.out), []
    for name in arguments.models:
        missing = [
            (sampler, seed)
            for sampler in arguments.samplers
            for seed in arguments.seeds
            if (name, sampler, seed) not in done
        ]
        if not missing:
            continue
        command = [sys.executable, __file__, "--one", "--models", name]
        command += ["--samplers", ",".join(arguments.samplers)]
        command += ["--seeds", ",".join(map(str, arguments.seeds))]
        command += ["--draws", str(arguments.draws), "--tune", str(arguments.tune)]
        command += ["--out", str(arguments.out), "--bench", str(arguments.bench)]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"Failed, and left out: {', '.join(failed)}")


def run_one(arguments) -> None:
    """In this process: all that is missing of one problem."""
    done = known_rows(arguments.out)
    (name,) = arguments.models
    todo = [(s, k) for s in arguments.samplers for k in arguments.seeds if (name, s, k) not in done]
    measure_problem(name, todo, arguments)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="run", choices=["run", "report"])
    problems.add_folder(parser)
    parser.add_argument("--models", help="names, separated by commas; all if not given")
    parser.add_argument("--samplers", default=",".join(USUAL), help=", ".join(SAMPLERS))
    parser.add_argument("--seeds", default="201,202,203")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=RESULTS / "efficiency.csv")
    parser.add_argument("--ablation", type=Path, default=RESULTS / "ablation.csv")
    parser.add_argument("--page", type=Path, default=Path(__file__).with_name("RESULTS.md"))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    arguments.samplers = arguments.samplers.split(",")
    arguments.seeds = [int(seed) for seed in arguments.seeds.split(",")]
    unknown = set(arguments.samplers) - set(SAMPLERS)
    if unknown:
        parser.error(
            f"unknown samplers: {', '.join(sorted(unknown))}; known: {', '.join(SAMPLERS)}"
        )
    if arguments.what == "run":
        arguments.models = problems.choose(arguments.models, arguments.bench)
    return arguments


def main() -> None:
    arguments = parse()
    if arguments.what == "report":
        results_page.write(arguments.out, arguments.ablation, arguments.page)
    elif arguments.one:
        run_one(arguments)
    else:
        run_all(arguments)


if __name__ == "__main__":
    main()
