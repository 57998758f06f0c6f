"""ArviZ reads what both ways of sampling return, in both of its generations."""

import arviz as az
import matplotlib
import numpy as np
import pymc as pm
import pytest

from mjhmc_numba.pymc import MJHMC, sample

IS_NEW = int(az.__version__.split(".")[0]) >= 1

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
    # PyMC 6 would rather have another call.
    pytest.mark.filterwarnings("ignore:Passing `log_likelihood`:FutureWarning"),
    # What ArviZ, its plots and their libraries say to each other.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:arviz.*"),
    pytest.mark.filterwarnings("ignore:Attempting to set identical:UserWarning"),
]

OPTIONS = {
    "draws": 200,
    "tune": 150,
    "chains": 2,
    "random_seed": 1,
    "progressbar": False,
    "compute_convergence_checks": False,
    "idata_kwargs": {"log_likelihood": True},
}


@pytest.fixture(scope="module", params=["step", "native"])
def data(request):
    matplotlib.use("Agg")
    with pm.Model(coords={"row": np.arange(30)}):
        a = pm.Normal("a", 0, 2)
        s = pm.HalfNormal("s", 2)
        pm.Normal("y", a, s, observed=np.linspace(-2, 4, 30), dims="row")
        if request.param == "step":
            return pm.sample(step=MJHMC(), cores=1, **OPTIONS)
        return sample(**OPTIONS)


def test_a_summary_has_every_parameter(data):
    table = az.summary(data)
    assert set(table.index) == {"a", "s"}
    assert (table["ess_bulk"].astype(float) > 50).all()


def test_the_energy_says_that_momenta_are_refreshed(data):
    fractions = az.bfmi(data)
    values = fractions["energy"].values if IS_NEW else fractions
    assert values.shape == (2,)
    assert (values > 0.5).all()


def test_models_are_compared_by_their_log_likelihood(data):
    table = az.compare({"one": data, "same": data})
    assert set(table.index) == {"one", "same"}
    assert data["log_likelihood"]["y"].shape == (2, 200, 30)


def test_plots_are_drawn(data):
    az.plot_energy(data)
    az.plot_trace(data, var_names=["a", "s"])
    if IS_NEW:
        az.plot_pair(data, var_names=["a", "s"], visuals={"divergence": True})
    else:
        az.plot_pair(data, var_names=["a", "s"], divergences=True)
    matplotlib.pyplot.close("all")


def test_files_hold_all_groups(data, tmp_path):
    pytest.importorskip("h5netcdf")
    path = tmp_path / "data.nc"
    data.to_netcdf(path, engine="h5netcdf")
    again = az.from_netcdf(path, engine="h5netcdf")
    assert np.array_equal(again["posterior"]["a"], data["posterior"]["a"])
    assert np.array_equal(again["sample_stats"]["n_L"], data["sample_stats"]["n_L"])
