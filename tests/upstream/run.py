"""PyMC's own tests with MJHMC in place of NUTS.

    python tests/upstream/run.py [--source FOLDER or REPOSITORY] [--tag TAG] [pytest's arguments]

The tests are those of the PyMC that is installed, from its repository. What fails is run once more
with NUTS itself: a test that fails with both says nothing about MJHMC. Tests that ask for what
MJHMC is not are listed in `not_applicable.toml`, each with the reason. The program fails if any
other test fails, or if a listed one passes.

A whole run writes its counts to `found.json`, and the documentation shows them. PyMC's ZarrTrace
works with zarr 2 alone: where zarr is newer, its tests are expected to fail. A folder with zarr 2
may be given as PYTHONPATH, as `make test-upstream` does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

import pymc as pm

HERE = Path(__file__).parent
FOUND = HERE / "found.json"
REPOSITORY = "https://github.com/pymc-devs/pymc"
TESTS = (
    "tests/step_methods",
    "tests/sampling/test_mcmc.py",
    "tests/sampling/test_parallel.py",
    "tests/sampling/test_population.py",
    "tests/backends",
    "tests/stats/test_convergence.py",
    "tests/progress_bar",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", default=REPOSITORY, help="a folder or a git repository")
    parser.add_argument(
        "--tag", default=f"v{pm.__version__}", help="of the repository, or a name for the folder"
    )
    arguments, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = fetch(arguments.source, arguments.tag, Path(temporary) / "pymc")
        chosen = [a for a in rest if a.startswith("tests/")]
        options = [a for a in rest if a not in chosen]
        chosen = chosen or [name for name in TESTS if (folder / name).exists()]
        found = run(folder, ["-p", "in_place_of_nuts", *options, *chosen])
        failed = [test for test, outcome in found.items() if outcome == "failed"]
        # One that failed before it was collected has the name of its file.
        with_nuts = run(folder, failed) if failed else {}
    counts = report(found, {test for test in failed if with_nuts.get(test) == "failed"})
    if not rest:
        keep(counts | {"tests": arguments.tag})
    return int(bool(counts["ours"] or counts["stale"]))


def fetch(source: str, tag: str, target: Path) -> Path:
    """A folder with PyMC's tests alone: its source would be imported in place of the installed."""
    folder = Path(source)
    if not (folder / "tests").is_dir():
        folder = target.with_name("clone")
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", tag, source, str(folder)]
        subprocess.run(clone, check=True)
    shutil.copytree(folder / "tests", target / "tests")
    shutil.copy(folder / "pyproject.toml", target)  # pytest's settings
    return target


def run(folder: Path, arguments: list[str]) -> dict[str, str]:
    """The outcome of each test."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        # PyMC's tests import each other as a package, ours must not be in the way.
        path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | {"PYTHONPATH": path, "OUTCOMES": file.name}
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "--rootdir", "."]
        command += ["--continue-on-collection-errors", "-p", "no:cacheprovider", "-p", "outcomes"]
        command += ["-p", "pymc_nuts"]
        command += ["-p", "no:zarr"]  # the plugin of zarr 3 beside zarr 2
        subprocess.run([*command, *arguments], cwd=folder, env=environment, check=False)
        text = Path(file.name).read_text()
    if not text:
        sys.exit("pytest could not run; what it said stands above.")
    return json.loads(text)


def report(found: dict[str, str], theirs: set[str]) -> dict[str, int]:
    """Print what was found, and count it."""
    reasons = tomllib.loads((HERE / "not_applicable.toml").read_text())["not_applicable"]
    generation = pm.__version__.split(".")[0]
    reasons = [r for r in reasons if generation in r.get("pymc", ["5", "6"])]
    why = {test: reason(test, reasons) for test in found}
    failed = {test for test, outcome in found.items() if outcome == "failed"}
    ours = sorted(test for test in failed - theirs if why[test] is None)
    stale = sorted(t for t, outcome in found.items() if outcome == "passed" and why[t] is not None)
    show("Fail with NUTS too", sorted(theirs))
    others = sorted(failed - theirs - {*ours})
    show("Not applicable", [f"{test}\n    {why[test]}" for test in others])
    show("Listed as not applicable, but pass", stale)
    show("OURS", ours)
    outcomes = Counter(found.values())
    counts = {
        "passed": outcomes["passed"],
        "ours": len(ours),
        "not_applicable": len(others),
        "with_nuts_too": len(theirs),
        "skipped": outcomes["skipped"],
        "expected": outcomes["xfailed"],
        "stale": len(stale),
    }
    print(
        f"\nPyMC {pm.__version__}: {counts['passed']} pass, {counts['ours']} fail and are ours, "
        f"{counts['not_applicable']} are not applicable, {counts['with_nuts_too']} fail with NUTS "
        f"too, {counts['skipped']} are skipped, {counts['expected']} are expected to fail."
    )
    return counts


def keep(counts: dict[str, int | str]) -> None:
    """Write the counts of this generation of PyMC in place of older ones."""
    found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    found[pm.__version__.split(".")[0]] = {"pymc": pm.__version__} | counts
    FOUND.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")


def reason(test: str, reasons: list[dict]) -> str | None:
    """Why a test is not applicable, or None."""
    for entry in reasons:
        if any(re.search(pattern, test) for pattern in entry["tests"]):
            return entry["why"]
    return None


def show(title: str, lines: list[str]) -> None:
    if lines:
        print(f"\n{title} ({len(lines)})")
        for line in lines:
            print(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
