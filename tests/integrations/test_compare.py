"""Samplers side by side: what the table says is what was drawn and what it cost."""

import importlib.util
import logging
import sys

import arviz as az
import matplotlib
import numpy as np
import pymc as pm
import pytest

from mjhmc_numba import targets
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.markup import short
from mjhmc_numba.pymc import Comparison, compare

matplotlib.use("Agg")

needs_nutpie = pytest.mark.skipif(
    importlib.util.find_spec("nutpie") is None, reason="nutpie is not installed"
)
SIZE = {"draws": 300, "tune": 300, "chains": 2, "cores": 1, "random_seed": 3, "progressbar": False}
MEASURES = ("bulk", "tail", "squares")


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        location = pm.Normal("location", 1.0, 2.0)
        scale = pm.HalfNormal("scale", 1.0)
        pm.Deterministic("ratio", location / (1 + scale))
    return model


@pytest.fixture(scope="module")
def comparison(model):
    return compare(model, ("mjhmc", "nuts"), **SIZE)


def test_the_table_has_a_row_per_sampler_and_every_number_is_finite(comparison):
    table = comparison.table
    assert list(table.index) == ["mjhmc", "nuts"]
    assert np.isfinite(table.drop(columns="mean_difference").to_numpy(dtype=float)).all()
    assert np.isnan(table.loc["mjhmc", "mean_difference"])


def test_eight_rows_and_a_verdict_are_shown_and_all_rows_on_request(comparison):
    rows = comparison.summary()
    assert len(rows) == 8
    table = comparison.table
    shown = rows.loc["R-hat, worst quantity"].tolist()
    assert shown == [f"{value:.3f}" for value in table["r_hat"]]
    whole = table["compile_seconds"] + table["seconds"]
    assert rows.loc["seconds, with compilation"].tolist() == [short(v) for v in whole]
    assert list(comparison.summary(everything=True).index) == list(table.columns)
    for text in (str(comparison), repr(comparison), comparison._repr_html_()):
        assert "ESS per 1000 gradients" in text
        assert "squares_per_second_all" not in text
        assert text.count("Warm-up included, mjhmc made") == 1


def test_the_verdict_is_one_sentence_about_ratios_and_doubts(comparison):
    table = comparison.table.copy()
    table["ess_per_1000_grads_all"] = [30.0, 10.0]
    table["ess_per_second_all"] = [50.0, 200.0]
    table["r_hat"], table["mean_difference"] = 1.001, [np.nan, 1.0]
    told = Comparison(table, {}).verdict
    assert told == (
        "Warm-up included, mjhmc made 3.0 times (nuts) as many effective samples per gradient, and "
        "0.25 times (nuts) per second, compilation apart; their means agree."
    )
    table.loc["nuts", ["r_hat", "mean_difference"]] = 1.04, 9.0
    told = Comparison(table, {}).verdict
    assert "but nuts did not converge (R-hat 1.040)" in told
    assert "differ by 9.0 standard errors" in told
    assert "per 1000 gradients and" in Comparison(table.iloc[:1], {}).verdict


def test_by_default_mjhmc_meets_nutpie_where_it_is_installed_and_pymcs_nuts(model, monkeypatch):
    module = sys.modules["mjhmc_numba.pymc.compare"]
    for has_nutpie, expected in ((True, ["mjhmc", "nutpie", "nuts"]), (False, ["mjhmc", "nuts"])):
        monkeypatch.setattr(module, "_has_nutpie", lambda has=has_nutpie: has)
        assert module._default_samplers() == expected
    monkeypatch.setattr(module, "_default_samplers", lambda: ["mjhmc"])
    assert list(compare(model, **SIZE | {"draws": 20, "tune": 20}).table.index) == ["mjhmc"]


def test_nothing_is_shown_when_quiet_was_asked_for(model, capfd, caplog):
    level = logging.getLogger("pymc").level
    compare(model, ("mjhmc", "nuts"), **SIZE | {"draws": 20, "tune": 20}, quiet=True)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert logging.getLogger("pymc").level == level


def test_both_samplers_agree_within_their_monte_carlo_error(comparison):
    assert comparison.table.loc["nuts", "mean_difference"] < 5


def test_a_sampler_of_something_else_stands_out(model, monkeypatch):
    """As one whose draws are off by half a standard deviation."""
    module = sys.modules["mjhmc_numba.pymc.compare"]
    honest = module._quantities

    def shifted(data, names):
        values = honest(data, names)
        is_nuts = "tree_depth" in data["sample_stats"]
        return values + 0.5 * values.std() if is_nuts else values

    monkeypatch.setattr(module, "_quantities", shifted)
    made = compare(model, ("mjhmc", "nuts"), **SIZE)
    assert made.table.loc["nuts", "mean_difference"] > 5


