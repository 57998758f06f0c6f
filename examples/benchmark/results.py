"""All of RESULTS.md: every program whose rows stand on it, one after the other, and the page.

    python results.py                          # the rows that are missing, and the page again
    python results.py --results DIR            # all of them anew, in an empty folder: hours
    python results.py --models arK --seeds 1   # a part of them, in results/part
    python results.py --quick                  # a few short runs, in results/part: minutes

Each program writes a CSV file and makes no row twice, so what was interrupted goes on. The stored
results stay as they are when only a part is asked for.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import ablation
import efficiency
import modes
import motion_search
import problems
import results_page
from measure import RESULTS

HERE = Path(__file__).resolve().parent
NORMALS = ["normal_10", "normal_100", "normal_1000"]
QUICK = {"models": "arK,normal_10", "samplers": "mjhmc,nutpie", "seeds": "1"}
QUICK_LENGTH = ["--draws", "200", "--tune", "200"]


def program(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(HERE / f"{name}.py"), *arguments]


def commands(arguments) -> list[list[str]]:
    """The programs with their arguments, those left out that no chosen model concerns."""
    folder, chosen = arguments.results, arguments.models
    posteriors = list(problems.bench_models(problems.POSTERIORS))
    studies = list(problems.bench_models(HERE / "case_studies"))
    real = list(problems.bench_models(HERE / "gallery"))
    known = list(problems.bench_models(HERE / "several_modes"))

    def among(names: list[str]) -> str:
        return ",".join(name for name in names if chosen is None or name in chosen)

    length = QUICK_LENGTH if arguments.quick else []
    seeds = ["--seeds", arguments.seeds] if arguments.seeds else []
    samplers = ["--samplers", arguments.samplers]
    number = ["--seeds", str(len(arguments.seeds.split(",")))] if arguments.seeds else []
    steps = [
        ("efficiency", among(posteriors), "efficiency.csv", [*samplers, *seeds, *length]),
        ("efficiency", among(NORMALS), "efficiency.csv", ["--samplers", "mjhmc", *seeds, *length]),
        (
            "efficiency",
            among(studies),
            "case_studies.csv",
            ["--bench", "case_studies", *samplers, *seeds, *length],
        ),
        ("modes", among(modes.MODELS), "modes.csv", number),
        ("ablation", among(ablation.TARGETS), "ablation.csv", [*seeds, *length]),
    ]
    if not arguments.quick:
        steps += [
            ("per_second", among(real), "per_second.csv", ["--bench", "gallery", *seeds]),
            ("per_second", among(posteriors), "per_second.csv", seeds),
            ("motion_search", among(motion_search.TARGETS), "motion_search.csv", []),
            ("modes", among(known), "modes_known.csv", ["--bench", "several_modes", *number]),
        ]
        steps.append(("correctness", among(posteriors), "correctness.csv", seeds))
    return [
        program(name, "--models", models, "--out", str(folder / file), *more)
        for name, models, file, more in steps
        if models
    ]


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, help="folder of the CSV files")
    parser.add_argument("--models", help="names, separated by commas; all if not given")
    parser.add_argument("--samplers", help=", ".join(efficiency.SAMPLERS))
    parser.add_argument("--seeds", help="numbers, separated by commas; each program's if not given")
    parser.add_argument("--quick", action="store_true", help="a few short runs")
    arguments = parser.parse_args(argv)
    for name, value in QUICK.items() if arguments.quick else ():
        setattr(arguments, name, getattr(arguments, name) or value)
    in_part = arguments.models or arguments.samplers or arguments.seeds
    arguments.results = arguments.results or (RESULTS / "part" if in_part else RESULTS)
    arguments.samplers = arguments.samplers or ",".join(efficiency.USUAL)
    arguments.models = arguments.models.split(",") if arguments.models else None
    known = {*NORMALS, *ablation.TARGETS, *problems.bench_models(problems.POSTERIORS)}
    for folder in ("case_studies", "gallery", "several_modes"):
        known |= set(problems.bench_models(HERE / folder))
    unknown = set(arguments.models or ()) - known
    if unknown:
        parser.error(f"unknown models: {', '.join(sorted(unknown))}")
    return arguments


def main() -> None:
    arguments = parse()
    failed = []
    for command in commands(arguments):
        if subprocess.run(command, check=False).returncode:
            failed.append(" ".join(command[1:4]))
    stored = arguments.results == RESULTS
    page = (HERE if stored else arguments.results) / "RESULTS.md"
    rows = arguments.results / "efficiency.csv"
    if rows.exists():
        results_page.write(rows, arguments.results / "ablation.csv", page)
        print(page)
    if failed:
        sys.exit("Failed, and left out: " + "; ".join(failed))


if __name__ == "__main__":
    main()
