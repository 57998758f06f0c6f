"""The package as it is installed, and the rooms of the house: who may import whom."""

import ast
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "mjhmc_numba"
CORE_FILES = sorted(CORE.rglob("*.py"))
# Results, their page, and results read from files.
ARVIZ_BRIDGES = {CORE / f"{name}.py" for name in ("combining", "report", "results", "stored")}
HEAVY = ["arviz", "dask", "IPython", "matplotlib", "pandas", "pymc", "pytensor", "scipy.stats"]


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class ImportVisitor(ast.NodeVisitor):
    """Collects absolute names of all that a file imports, `if TYPE_CHECKING:` left out."""

    def __init__(self, package):
        self.package = package
        self.names = set()

    def visit_Import(self, node):
        self.names.update(alias.name for alias in node.names)

    def visit_ImportFrom(self, node):
        base = importlib.util.resolve_name("." * node.level + (node.module or ""), self.package)
        self.names.update(f"{base}.{alias.name}" for alias in node.names)

    def visit_If(self, node):
        if ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)


def imported_by(path, source=None):
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    visitor = ImportVisitor(package)
    visitor.visit(ast.parse(path.read_text() if source is None else source))
    return visitor.names


def within(names, *modules):
    """Those of `names` that are one of `modules` or lie in it."""
    return sorted(n for n in names if any(f"{n}.".startswith(f"{m}.") for m in modules))


def identify(path):
    return str(path.relative_to(ROOT))


def run_python(code, cwd, **options):
    """What a fresh interpreter prints, as JSON."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", CORE_FILES, ids=identify)
def test_the_core_knows_nothing_of_pymc(path):
    assert within(imported_by(path), "pymc", "pytensor", "mjhmc_numba.pymc", "integrations") == []


@pytest.mark.parametrize("path", [p for p in CORE_FILES if p not in ARVIZ_BRIDGES], ids=identify)
def test_only_the_bridges_import_arviz(path):
    assert within(imported_by(path), "arviz", "arviz_base", "arviz_plots", "arviz_stats") == []


@pytest.mark.parametrize("path", sorted((CORE / "kernel").glob("*.py")), ids=identify)
def test_the_kernel_knows_no_other_room(path):
    ours = within(imported_by(path), "mjhmc_numba")
    assert ours == within(ours, "mjhmc_numba.kernel")


@pytest.mark.parametrize("path", sorted((CORE / "warmup").glob("*.py")), ids=identify)
def test_the_warmup_does_not_call_back_up(path):
    assert within(imported_by(path), "mjhmc_numba.api", "mjhmc_numba.run") == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import pymc as pm", {"pymc"}),
        ("def f():\n    from pymc.model import Model", {"pymc.model.Model"}),
        ("from . import run", {"mjhmc_numba.run"}),
        ("from .pymc import MJHMC", {"mjhmc_numba.pymc.MJHMC"}),
        ("from mjhmc_numba import pymc", {"mjhmc_numba.pymc"}),
        ("if TYPE_CHECKING:\n    import arviz\nelse:\n    import math", {"math"}),
        ("import pymcx", {"pymcx"}),
    ],
)
def test_imports_are_found_in_every_form(source, expected):
    assert imported_by(CORE / "api.py", source) == expected
    assert within({"pymcx", "pymc", "pymc.model"}, "pymc") == ["pymc", "pymc.model"]


def test_every_folder_of_code_is_installed():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent for path in (*CORE_FILES, *(ROOT / "integrations").rglob("*.py"))}
    names = {
        module_name(folder / "__init__.py").replace("integrations.", "mjhmc_numba.")
        for folder in folders
    }
    assert sorted(names) == tool["packages"]


def test_the_integration_is_installed_beside_the_core_and_pymc_stays_pymc(tmp_path):
    code = """
