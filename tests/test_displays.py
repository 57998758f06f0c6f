"""What objects say of themselves, at a prompt and in a notebook."""

import sys

import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.markup import card, short, table
from tests.test_report import Page


@pytest.fixture(scope="module")
def result():
    size = {"draws": 100, "tune": 100, "chains": 2, "seed": 1, "progress": False}
    return mj.sample(targets.gaussian([1.0, 2.0]), **size)


def text_of(shown, tmp_path):
    """The text of HTML whose tags are closed."""
    path = tmp_path / "shown.html"
    path.write_text(shown._repr_html_())
    page = Page(path)
    assert page.open == []
    return page.text


def test_settings_show_what_differs_from_the_default(tmp_path):
    assert repr(mj.Settings()) == "Settings()"
    chosen = mj.Settings(step_size=0.5, integrator="leapfrog", metric=np.ones(3))
    assert repr(chosen) == "Settings(step_size=0.5, integrator='leapfrog', metric=ndarray)"
    told = text_of(chosen, tmp_path)
    assert "step_size" in told
    assert "max_jumps" not in told
    assert eval(repr(mj.Settings(step_size=0.5)), vars(mj)) == mj.Settings(step_size=0.5)


def test_a_result_shows_its_size_cost_and_warnings(result, tmp_path):
    assert "2 chains x 100 draws x 2 dimensions" in repr(result)
    assert repr(result).endswith("0 diverging, 0 warnings>")
    told = text_of(result, tmp_path)
    for part in (f"{result.gradients['draws']:,} after it", "worst R-hat", "all by default"):
        assert part in told
    troubled = mj.Result(**vars(result) | {"warnings": ["Chain 0 is <stuck>."]})
    assert repr(troubled).endswith("1 warning>")
    assert "Chain 0 is <stuck>." in text_of(troubled, tmp_path)


def test_a_result_without_draws_shows_itself(result, tmp_path):
    stats = {name: values[:, :0] for name, values in result.stats.items()}
    empty = mj.Result(**vars(result) | {"draws": result.draws[:, :0], "stats": stats})
    assert "2 x 0 x 2" in text_of(empty, tmp_path)


def test_pymc_objects_show_variables_and_settings(tmp_path):
    pm = pytest.importorskip("pymc")
    import mjhmc_numba.pymc as mp

    with pm.Model() as model:
        pm.HalfNormal("tau")
        pm.Normal("theta", shape=3)
        step = mp.MJHMC(target_accept=0.9, progressbar=False)
    assert repr(step) == "<MJHMC: 4 dimensions of tau, theta (3), native; target_accept=0.9>"
    assert "target_accept=0.9" in text_of(step, tmp_path)
    compiled = mp.compile(model, progressbar=False)
    assert repr(compiled) == "<CompiledModel: 4 dimensions of tau, theta (3), native>"
    assert "theta (3)" in text_of(compiled, tmp_path)
    size = {"draws": 20, "tune": 20, "chains": 2, "progressbar": False}
    run = compiled.sample(**size, compute_convergence_checks=False, blocking=False, max_jumps=99)
    run.abort()
    assert repr(run).startswith("<Sampling: finished, draws of each chain: [")
    assert "max_jumps=99" in text_of(run, tmp_path)


def test_markup_is_escaped_and_numbers_are_short():
    assert [short(v) for v in (1234567, 12345.6, 0.123456, "a", True)] == [
        "1,234,567",
        "12,346",
        "0.123",
        "a",
        "True",
    ]
    for html in (card("<a>", {"<b>": "<c>"}, notes=["<d>"]), table(["<a>"], [("<b>", "<c>")])):
        assert not any(f"<{tag}>" in html.replace("<b>&lt;a&gt;</b>", "") for tag in "abcd")


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    for name in [n for n in sys.modules if n.startswith("mjhmc_numba.pymc")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymc", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'mjhmc_numba\[pymc\]'") as raised:
        import mjhmc_numba.pymc  # noqa: F401
    assert len(str(raised.value).splitlines()) == 1
