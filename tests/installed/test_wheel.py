"""The wheel: what it holds, and what a user's type checker makes of it."""

import importlib.metadata
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from tests.installed.lint import ROOT

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
# A user's script. A line that is wrong says so: if it were not noticed, mypy would complain that
# the comment is of no use.
SCRIPT = """
from typing import Any, assert_type

import numpy as np

import mjhmc_numba as mj
import mjhmc_numba.pymc as mp
from mjhmc_numba import targets

result = mj.sample(targets.standard_normal(3), draws=100, seed=1, metric="diag")
assert_type(result, mj.Result)
assert_type(result.draws, np.ndarray)
assert_type(result.settings, mj.Settings)
assert_type(mj.Settings.paper(step_size=0.1), mj.Settings)
assert_type(mj.Metric.diagonal([1.0, 2.0]), mj.Metric)
mj.sample(targets.standard_normal(3), draws="many")  # type: ignore[call-overload]
mj.Settings(clocks="regular")  # type: ignore[call-arg]
result.nothing  # type: ignore[attr-defined]
assert_type(mp.compile(), mp.CompiledModel)
mp.compile(var_names=3)  # type: ignore[arg-type]
data: Any = mp.sample(draws=100)
mp.sample(draws="many")  # type: ignore[arg-type]
"""
CONFIG = """
[mypy]
strict = true
[mypy-numba.*,llvmlite.*,arviz.*,xarray.*,pandas.*,pymc.*,pytensor.*,rich.*,matplotlib.*]
ignore_missing_imports = true
follow_imports = skip
"""


def build_options() -> list[str]:
    """Without a network, if the installed setuptools can build the package."""
    newest = int(importlib.metadata.version("setuptools").split(".")[0])
    return ["--no-build-isolation"] if newest >= 77 else []


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with the wheel in it; other packages are those of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    skipped = shutil.ignore_patterns(".*", "*.egg-info", "build", "__pycache__")
    shutil.copytree(ROOT, folder / "source", ignore=skipped)
    wheel = ["wheel", "--no-deps", *build_options(), "-w", folder / "wheels", folder / "source"]
    subprocess.run([*PIP, *wheel], check=True)
    (built,) = (folder / "wheels").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    subprocess.run([*PIP, "install", "--no-deps", "--target", site, built], check=True)
    (site / "others.pth").write_text(f"{Path(np.__file__).parents[1]}\n")
    return folder / "venv", site


@pytest.mark.long
def test_a_wheel_holds_the_package_and_the_integration(environment):
    _, site = environment
    installed = {p.relative_to(site) for p in (site / "mjhmc_numba").rglob("*.py")}
    core = {path.relative_to(ROOT) for path in (ROOT / "mjhmc_numba").rglob("*.py")}
    integration = {
        Path("mjhmc_numba", path.relative_to(ROOT / "integrations"))
        for path in (ROOT / "integrations").rglob("*.py")
    }
    assert installed == core | integration
    assert not (site / "pymc").exists()


@pytest.mark.long
def test_a_users_script_is_checked_against_the_types_of_the_wheel(environment, tmp_path):
    venv, site = environment
    assert (site / "mjhmc_numba/py.typed").exists()
    assert (site / "mjhmc_numba/pymc/py.typed").exists()
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text(CONFIG)
    python = venv / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    command = [sys.executable, "-m", "mypy", "--python-executable", python, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
