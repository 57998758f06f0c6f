"""The notebooks and pages can be run. Here in a short form: few draws."""

import re
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pymc as pm
import pytest

import mjhmc_numba
import mjhmc_numba.pymc as mp
from mjhmc_numba import errors, plots

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.md"))
# The packages of that page have an environment of their own: make test-clients.
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem != "clients"]
CELL = re.compile(r"```\{code-cell\} ipython3\n(.*?)```", flags=re.DOTALL)
BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
SHORT = {"draws": 60, "tune": 60}


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    """Few draws, no window, and no complaint about either."""
    mpl.use("Agg")
    for module in (pm, mp):
        whole = module.sample
        monkeypatch.setattr(
            module, "sample", lambda *args, whole=whole, **options: whole(*args, **options | SHORT)
        )
    yield
    plt.close("all")


def run(blocks, name):
    """Run them one after the other, in one namespace."""
    names = {"__name__": "notebook"}
    for number, block in enumerate(blocks):
        lines = [line for line in block.splitlines() if not line.startswith(":tags:")]
        code = compile("\n".join(lines), f"{name}, block {number}", "exec")
        if "raises-exception" in block:
            with pytest.raises(Exception, match=r"\w+ .* \w+"):  # a sentence
                exec(code, names)
        else:
            exec(code, names)


# Short runs are warned of, and ArviZ and PyMC have warnings of their own about plots.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_runs(notebook, capsys):
    cells = CELL.findall(notebook.read_text())
    if notebook.stem == "index":
        listed = re.findall(r"^\w+$", notebook.read_text(), flags=re.MULTILINE)
        assert sorted([*listed, "index"]) == [path.stem for path in NOTEBOOKS]
        return
    if notebook.stem == "bambi":
        pytest.importorskip("bambi")
    run(cells, notebook.name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_block_of_a_page_runs(page, capsys):
    text = page.read_text()
    blocks = BLOCK.findall(text) + CELL.findall(text)
    run([block for block in blocks if "..." not in block], page.name)


@pytest.mark.filterwarnings("ignore")
def test_every_warning_that_a_page_explains_is_provoked_by_its_examples(monkeypatch, capsys):
    monkeypatch.undo()  # runs of the length that a reader makes
    page = (ROOT / "docs/diagnostics.md").read_text()
    quoted = re.findall(r'^\| "(.+?)" \|', page, flags=re.MULTILINE)
    assert len(quoted) > 10
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(BLOCK.findall(page), "diagnostics.md")
    said = " ".join(str(warning.message) for warning in caught) + capsys.readouterr().out
    for text in quoted:
        assert re.search(re.sub(r"\bn\b", "[0-9.]+", re.escape(text)), said), text


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs/api.md").read_text()
    whole = ("errors", "plots", "targets", "weights")  # all that a module exports
    assert all(f".. automodule:: mjhmc_numba.{name}\n   :members:" in page for name in whole)
    listed = re.findall(
        r"^\.\. auto(?:class|function):: (?:\w+\.)*(\w+)$", page, flags=re.MULTILINE
    )
    public = {*mjhmc_numba.__all__, *mp.__all__}
    assert public - {*listed, *errors.__all__, *plots.__all__, *whole} == set()
