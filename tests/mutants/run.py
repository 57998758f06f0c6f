"""Break the kernel in small ways; the tests must notice each.

    python tests/mutants/run.py [--jobs 2] [--only text] [--list] [--tests path ...]

Every mutant is a copy of the package with one change, in a folder and with a cache of its own.
The tests that it names must notice it; if they do not, the usual ones are asked too, and what only
they notice is `missed`. The first failure ends the run, and the table says which test it was. With
`--tests` these alone are asked: what do they see? The exit code is 1 unless all are killed, 2 if a
mutation no longer applies or the unchanged copy fails its tests.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mutations import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 900

# Those that are asked, in this order, where the tests that a mutant names notice nothing.
TESTS = (
    "tests/kernel/test_rates.py",
    "tests/kernel/test_integrators.py",
    "tests/kernel/test_reference.py",
    "tests/kernel/test_ladder.py",
    "tests/kernel/test_metric.py",
    "tests/kernel/test_record.py",
    "tests/kernel/test_clocks.py",
    "tests/kernel/test_random.py",
    "tests/kernel/test_refinement.py",
    "tests/kernel/test_faults.py",
    "tests/kernel/test_reparametrisation.py",
    "tests/kernel/test_layout.py",
    "tests/kernel/test_adaptation.py",
    "tests/paper/test_discrete_hmc.py",
    "tests/statistical/test_compound.py",
)


class Verdict(NamedTuple):
    """What became of a mutant."""

    name: str
    outcome: str  # killed, missed by its own tests, survived, broken
    by: str
    seconds: float


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def make_copy(folder):
    """Copy what the tests need."""
    skip = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("mjhmc_numba", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    shutil.copytree(ROOT / "examples/paper", folder / "examples/paper", ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", folder)


def apply_mutation(folder, mutant):
    """Make the one change; it must be possible in exactly one way."""
    path = folder / "mjhmc_numba" / mutant.file
    source = path.read_text()
    if source.count(mutant.old) != 1:
        raise LookupError(f"{mutant.file} has {source.count(mutant.old)} times: {mutant.old!r}")
    path.write_text(source.replace(mutant.old, mutant.new))


def environment(folder):
    cache = folder / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    return os.environ | {
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MJHMC_NUMBA_CACHE_DIR": str(cache),
    }


def assert_copy_is_imported(folder):
    """An installed package must not be tested in place of the copy."""
    command = [sys.executable, "-c", "import mjhmc_numba; print(mjhmc_numba.__file__)"]
    result = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=True
    )
    imported = Path(result.stdout.strip()).resolve()
    if folder.resolve() not in imported.parents:
        raise RuntimeError(f"{imported} was imported in place of the copy in {folder}.")


def run_tests(folder, tests):
    """Exit code and output of pytest; code None if it took too long."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    try:
        result = subprocess.run(
            [*command, *tests],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return result.returncode, result.stdout + result.stderr


def own_tests(mutant):
    return tuple(f"tests/{test}" for test in mutant.tests)


def judge(mutant, tests=()):
    """Make a mutant and let the tests at it: these, or its own and then the usual ones."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        make_copy(folder)
        apply_mutation(folder, mutant)
        assert_copy_is_imported(folder)
        first, noticed = tests or own_tests(mutant), "killed"
        code, output = run_tests(folder, first)
        if code == 0 and not tests:
            noticed = "missed"
            code, output = run_tests(folder, tuple(t for t in TESTS if t not in first))
    seconds = time.monotonic() - began
    if code is None:
        return Verdict(mutant.name, noticed, f"more than {TIMEOUT} s", seconds)
    killer = re.search(r"^FAILED (?:tests/)?(\S+)", output, re.MULTILINE)
    if code == 1 and killer:
        return Verdict(mutant.name, noticed, killer[1], seconds)
    if code == 0:
        return Verdict(mutant.name, "survived", "", seconds)
    # Neither: it could not even be imported or collected, which proves nothing.
    return Verdict(mutant.name, "broken", output.strip()[-300:], seconds)


def check_baseline(tests):
    """The unchanged copy passes, and every mutation applies."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        make_copy(folder)
        assert_copy_is_imported(folder)
        for mutant in MUTANTS:
            apply_mutation(folder, mutant)
            shutil.copy(ROOT / "mjhmc_numba" / mutant.file, folder / "mjhmc_numba" / mutant.file)
        code, output = run_tests(folder, tests)
    if code != 0:
        raise RuntimeError(f"The unchanged copy fails its tests:\n{output}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--only", default="", help="mutants whose name or file matches this")
    parser.add_argument("--tests", nargs="+", default=(), help="these alone, in place of the usual")
    parser.add_argument("--list", action="store_true", help="name the mutants and stop")
    return parser.parse_args()


def main() -> int:
    """Run the mutants, print the table."""
    options = parse()
    chosen: list[Mutant] = [m for m in MUTANTS if re.search(options.only, m.name + m.file)]
    if options.list:
        say("\n".join(f"{m.name:45} {m.file}" for m in chosen))
        return 0
    try:
        check_baseline(options.tests or dict.fromkeys(t for m in chosen for t in own_tests(m)))
    except (LookupError, RuntimeError) as error:
        say(str(error))
        return 2
    say(f"The unchanged copy passes; {len(chosen)} mutants follow.")
    verdicts = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(partial(judge, tests=options.tests), chosen):
            verdicts.append(verdict)
            say(f"{verdict.outcome:9} {verdict.seconds:4.0f} s  {verdict.name:45} {verdict.by}")
    alive = [v.name for v in verdicts if v.outcome != "killed"]
    say(f"{len(verdicts) - len(alive)} of {len(verdicts)} killed.")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
