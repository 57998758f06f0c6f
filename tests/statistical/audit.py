"""How often do tests fail that are right? Run those that draw random numbers with other seeds.

    python tests/statistical/audit.py [--seeds 200] [--minutes 10] [--dear 5] [--out FILE]
                                      [--select "not long"] [paths ...]

Counted are tests that ask for seeds by their fixture (see `conftest.py`); others have no random
input, and would pass or fail with any. Seeds 1, 2, 3 ... shift all seeds of a test. All run in one
process, seed by seed, until the time is over; the next call goes on from there. Tests that take
longer than `dear` seconds are left out once they have had a tenth of the seeds. The file has a row
per test: with how many seeds it ran (the first so many), with which it failed, and seconds per run.
The last lines say what share has failed; less than one in a thousand should.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "examples" / "benchmark" / "results"
COLUMNS = ["test", "seeds", "failures", "with", "seconds"]
BAR = 1e-3
FEW = 0.1  # of the seeds, for tests that are dear


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run(done, options):
    """For each test that was run: its last seed, seeds that it failed with, seconds in all."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        audit = {
            "done": done,
            "seeds": options.seeds,
            "seconds": 60 * options.minutes,
            "out": str(out),
        }
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"]
        command += ["-p", "tests.statistical.seeded", "-m", options.select, *options.paths]
        environment = os.environ | {"MJHMC_NUMBA_AUDIT": json.dumps(audit)}
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if ended.returncode not in (0, 1, 5) or not out.exists():
            said = ended.stdout[-5000:] + ended.stderr[-5000:]
            raise RuntimeError(f"pytest ended with {ended.returncode}: {said}")
        return json.loads(out.read_text())


def known_rows(path):
    if not path.exists():
        return {}
    with open(path, newline="") as file:
        return {
            row["test"]: {
                "last": int(row["seeds"]),
                "failed": [int(seed) for seed in row["with"].split()],
                "seconds": float(row["seconds"]) * int(row["seeds"]),
            }
            for row in csv.DictReader(file)
        }


def merge(old, new):
    """Rows of earlier runs and of this one."""
    for test, row in new.items():
        before = old.get(test, {"failed": [], "seconds": 0.0})
        old[test] = {
            "last": row["last"],
            "failed": before["failed"] + row["failed"],
            "seconds": before["seconds"] + row["seconds"],
        }
    return old


def write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for test, row in sorted(rows.items()):
            failed = " ".join(map(str, row["failed"]))
            each = round(row["seconds"] / row["last"], 3)
            writer.writerow([test, row["last"], len(row["failed"]), failed, each])


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=["tests"])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--dear", type=float, default=5.0, help="seconds of a test")
    parser.add_argument("--select", default="not long and not clients", help="as pytest -m")
    parser.add_argument("--out", type=Path, default=RESULTS / "flakes_by_test.csv")
    return parser.parse_args()


def main() -> int:
    """Go on with the seeds, print the share."""
    options = parse()
    rows = known_rows(options.out)
    done = {test: row["last"] for test, row in rows.items()}
    for test, row in rows.items():
        if row["seconds"] / row["last"] > options.dear and row["last"] >= FEW * options.seeds:
            done[test] = options.seeds
    rows = merge(rows, run(done, options))
    write(options.out, rows)
    runs = sum(row["last"] for row in rows.values())
    failed = sum(len(row["failed"]) for row in rows.values())
    for test, row in rows.items():
        if row["failed"]:
            say(f"{test}: seeds {row['failed']} of {row['last']}")
    seeds = sorted(row["last"] for row in rows.values())
    share = failed / max(runs, 1)
    say(
        f"{len(rows)} tests with {seeds[0]} to {seeds[-1]} seeds, "
        f"median {seeds[len(seeds) // 2]}: {failed} of {runs} runs failed, {share:.2e}"
    )
    return 0 if share < BAR else 1


if __name__ == "__main__":
    sys.exit(main())