import importlib.util, json
names = ["mjhmc_numba", "mjhmc_numba.kernel", "mjhmc_numba.warmup", "mjhmc_numba.pymc", "pymc"]
print(json.dumps([importlib.util.find_spec(name).origin for name in names]))
"""
    *ours, pymc = [Path(origin).parent for origin in run_python(code, tmp_path)]
    assert ours == [CORE, CORE / "kernel", CORE / "warmup", ROOT / "integrations" / "pymc"]
    assert ROOT / "integrations" not in pymc.parents


def test_importing_the_package_imports_nothing_heavy_beside_numba(tmp_path):
    code = f"""
import json, sys
import numba
before = set(sys.modules)
import mjhmc_numba
print(json.dumps([name for name in {HEAVY} if name in sys.modules and name not in before]))
"""
    assert run_python(code, tmp_path) == []


def test_importing_the_package_adds_less_than_half_a_second_to_numba(tmp_path):
    code = """
import json, time
import numba
start = time.process_time()
import mjhmc_numba
print(json.dumps(time.process_time() - start))
"""
    assert min(run_python(code, tmp_path) for _ in range(3)) < 0.5


def test_the_rooms_that_the_readme_names_are_there_after_one_import(tmp_path):
    code = """
import json, sys
import mjhmc_numba
names = ["weights", "targets", "finite_ladder", "reference"]
early = [name for name in names if f"mjhmc_numba.{name}" in sys.modules]
found = [getattr(mjhmc_numba, name).__name__ for name in names if name in dir(mjhmc_numba)]
print(json.dumps([early, found, hasattr(mjhmc_numba, "nothing")]))
"""
    found = ["weights", "targets", "finite_ladder", "reference"]
    assert run_python(code, tmp_path) == [[], [f"mjhmc_numba.{name}" for name in found], False]


def test_the_version_is_the_same_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert importlib.metadata.version("mjhmc_numba") == version
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == version
    assert re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == version


def unexplained_constants(source):
    """Numbers under names in capitals without a comment: beside them, above them, or in the lines
    that belong to them.
    """
    lines = source.splitlines()
    found = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        names = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not ast.unparse(names).strip("_").isupper() and not isinstance(names, ast.Tuple):
            continue
        numbers = [
            leaf
            for leaf in ast.walk(node.value)
            if isinstance(leaf, ast.Constant) and type(leaf.value) in (int, float)
        ]
        first, last = node.lineno - 1, node.end_lineno
        while first > 0 and lines[first - 1].strip():
            first -= 1
        while last < len(lines) and lines[last].strip():
            last += 1
        if numbers and not any("#" in line for line in lines[first:last]):
            found.append(ast.unparse(names))
    return found


@pytest.mark.parametrize(
    "path", [*CORE_FILES, *sorted((ROOT / "integrations").rglob("*.py"))], ids=identify
)
def test_a_constant_says_where_it_comes_from(path):
    assert unexplained_constants(path.read_text()) == []


def constants(source):
    """Names in capitals at the top of a module that stand for numbers, and what they stand for."""
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        names, values = [target], [node.value]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            names, values = target.elts, node.value.elts
        for name, value in zip(names, values, strict=False):
            leaves = [leaf.value for leaf in ast.walk(value) if isinstance(leaf, ast.Constant)]
            if ast.unparse(name).isupper() and any(type(leaf) in (int, float) for leaf in leaves):
                yield ast.unparse(name), ast.unparse(value)


def test_a_constant_means_one_thing_in_all_rooms():
    found = {}
    for path in [*CORE_FILES, *sorted((ROOT / "integrations").rglob("*.py"))]:
        room = path.relative_to(ROOT).parts[1]
        for name, value in constants(path.read_text()):
            found.setdefault(name, {}).setdefault(value, set()).add(room)
    assert len(found) > 200
    several = {
        name: values
        for name, values in found.items()
        if len(values) > 1 and len(set.union(*values.values())) > 1
    }
    assert several == {}


def test_constants_without_a_word_are_found():
    source = (
        "A = 1.5\nB = 2  # Stan\n\n# Measured.\nC, D = 3, 4\n\nE = 5\n\nF = {'a': 6}\nname = 7\n"
    )
    assert unexplained_constants(source) == ["E", "F"]