def test_effective_sizes_are_the_smallest_that_arviz_finds(comparison):
    names = ["location", "scale", "ratio"]
    for sampler, data in comparison.data.items():
        for method in ("bulk", "tail"):
            sizes = az.ess(data, var_names=names, method=method)
            least = min(float(sizes[name]) for name in names)
            assert comparison.table.loc[sampler, f"ess_{method}"] == pytest.approx(least)


def test_efficiency_is_the_effective_size_over_what_was_spent(comparison):
    for name, row in comparison.table.iterrows():
        stats = comparison.data[name]["sample_stats"]
        counted = int(np.sum(np.asarray(stats["n_steps"]))) + (600 if name == "nuts" else 0)
        assert row["gradients"] == counted
        assert row["gradients_warmup"] > 600
        everything = counted + row["gradients_warmup"]
        worst = min(row["ess_bulk"], row["ess_tail"])
        assert row["ess_per_1000_grads"] == pytest.approx(1000 * worst / counted)
        for m in MEASURES:
            size = row[f"ess_{m}"]
            assert row[f"{m}_per_1000_grads_all"] == pytest.approx(1000 * size / everything)
            assert row[f"{m}_per_second_all"] == pytest.approx(size / row["seconds"])
            assert row[f"{m}_per_second"] > row[f"{m}_per_second_all"]


def test_the_same_seed_gives_the_same_draws(model, comparison):
    again = compare(model, ("mjhmc",), **SIZE | {"cores": 2})
    first = np.asarray(comparison.data["mjhmc"]["posterior"]["location"])
    np.testing.assert_array_equal(first, np.asarray(again.data["mjhmc"]["posterior"]["location"]))


def test_chosen_variables_and_options_are_used(model):
    options = {"mjhmc": {"integrator": "leapfrog", "metric": "diag"}}
    made = compare(model, options, var_names=["scale"], **SIZE)
    assert made.data["mjhmc"]["posterior"].attrs["integrator"] == "leapfrog, leapfrog"
    size = az.ess(made.data["mjhmc"], var_names=["scale"], method="bulk")["scale"]
    assert made.table.loc["mjhmc", "ess_bulk"] == pytest.approx(float(size))


def test_quantities_that_do_not_vary_are_left_out():
    with pm.Model() as constant:
        x = pm.Normal("x", shape=2)
        pm.Deterministic("zero_and_x", pm.math.stack([0.0, x[0]]))
    made = compare(constant, ("mjhmc",), **SIZE)
    assert np.isfinite(made.table.loc["mjhmc", "ess_bulk"])


@needs_nutpie
def test_nutpie_runs_in_both_of_its_modes(model):
    made = compare(model, ["mjhmc", "nutpie", "nutpie_lowrank"], **SIZE)
    assert (made.table["mean_difference"].iloc[1:] < 5).all()
    assert (made.table["gradients_warmup"] > 300).all()


@needs_nutpie
def test_a_density_is_sampled_by_all_of_them():
    made = compare(targets.gaussian([1.0, 2.0]), ["mjhmc", "nuts", "nutpie"], **SIZE)
    assert made.data["nuts"]["posterior"]["x"].shape == (2, 300, 2)
    assert (made.table["mean_difference"].iloc[1:] < 5).all()
    with pytest.raises(SettingsError, match="one vector x"):
        compare(targets.gaussian([1.0, 2.0]), ["mjhmc"], var_names=["y"])


def test_the_plot_shows_every_sampler_in_both_panels(comparison):
    axes = comparison.plot()
    assert len(axes) == 2
    for ax, unit in zip(axes, ("1000_grads", "second"), strict=True):
        assert [label.get_text() for label in ax.get_yticklabels()] == ["mjhmc", "nuts"]
        widths = [bar.get_width() for bar in ax.containers[1]]
        assert widths == pytest.approx(comparison.table[f"ess_per_{unit}_all"].tolist())
    matplotlib.pyplot.close(axes[0].figure)


def test_an_unknown_sampler_is_refused_with_the_known_ones(model):
    for samplers in (("gibbs",), ()):
        with pytest.raises(SettingsError, match="known are mjhmc, nuts, nutpie, nutpie_lowrank"):
            compare(model, samplers)


def test_a_missing_nutpie_says_how_to_get_it_before_anything_runs(model, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *a: None if name == "nutpie" else find(name, *a)
    )
    monkeypatch.setitem(sys.modules["mjhmc_numba.pymc.compare"].SAMPLERS, "mjhmc", None)
    with pytest.raises(SettingsError, match="pip install nutpie"):
        compare(model, ("mjhmc", "nutpie"), draws=10, tune=10)
