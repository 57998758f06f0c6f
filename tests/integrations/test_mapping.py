"""One model on many data sets, and simulation-based calibration."""

from concurrent.futures import ThreadPoolExecutor

import matplotlib as mpl
import numpy as np
import pymc as pm
import pytest
import xarray

import mjhmc_numba.pymc as mp
from mjhmc_numba.pymc import mapping
from mjhmc_numba.pymc.errors import ModelError
from tests.integrations.test_executor import Parcels

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")

RUN = {"draws": 100, "tune": 100, "chains": 2, "random_seed": 3, "progressbar": False}
MEANS = np.array([0.0, 0.3, 0.6, 1.0, 30.0])


@pytest.fixture(scope="module")
def compiled():
    """The mean of numbers with a known spread: the posterior is normal."""
    with pm.Model(coords={"who": ["a", "b"]}) as model:
        y = pm.Data("y", np.zeros((2, 4)))
        mu = pm.Normal("mu", 0.0, 10.0, dims="who")
        pm.Deterministic("twice", 2 * mu)
        pm.Normal("seen", mu[:, None], 1.0, observed=y)
    return mp.compile(model)


@pytest.fixture(scope="module")
def datasets():
    rng = np.random.default_rng(1)
    sets = {f"at {mean}": {"y": mean + rng.normal(size=(2, 4))} for mean in MEANS}
    sets["no shape"] = {"y": np.zeros(3)}
    sets["no number"] = {"y": np.full((2, 4), np.nan)}
    return sets


@pytest.fixture(scope="module")
def mapped(compiled, datasets):
    return compiled.map(datasets, **RUN)


def test_each_posterior_is_that_of_its_data(mapped, datasets):
    posterior = mapped.posterior
    assert posterior["mu"].dims == ("dataset", "chain", "draw", "who")
    assert posterior["who"].values.tolist() == ["a", "b"]
    assert posterior["dataset"].values.tolist() == list(datasets)[:5]
    shrink = 4 / (4 + 1 / 100)
    for name in list(datasets)[:5]:
        mean = shrink * datasets[name]["y"].mean(axis=1)
        own = posterior["mu"].sel(dataset=name)
        np.testing.assert_allclose(own.mean(("chain", "draw")), mean, atol=0.3)
        np.testing.assert_allclose(own.std(("chain", "draw")), np.sqrt(shrink / 4), rtol=0.4)
    np.testing.assert_array_equal(posterior["twice"], 2 * posterior["mu"])


def test_failures_are_kept_apart(mapped):
    assert sorted(mapped.failures) == ["no number", "no shape"]
    assert all(isinstance(error, Exception) for error in mapped.failures.values())


def test_neighbours_share_a_warm_up(mapped):
    own = mapped.sample_stats["has_own_warmup"].values
    assert own[0] == 1
    assert own[1:].sum() == 0  # also where the posterior is far away, of the same shape
    assert (mapped.sample_stats["r_hat"] < 1.2).all()
    assert (mapped.sample_stats["divergences"] == 0).all()


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, Parcels])
def test_draws_do_not_depend_on_where_they_are_made(compiled, datasets, mapped, kind):
    with kind(2) as executor:
        there = compiled.map(datasets, **RUN, executor=executor)
    np.testing.assert_array_equal(there.posterior["mu"], mapped.posterior["mu"])
    alone = compiled.map(datasets, **RUN, cores=1)
    np.testing.assert_array_equal(alone.posterior["mu"], mapped.posterior["mu"])


def test_a_data_set_has_the_same_draws_whoever_comes_after_it(compiled, datasets, mapped):
    fewer = dict(list(datasets.items())[:2])
    there = compiled.map(fewer, **RUN)
    np.testing.assert_array_equal(there.posterior["mu"], mapped.posterior["mu"][:2])


def test_what_looks_poor_is_warmed_up_by_itself(compiled, datasets, monkeypatch):
    monkeypatch.setattr(mapping, "LARGEST_R_HAT_OF_MAP", 0.0)
    names = list(datasets)[:3]
    again = compiled.map({name: datasets[name] for name in names}, **RUN)
    assert again.sample_stats["has_own_warmup"].values.tolist() == [1, 1, 1]
    alone = compiled.map({name: datasets[name] for name in names}, **RUN, warm_start=False)
    np.testing.assert_array_equal(again.posterior["mu"], alone.posterior["mu"])


def test_no_data_set_gives_nothing(compiled):
    assert compiled.map([], **RUN).posterior.sizes == {}


# ------------------------------------------------------------------------- calibration


SBC = {"simulations": 60, "draws": 99, "tune": 60, "random_seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def calibrated(compiled):
    return mp.sbc(compiled, **SBC)


def test_a_right_model_is_calibrated_and_the_log_density_too(calibrated):
    result = calibrated
    assert set(result.quantities()) == {"mu[0]", "mu[1]", "log_density"}
    assert result.ranks.sizes["dataset"] == 60
    assert min(result.p_values().values()) > 1e-3
    low, high = result.band(0.99)
    assert (low <= high).all()
    mpl.use("Agg")
    axes = result.plot()
    assert axes.get_ylabel() == "ECDF - uniform"
    mpl.pyplot.close("all")


def test_where_there_are_fewer_draws_than_percentiles_all_of_them_are_ranked(compiled):
    few = mp.sbc(compiled, **SBC | {"simulations": 3, "draws": 20})
    assert few.levels == 20
    with pytest.raises(ModelError, match=r"from 1 to draws \(20\), not 21"):
        mp.sbc(compiled, **SBC | {"simulations": 3, "draws": 20}, levels=21)


def test_a_wrong_posterior_is_noticed(calibrated):
    result = calibrated
    shifted = result.ranks.copy(deep=True)
    shifted["mu"] = (shifted["mu"] + 30).clip(max=result.levels)
    wrong = mp.Calibration(shifted, result.levels, result.mapped)
    assert wrong.p_values()["mu[0]"] < 2e-3
    assert "mu[0]" in repr(wrong) or "mu[1]" in repr(wrong)


def test_the_band_holds_as_often_as_it_says():
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(200):
        ranks = xarray.Dataset({"a": ("dataset", rng.integers(20, size=50))})
        result = mp.Calibration(ranks, 19, None)
        low, high = result.band(0.9)
        ecdf = np.bincount(ranks["a"].values, minlength=20).cumsum() / 50
        inside += bool(((low <= ecdf) & (ecdf <= high)).all())
    assert 0.82 < inside / 200 < 0.99


def test_data_that_cannot_be_replaced_are_named():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("seen", mu, 1.0, observed=[1.0, 2.0])
    with pytest.raises(ModelError, match=r"seen is not observed as pm\.Data"):
        mp.sbc(model, **SBC)
