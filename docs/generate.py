"""Parts of pages that are read off the code: written to docs/_generated before each build."""

import re
from pathlib import Path

from numpydoc.docscrape import ClassDoc

from mjhmc_numba import Settings
from mjhmc_numba.stats import table

FOLDER = Path(__file__).parent / "_generated"
NOTEBOOKS = Path(__file__).parents[1] / "examples/notebooks"


def settings() -> str:
    """A table of the options, from the docstring of `Settings`."""
    rows = ["| option | values | what |", "|---|---|---|"]
    for name, kind, text in ClassDoc(Settings)["Parameters"]:
        sentence = re.sub(r"\s+", " ", " ".join(text)).replace("|", "\\|")
        rows.append(f"| `{name}` | {kind} | {sentence} |")
    return "\n".join(rows) + "\n"


def write() -> None:
    """Write those that changed, so that a page is built again only then."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in {"statistics.md": table() + "\n", "settings.md": settings()}.items():
        _write(FOLDER / name, text)
    shown = Path(__file__).parent / "notebooks"
    shown.mkdir(exist_ok=True)
    for notebook in NOTEBOOKS.glob("*.md"):
        _write(shown / notebook.name, notebook.read_text())


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
