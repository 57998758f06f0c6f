"""A page about draws of a PyMC model: the warnings of the run, or those that the draws deserve."""

import warnings

import arviz
import numpy as np
import pymc as pm
import pytest

import mjhmc_numba.pymc as mp
from mjhmc_numba import SamplingWarning
from mjhmc_numba.pymc.report import warnings_of
from tests.integrations import models

SMALL = {"draws": 150, "tune": 200, "chains": 2, "random_seed": 3, "progressbar": False}
HARD = {"reparametrisation": "none", "integrator": "leapfrog", "refine_levels": 0}
HARD |= {"target_accept": 0.4, "compute_convergence_checks": False}


@pytest.fixture(scope="module")
def hard():
    """A funnel that is sampled badly on purpose."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")  # PyTensor may speak of BLAS
        data = mp.compile(models.funnel()).sample(**SMALL, **HARD)
    return data, [str(w.message) for w in told if w.category is SamplingWarning]


def test_warnings_of_the_run_are_stored_and_told_again(hard, tmp_path):
    data, told = hard
    assert told
    assert warnings_of(data) == told
    data.to_netcdf(tmp_path / "run.nc")
    again = arviz.from_netcdf(tmp_path / "run.nc")
    assert warnings_of(again) == told
    page = mp.report(again, tmp_path / "run.html", title="A funnel").read_text()
    assert "<title>A funnel</title>" in page
    assert "met a divergence" in page
    assert "Where divergences lie" in page


def test_draws_without_stored_warnings_are_looked_at_again(hard):
    data, told = hard
    stored = data["sample_stats"].attrs.pop("warnings")
    try:
        assert warnings_of(data)[0] == told[0]
    finally:
        data["sample_stats"].attrs["warnings"] = stored


def test_draws_of_the_step_method_have_a_page(tmp_path):
    with models.regression():
        data = pm.sample(step=mp.MJHMC(), cores=1, compute_convergence_checks=False, **SMALL)
    page = mp.report(data, tmp_path / "run.html").read_text()
    assert "Warm-up</h2>" in page
    assert "discard_tuned_samples=False" in page


def test_draws_of_another_sampler_have_a_page(tmp_path):
    rng = np.random.default_rng(1)
    draws = {"x": rng.normal(size=(2, 200)), "y": rng.normal(size=(2, 200, 2))}
    stats = {"diverging": np.zeros((2, 200), bool)}
    groups = {"posterior": draws, "sample_stats": stats}
    is_new = int(arviz.__version__[0]) >= 1
    data = arviz.from_dict(groups) if is_new else arviz.from_dict(**groups)
    assert warnings_of(data) == []
    assert "y[1]" in mp.report(data, tmp_path / "run.html").read_text()
