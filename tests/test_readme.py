"""What the README shows can be run."""

import re
from pathlib import Path

import pytest

from tests.benchmark.programs import importable

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_python_block_runs(block, capsys):
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_every_file_that_is_linked_exists():
    text = (ROOT / "README.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_measured_numbers_are_those_of_the_csv_files():
    """If not: python examples/benchmark/readme.py writes them anew."""
    page = (ROOT / "README.md").read_text()
    with importable():
        import readme

        assert readme.page_of(page, readme.RESULTS) == page
    assert "| effective samples per gradient" in page


def test_the_picture_shows_every_model_and_whom_it_is_compared_with(tmp_path):
    with importable():
        import readme
        from matplotlib.figure import Figure

        drawn = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(readme, "_save", lambda figure, path: drawn.append(figure))
            rows = [
                {"model": model, "sampler": sampler, "seed": "1", "r_hat": r_hat}
                | {"ess_bulk": str(size), "ess_tail": "500", "cpu_seconds": "2"}
                | {"per_1000_all": str(size / 10)}
                for model in ("one", "two")
                for sampler, size, r_hat in (
                    ("mjhmc", 400, "1.0"),
                    ("nutpie", 100, "1.2"),
                    ("nuts", 50, "1.0"),
                )
            ]
            path = tmp_path / "per_second.csv"
            lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
            path.write_text("\n".join(lines) + "\n")
            readme.draw_picture(tmp_path, tmp_path / "readme.png")
    (figure,) = drawn
    assert isinstance(figure, Figure)
    by_gradient, by_second = figure.axes
    assert [label.get_text() for label in by_gradient.get_yticklabels()] == ["one", "two"]
    for panel in (by_gradient, by_second):
        points = [c.get_offsets()[:, 0].tolist() for c in panel.collections if len(c.get_offsets())]
        assert points == [pytest.approx([4.0, 4.0]), pytest.approx([8.0, 8.0])]
        nutpie, nuts = [c for c in panel.collections if len(c.get_offsets())]
        assert nutpie.get_facecolor()[0].tolist() == [1, 1, 1, 1]  # its R-hat is 1.2: hollow
        assert nuts.get_facecolor()[0].tolist() != [1, 1, 1, 1]


def test_the_output_that_is_shown_has_what_does_not_hang_on_the_machine():
    with importable():
        import readme

        told = [
            "Compiling ... done in 3.0 s",
            "Sampled 4 chains x (1000 + 1000) draws in 1.0 s: ...",
        ]
        printed = [" ━━━ 1000 ", "        mjhmc  nuts", "divergences   0   1"]
        printed += ["seconds, with compilation   1   2", "ESS per second   3   4", "", "A verdict."]
        lines = readme.shown(told, printed)
    assert lines == ["```text", told[1], "", *printed[1:3], "```"]
