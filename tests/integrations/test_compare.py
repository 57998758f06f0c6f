"""Samplers side by side."""

import sys

import matplotlib
import numpy as np
import pymc as pm
import pytest

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.pymc import compare

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        location = pm.Normal("location", 1.0, 2.0)
        scale = pm.HalfNormal("scale", 1.0)
        pm.Deterministic("ratio", location / (1 + scale))
    return model


@pytest.fixture(scope="module")
def comparison(model):
    return compare(
        model, ("mjhmc", "nuts"), draws=300, tune=300, chains=2, cores=1, seed=3, progressbar=False
    )


def test_the_table_has_a_row_a_sampler_and_every_number_is_finite(comparison):
    table = comparison.table
    assert list(table.index) == ["mjhmc", "nuts"]
    assert np.isfinite(table.drop(columns="mean_difference").to_numpy(dtype=float)).all()
    assert np.isnan(table.loc["mjhmc", "mean_difference"])


def test_both_samplers_agree_within_their_monte_carlo_error(comparison):
    assert comparison.table.loc["nuts", "mean_difference"] < 5


def test_efficiency_is_the_smaller_effective_size_over_the_gradients_that_were_counted(comparison):
    for name, row in comparison.table.iterrows():
        stats = comparison.data[name]["sample_stats"]
        counted = int(np.sum(np.asarray(stats["n_steps"]))) + (600 if name == "nuts" else 0)
        assert row["gradients"] == counted
        worst = min(row["ess_bulk"], row["ess_tail"])
        assert row["ess_per_1000_grads"] == pytest.approx(1000 * worst / counted)
        everything = counted + row["gradients_warmup"]
        assert row["ess_per_1000_grads_all"] == pytest.approx(1000 * worst / everything)


def test_the_same_seed_gives_the_same_draws(model, comparison):
    again = compare(
        model, ("mjhmc",), draws=300, tune=300, chains=2, cores=2, seed=3, progressbar=False
    )
    first = np.asarray(comparison.data["mjhmc"]["posterior"]["location"])
    np.testing.assert_array_equal(first, np.asarray(again.data["mjhmc"]["posterior"]["location"]))


def test_the_plot_shows_every_sampler_in_both_panels(comparison):
    figure = comparison.plot()
    assert len(figure.axes) == 2
    for ax in figure.axes:
        assert [label.get_text() for label in ax.get_yticklabels()] == ["mjhmc", "nuts"]
    matplotlib.pyplot.close(figure)


def test_an_unknown_sampler_is_refused_with_the_known_ones(model):
    with pytest.raises(SettingsError, match="known are mjhmc, nuts, nutpie, nutpie_lowrank"):
        compare(model, ("gibbs",))


def test_a_missing_nutpie_says_how_to_get_it(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "nutpie", None)
    with pytest.raises(SettingsError, match="pip install nutpie"):
        compare(model, ("nutpie",), draws=10, tune=10)
