"""Parts of pages that are read off code and results: written to docs/_generated before a build."""

import csv
import json
import re
import statistics
import tomllib
from pathlib import Path

from numpydoc.docscrape import ClassDoc

from mjhmc_numba import Settings
from mjhmc_numba.stats import table

FOLDER = Path(__file__).parent / "_generated"
NOTEBOOKS = Path(__file__).parents[1] / "examples/notebooks"
UPSTREAM = Path(__file__).parents[1] / "tests/upstream"
EFFICIENCY = Path(__file__).parents[1] / "examples/benchmark/results/efficiency.csv"
SAMPLERS = {"mjhmc": "MJHMC", "nutpie": "nutpie", "nutpie_lowrank": "nutpie, low rank"}
MODELS = ("mesquite", "hier_logistic", "eight_schools_noncentered")  # of the table of draws
DRAWS = 4000  # of each run


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


def per_draw() -> str:
    """What a draw costs and is worth, of ours and of nutpie's, on a few models."""
    with open(EFFICIENCY, newline="") as file:
        rows = list(csv.DictReader(file))

    def typical(model: str, sampler: str, column: str) -> float:
        chosen = [r for r in rows if r["model"] == model and r["sampler"] == sampler]
        return statistics.geometric_mean(float(row[column]) for row in chosen)

    lines = [
        "| posterior | sampler | gradients per draw | ESS per draw, median | per 1000 gradients |",
        "|---|---|---|---|---|",
    ]
    for model in MODELS:
        for sampler, name in SAMPLERS.items():
            gradients = typical(model, sampler, "gradients_draws") / DRAWS
            size = typical(model, sampler, "ess_median_per_draw")
            efficiency = typical(model, sampler, "per_1000_draws")
            shown = model if sampler == "mjhmc" else ""
            lines.append(f"| {shown} | {name} | {gradients:.1f} | {size:.2f} | {efficiency:.3g} |")
    everywhere = dict.fromkeys(r["model"] for r in rows if r["sampler"] == "nutpie")
    spans = {
        sampler: sorted(typical(model, sampler, "gradients_draws") / DRAWS for model in everywhere)
        for sampler in ("nutpie", "mjhmc")
    }
    worth = sorted(typical(model, "mjhmc", "ess_median_per_draw") for model in everywhere)
    told = (
        f"On the {len(everywhere)} posteriors of our benchmark nutpie spends "
        f"{_span(spans['nutpie'])} gradients on a draw. Here a draw costs "
        f"{_span(spans['mjhmc'])} gradients and is worth {_span(worth)} independent ones."
    )
    return "\n".join([told, "", *lines]) + "\n"


def _span(values: list[float]) -> str:
    """Smallest and largest."""
    return " to ".join(f"{v:.0f}" if v >= 10 else f"{v:.1f}" for v in (values[0], values[-1]))


def _test_name(pattern: str) -> str:
    """`test_mcmc.py::test_step_args$` -> test_step_args"""
    return f"`{re.match(r'[A-Za-z_]+', pattern.split('::')[-1])[0]}`"


def write() -> None:
    """Write those that changed, so that a page is built again only then."""
    FOLDER.mkdir(exist_ok=True)
    parts = {
        "statistics.md": table() + "\n",
        "settings.md": settings(),
        "upstream.md": upstream(),
        "per_draw.md": per_draw(),
    }
    for name, text in parts.items():
        _write(FOLDER / name, text)
    shown = Path(__file__).parent / "notebooks"
    shown.mkdir(exist_ok=True)
    for notebook in NOTEBOOKS.glob("*.md"):
        _write(shown / notebook.name, notebook.read_text())


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
