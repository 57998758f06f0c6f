"""Parts of pages that are read off the code: written to docs/_generated before each build."""

import json
import re
import tomllib
from pathlib import Path

from numpydoc.docscrape import ClassDoc

from mjhmc_numba import Settings
from mjhmc_numba.stats import table

FOLDER = Path(__file__).parent / "_generated"
NOTEBOOKS = Path(__file__).parents[1] / "examples/notebooks"
UPSTREAM = Path(__file__).parents[1] / "tests/upstream"


def settings() -> str:
    """A table of the options, from the docstring of `Settings`."""
    rows = ["| option | values | what |", "|---|---|---|"]
    for name, kind, text in ClassDoc(Settings)["Parameters"]:
        sentence = re.sub(r"\s+", " ", " ".join(text)).replace("|", "\\|")
        rows.append(f"| `{name}` | {kind} | {sentence} |")
    return "\n".join(rows) + "\n"


def upstream() -> str:
    """What PyMC's own tests said, from what `tests/upstream/run.py` wrote of its whole runs."""
    columns = {
        "pymc": "PyMC",
        "tests": "its tests",
        "passed": "pass",
        "ours": "fail, and are ours",
        "not_applicable": "not applicable",
        "with_nuts_too": "fail with NUTS too",
        "skipped": "skipped",
        "expected": "expected to fail",
    }
    found = json.loads((UPSTREAM / "found.json").read_text())
    rows = [f"| {' | '.join(columns.values())} |", "|---" * len(columns) + "|"]
    for _, counts in sorted(found.items()):
        rows.append(f"| {' | '.join(str(counts[name]) for name in columns)} |")
    listed = tomllib.loads((UPSTREAM / "not_applicable.toml").read_text())["not_applicable"]
    why = [f"- {', '.join(map(_test_name, entry['tests']))}: {entry['why']}." for entry in listed]
    return "\n".join([*rows, "", "Not applicable are:", "", *why]) + "\n"


def _test_name(pattern: str) -> str:
    """`test_mcmc.py::test_step_args$` -> test_step_args"""
    return f"`{re.match(r'[A-Za-z_]+', pattern.split('::')[-1])[0]}`"


def write() -> None:
    """Write those that changed, so that a page is built again only then."""
    FOLDER.mkdir(exist_ok=True)
    parts = {"statistics.md": table() + "\n", "settings.md": settings(), "upstream.md": upstream()}
    for name, text in parts.items():
        _write(FOLDER / name, text)
    shown = Path(__file__).parent / "notebooks"
    shown.mkdir(exist_ok=True)
    for notebook in NOTEBOOKS.glob("*.md"):
        _write(shown / notebook.name, notebook.read_text())


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
