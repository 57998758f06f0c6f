"""How often do tests fail that are right? Run those that draw random numbers with other seeds.

    python tests/statistical/audit.py [--seeds 200] [--first 1] [--minutes 25] [--out FILE]
                                      [--select long] [paths ...]

Each seed shifts all seeds of the tests (MJHMC_NUMBA_TEST_SEED, see `conftest.py`). Which tests ask
for seeds is found by their fixture. A line is appended to the file for each seed: how many tests
ran, how many failed, and which. Seeds that the file has are not run again. The last lines say what
share of all has failed; less than one in a thousand should.
"""

import argparse
import csv
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "examples" / "benchmark" / "results"
COLUMNS = ["selection", "seed", "tests", "failed", "seconds", "which"]
BAR = 1e-3


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run_seed(seed, paths, mark):
    """Numbers of tests and of failures, seconds, and the names of what failed."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
    command += ["-p", "tests.statistical.seeded", "-m", mark, *paths]
    began = time.monotonic()
    environment = os.environ | {"MJHMC_NUMBA_TEST_SEED": str(seed)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout + done.stderr)
    counts = {name: int(n) for n, name in re.findall(r"(\d+) (passed|failed)", done.stdout)}
    which = re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    failed = counts.get("failed", 0)
    return failed + counts.get("passed", 0), failed, time.monotonic() - began, which


def known_rows(path):
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def append_row(path, row):
    is_new = not path.exists()
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=["tests"])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--select", default="not long and not clients", help="as pytest -m")
    parser.add_argument("--out", type=Path, default=RESULTS / "flakes.csv")
    return parser.parse_args()


def main() -> int:
    """Run the seeds, print the share."""
    options = parse()
    selection = f"{' '.join(options.paths)} ({options.select})"
    until = time.monotonic() + 60 * options.minutes
    done = {int(r["seed"]) for r in known_rows(options.out) if r["selection"] == selection}
    for seed in range(options.first, options.first + options.seeds):
        if seed in done or time.monotonic() > until:
            continue
        tests, failed, seconds, which = run_seed(seed, options.paths, options.select)
        row = (selection, seed, tests, failed, round(seconds), " ".join(which))
        append_row(options.out, dict(zip(COLUMNS, row, strict=True)))
        say(f"seed {seed}: {failed} of {tests} failed in {seconds:.0f} s {' '.join(which)}")
    rows = known_rows(options.out)
    tests, failed = (sum(int(row[name]) for row in rows) for name in ("tests", "failed"))
    share = failed / max(tests, 1)
    say(f"{failed} of {tests} runs of a test failed, with {len(rows)} seeds: {share:.2e}")
    return 0 if share < BAR else 1


if __name__ == "__main__":
    sys.exit(main())
