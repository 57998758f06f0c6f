"""mypy and the import contracts, on the package as it is installed.

    python tests/installed/lint.py            # both; `make lint` runs this
    python tests/installed/lint.py imports    # or one: imports, types

`integrations/pymc` is installed as `mjhmc_numba.pymc`. In the repository it lies elsewhere, where
both tools would leave it out or take it for PyMC itself. So the two folders are put together in a
temporary one, and messages name the files of the repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = str(ROOT / "pyproject.toml")
# The command `lint-imports` has no module to run.
LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
COMMANDS = {
    "types": ["-m", "mypy", "--config-file", CONFIG, "--cache-dir", str(ROOT / ".mypy_cache")],
    "imports": ["-c", LINT_IMPORTS, "--config", CONFIG, "--no-cache"],
}


def assemble(folder: Path) -> None:
    """The package as a wheel would install it, in a folder."""
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "mjhmc_numba", folder / "mjhmc_numba", ignore=skipped)
    shutil.copytree(ROOT / "integrations/pymc", folder / "mjhmc_numba/pymc", ignore=skipped)


def check(what: str, folder: Path) -> tuple[int, str]:
    """Exit code and messages of a tool, on the package in a folder."""
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, *COMMANDS[what]]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    messages = (done.stdout + done.stderr).replace("mjhmc_numba/pymc/", "integrations/pymc/")
    return done.returncode, messages


def main() -> int:
    wanted = sys.argv[1:] or list(COMMANDS)
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        assemble(Path(name))
        for what in wanted:
            code, messages = check(what, Path(name))
            print(messages, end="")
            failed = failed or code
    return failed


if __name__ == "__main__":
    sys.exit(main())
