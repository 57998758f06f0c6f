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


def drawn(tmp_path, ours):
    """The picture of two models, and the module that drew it."""
    with importable():
        import readme

        figures = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(readme, "_save", lambda figure, path: figures.append(figure))
            rows = [
                {"model": model, "sampler": sampler, "seed": "1", "r_hat": r_hat}
                | {"ess_bulk": str(size), "ess_tail": "1e9", "cpu_seconds": "2"}
                | {"per_1000_all": str(size / 10)}
                for model in ("one", "two")
                for sampler, size, r_hat in (
                    ("mjhmc", ours[model], "1.0"),
                    ("nutpie", 100, "1.2"),
                    ("nuts", 50, "1.0"),
                )
            ]
            path = tmp_path / "per_second.csv"
            lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
            path.write_text("\n".join(lines) + "\n")
            readme.draw_picture(tmp_path, tmp_path / "readme.png")
    (figure,) = figures
    return figure, readme


def points(panel):
    """What was drawn of each of the others, the samples of the legend left out."""
    return [c for c in panel.collections if len(c.get_offsets())]


def test_the_picture_shows_every_model_and_whom_it_is_compared_with(tmp_path):
    figure, _ = drawn(tmp_path, {"one": 400, "two": 400})
    by_gradient, by_second = figure.axes
    assert [label.get_text() for label in by_gradient.get_yticklabels()] == ["one", "two"]
    for panel in (by_gradient, by_second):
        nutpie, nuts = points(panel)
        assert nutpie.get_offsets()[:, 0].tolist() == pytest.approx([4.0, 4.0])
        assert nuts.get_offsets()[:, 0].tolist() == pytest.approx([8.0, 8.0])
        assert nutpie.get_facecolor()[0].tolist() == [1, 1, 1, 1]  # its R-hat is 1.2: hollow
        assert nuts.get_facecolor()[0].tolist() != [1, 1, 1, 1]


def test_a_ratio_that_would_squeeze_the_others_is_a_number_at_the_edge(tmp_path):
    figure, readme = drawn(tmp_path, {"one": 400, "two": 100_000})
    for panel in figure.axes:
        nutpie, _ = points(panel)
        assert nutpie.get_offsets()[:, 0].tolist() == pytest.approx([4.0, readme.MOST])
        assert [text.get_text() for text in panel.texts] == ["1,000 →", "2,000 →"]
        assert panel.get_xlim()[1] > readme.MOST
