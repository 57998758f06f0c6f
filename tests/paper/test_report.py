import re

import pytest

from examples.paper import report
from examples.paper.common import HERE, markdown, number


def test_every_figure_of_the_page_exists():
    page = (HERE / "README.md").read_text()
    pictures = re.findall(r"\]\((figures/\w+\.png)\)", page)
    assert len(pictures) >= 8
    assert all((HERE / picture).exists() for picture in pictures)


def test_the_page_is_what_the_csv_files_say(tmp_path):
    for folder in ("results", "figures"):
        (tmp_path / folder).symlink_to(HERE / folder)
    report.write(tmp_path)
    assert (tmp_path / "README.md").read_text() == (HERE / "README.md").read_text()


def test_the_template_has_no_typed_decimal_numbers_in_its_verdicts():
    verdict_lines = [
        line
        for line in (HERE / "README.template.md").read_text().splitlines()
        if line.startswith("**Verdict")
    ]
    assert len(verdict_lines) >= 8
    bare = [re.sub(r"\{\{.+?\}\}", "", line) for line in verdict_lines]
    assert not [line for line in bare if re.search(r"\d+\.\d+", line)]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.00"), (0.12345, "0.123"), (2.0, "2.00"), (1234.5, "1234"), (1e-7, "1.00e-07")],
)
def test_numbers_are_written_plainly(value, text):
    assert number(value) == text


def test_a_table_has_a_line_for_each_row():
    assert markdown([{"a": "x", "b": 1}]).splitlines() == ["| a | b |", "|---|--:|", "| x | 1 |"]


@pytest.mark.parametrize(
    ("means", "squares", "verdict"),
    [
        (1.2, 1.3, "**holds**"),
        (1.2, 1.0, "**holds in part**"),
        (1.2, 0.8, "**holds in part**"),
        (1.0, 1.0, "**undecided** within two standard errors"),
        (1.0, 0.8, "**fails**"),
        (0.8, 0.9, "**fails**"),
    ],
)
def test_a_claim_of_two_numbers_holds_in_part_only_if_one_is_ahead(means, squares, verdict):
    claims = {
        "spectral_gap": {"gap_real": 2.0, "gap_real_error": 0.1},
        "rough_well": {},
        "experts": {
            "ess_mean_ratio": means,
            "ess_mean_ratio_error": 0.02,
            "ess_square_ratio": squares,
            "ess_square_ratio_error": 0.02,
        },
    }
    assert report.verdicts(claims)["experts"] == verdict
