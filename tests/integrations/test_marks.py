"""What is stored beside the draws, and the energy, mean the same on both paths and in files."""

import json

import arviz
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray
from pymc.exceptions import SamplingError

import mjhmc_numba.pymc as mp
from mjhmc_numba.plots import plot_reparametrisation
from mjhmc_numba.pymc import errors
from tests.integrations import models
from tests.integrations.chains import OTHERS_WARN, QUIET

pytestmark = OTHERS_WARN

HOW = {"draws": 60, "tune": 250, "chains": 2, "random_seed": 3} | QUIET
SHARED = {"target_accept": 0.8, "metric": "diag"}
MARKS = {
    "sampler": "mjhmc_numba",
    "settings": "metric='diag', target_accept=0.8",
    "rates": "metropolis",
    "metric_rank": [0, 0],
    "reparametrisation_parents": ["v", "v"],
    "inference_library": "pymc",
    "inference_library_version": pm.__version__,
    "tuning_steps": 250,
}


@pytest.fixture(scope="module")
def native():
    return mp.compile(models.funnel()).sample(**HOW, **SHARED)


@pytest.fixture(scope="module", params=[1, 2])
def stepwise(request):
    with models.funnel():
        return pm.sample(step=mp.MJHMC(**SHARED), cores=request.param, **HOW)


def same(found, wanted):
    return np.asarray(found).tolist() == wanted


@pytest.mark.parametrize("group", ["posterior", "sample_stats"])
def test_the_step_leaves_the_marks_of_the_native_path(native, stepwise, group):
    ours, theirs = native[group].attrs, stepwise[group].attrs
    for attributes in (ours, theirs):
        for name, value in MARKS.items():
            assert same(attributes[name], value), name
        assert attributes["sampling_time"] > 0
    tuned = ("integrator", "step_size", "num_steps", "refresh_rate", "draw_interval")
    for name in (*tuned, "warmup_gradients"):
        assert same(ours[name], theirs[name]), name


def test_the_step_tells_what_was_reparametrised_as_the_native_path_does(native, stepwise):
    ours, theirs = native["sample_stats"].attrs, stepwise["sample_stats"].attrs
    for name in ("reparametrisation", "exact_reparametrisation"):
        assert theirs[name] == ours[name], name
    found = json.loads(theirs["reparametrisation"])
    assert [chain["scale_parents"] for chain in found] == [["v"], ["v"]]


def test_the_plot_of_the_reparametrisation_is_that_of_either_path(native, stepwise):
    shown = []
    for data in (native, stepwise):
        axes = np.ravel(plot_reparametrisation(data, show=False))
        shown.append([np.asarray(ax.images[0].get_array()).tolist() for ax in axes])
        plt.close("all")
    assert shown[0] == shown[1]
    assert len(shown[0]) == HOW["chains"]


def test_draws_of_other_steps_are_not_marked(stepwise):
    with pm.Model():
        pm.Normal("x")
        data = pm.sample(step=pm.Metropolis(), cores=1, **HOW)
    assert "sampler" not in data["posterior"].attrs


def test_a_step_without_statistics_is_left_alone(stepwise):
    with pm.Model():
        x = pm.Categorical("x", [0.2, 0.8])
        data = pm.sample(step=pm.CategoricalGibbsMetropolis([x]), cores=1, **HOW)
    assert data["posterior"].sizes["draw"] == HOW["draws"]


def test_a_step_beside_others_leaves_its_mark():
    with models.mixed():
        data = pm.sample(step=mp.MJHMC(["a", "b"]), cores=1, **HOW | {"draws": 5, "tune": 20})
    assert data["posterior"].attrs["sampler"] == "mjhmc_numba"
    assert data["posterior"].attrs["reparametrisation_parents"] == ["", ""]


@pytest.mark.parametrize("kind", ["netcdf", "zarr"])
@pytest.mark.filterwarnings("ignore:.*[zZ]arr")
@pytest.mark.filterwarnings("ignore:.*[cC]onsolidated")
def test_files_keep_draws_and_marks(native, tmp_path, kind):
    path = str(tmp_path / f"run.{kind}")
    is_tree = hasattr(native, "to_dict") and isinstance(native, xarray.DataTree)
    if kind == "netcdf":
        native.to_netcdf(path, engine="h5netcdf")
        read = xarray.open_datatree(path, engine="h5netcdf") if is_tree else arviz.from_netcdf(path)
    elif is_tree:
        native.to_zarr(path)
        read = xarray.open_datatree(path, engine="zarr")
    else:
        for group in ("posterior", "sample_stats"):  # ArviZ 0.x itself writes zarr 2 alone
            native[group].to_zarr(path, group=group, mode="a")
        read = {g: xarray.open_zarr(path, group=g) for g in ("posterior", "sample_stats")}
    for group in ("posterior", "sample_stats"):
        for name, value in MARKS.items():
            assert same(read[group].attrs[name], value), name
        # xarray has meanings of its own for some names of attributes, and drops these.
        assert set(read[group].attrs) >= set(native[group].attrs)
        for name, values in native[group].data_vars.items():
            assert np.array_equal(read[group][name], values)
    for name in ("warmup_windows", "reparametrisation", "exact_reparametrisation", "seed"):
        assert read["sample_stats"].attrs[name] == native["sample_stats"].attrs[name] != "", name


@pytest.mark.filterwarnings("ignore::mjhmc_numba.errors.SamplingWarning")  # it is a funnel
def test_the_energy_is_that_of_the_model_in_any_coordinates(native):
    """Minus the log density, and a kinetic energy with the law of a momentum's."""
    options = HOW | {"draws": 400}
    plain = mp.compile(models.funnel()).sample(**options, reparametrisation="none")
    other = mp.compile(models.funnel()).sample(**options)
    assert "v" in other["posterior"].attrs["reparametrisation_parents"]
    assert plain["posterior"].attrs["reparametrisation_parents"] == ["", ""]
    for data in (plain, other):
        kinetic = (data["sample_stats"]["energy"] + data["sample_stats"]["lp"]).values
        assert (kinetic > 0).all()
        # Half a chi-squared variable with 10 degrees of freedom: mean 5, sd sqrt(5).
        assert np.abs(kinetic.mean(axis=1) - 5).max() < 0.75


def test_what_a_model_does_wrong_is_a_sampling_error_of_pymc():
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert issubclass(kind, SamplingError) or issubclass(kind, Warning), name
    with pm.Model() as model:
        pm.Uniform("x", 0, 1, default_transform=None, initval=2.0)
    with pytest.raises(SamplingError, match="-inf at the initial point"):
        mp.sample(model=model, progressbar=False)
    with pytest.raises(SamplingError, match="empty"):
        mp.sample(model=pm.Model(), progressbar=False)


def test_a_transformed_name_is_refused_before_anything_is_compiled():
    with pytest.raises(errors.UnknownVariableError, match="include_transformed"):
        mp.compile(models.regression(), var_names=["sigma_log__"])
