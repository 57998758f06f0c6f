"""What the README shows can be run."""

import re
from pathlib import Path

import pytest

from mjhmc_numba.stats import table

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


def test_the_first_example_has_twelve_lines_and_ends_in_a_summary():
    lines = BLOCKS[0].splitlines()
    assert len(lines) == 12
    assert "summary" in lines[-1]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_python_block_runs(block, capsys):
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_every_file_that_is_linked_exists():
    text = (ROOT / "README.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_statistics_are_those_that_the_code_declares():
    assert f"\n\n{table()}\n\n" in (ROOT / "README.md").read_text()
