"""The page about a run says what the run says, and needs nothing but itself."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba import targets

SMALL = {"draws": 120, "tune": 200, "chains": 2, "cores": 1, "seed": 4, "progress": False}
SECTIONS = ["Warnings", "Convergence", "Traces of the worst", "Energy", "Warm-up"]
SECTIONS += ["Events and their cost", "Summary", "Settings", "Seed and versions"]


class Page(HTMLParser):
    """Texts, headings and whatever the page refers to."""

    def __init__(self, path):
        super().__init__()
        self.refers, self.headings, self.texts, self.open = [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.refers += [v for k, v in attrs if k in ("src", "href", "srcset", "data")]
        if tag not in ("img", "meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        (self.headings if self.open and self.open[-1] == "h2" else self.texts).append(data)

    @property
    def text(self):
        return " ".join(self.texts)


@pytest.fixture(scope="module")
def result():
    return mj.sample(targets.funnel(4), **SMALL)


@pytest.fixture(scope="module")
def path(result, tmp_path_factory):
    return result.report(tmp_path_factory.mktemp("report") / "run.html", names=["<b>a", *"bcd"])


def test_the_page_has_every_section_and_refers_to_nothing_outside(path):
    page = Page(path)
    assert page.headings == SECTIONS
    assert page.open == []
    assert len(page.refers) >= 6
    assert all(r.startswith("data:image/png;base64,") for r in page.refers)
    style = re.search("<style>(.*?)</style>", path.read_text(), re.S)[1]
    assert "url(" not in style
    assert "@import" not in style


def test_numbers_are_those_of_the_run(result, path):
    page = Page(path)
    assert "2 x 120" in page.texts
    assert f"{result.gradients['draws']:,}" in page.texts
    assert str(result.seed) in page.texts
    assert mj.__version__ in page.texts
    summary = result.summary(list("abcd"), round_to="none")
    assert f"{summary['r_hat'].max():.3f}" in page.texts
    assert f"{summary['ess_bulk'].min():,.0f}" in page.texts
    for step in (t.step_size for t in result.tuned):
        assert f"{step:.3g}" in page.texts


def test_warnings_are_told_with_their_advice_and_cannot_break_the_page(result, path, tmp_path):
    assert "nothing looks wrong" in Page(path).text
    broken = mj.Result(**vars(result) | {"warnings": ["x < 1 & <script>: draw more."]})
    path = broken.report(tmp_path / "bad.html")
    assert "<script>" not in path.read_text()
    assert "x < 1 & <script>: draw more." in Page(path).text


def test_names_with_markup_are_shown_as_they_are(path):
    assert "<b>a" not in path.read_text()
    assert "<b>a" in Page(path).texts


def test_one_short_chain_of_one_quantity_has_a_page(tmp_path):
    one = mj.sample(targets.gaussian([1.0]), **SMALL | {"chains": 1, "draws": 20})
    assert Page(one.report(tmp_path / "run.html")).headings == SECTIONS


def test_many_quantities_are_shown_as_far_as_a_page_goes(tmp_path):
    many = mj.sample(targets.gaussian(np.ones(80)), **SMALL | {"draws": 60, "tune": 60})
    page = Page(many.report(tmp_path / "run.html"))
    assert "20 more quantities are not shown." in page.text
