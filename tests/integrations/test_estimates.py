"""Sharper estimates and the evidence of PyMC models, from the draws of any sampler."""

import json
import math
import sys

import arviz
import numpy as np
import pymc as pm
import pytest

import mjhmc_numba.pymc as mp
from mjhmc_numba.estimates import EstimateError, IdentityError
from mjhmc_numba.estimates.table import COLUMNS
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.errors import (
    DiscreteVariableError,
    ModelChangedError,
    UnknownVariableError,
)
from mjhmc_numba.pymc.unconstrain import unconstrain
from tests.integrations import models

# Of PyTensor's C backend, which is not used.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")

QUIET = {"progressbar": False, "compute_convergence_checks": False}


def conjugate():
    """A normal mean with known posterior, and a Gamma rate beside it."""
    with pm.Model(coords={"side": ["left", "right"]}) as model:
        m = pm.Normal("m", 0.0, 2.0, dims="side")
        rate = pm.Gamma("rate", 3.0, 2.0)
        pm.Normal("y", m, 0.5, observed=SEEN)
        pm.Poisson("n", 3.0 * rate, observed=7)
        pm.Deterministic("twice", 2.0 * m, dims="side")
    return model


SEEN = np.array([0.7, -0.5])
PRECISION = 0.25 + 4.0
EXACT_MEAN = 4.0 * SEEN / PRECISION
EXACT_RATE = (3.0 + 7.0) / (2.0 + 3.0)


def exact_evidence():
    """y is N(0, 4 + 1/4), the count is negative binomial."""
    of_y = sum(-0.5 * y**2 / 4.25 - 0.5 * math.log(2 * math.pi * 4.25) for y in SEEN)
    of_n = 3 * math.log(2.0) - math.lgamma(3.0) + math.lgamma(10.0) - 10 * math.log(5.0)
    return of_y + of_n + 7 * math.log(3.0) - math.lgamma(8.0)


@pytest.fixture(scope="module")
def model():
    return conjugate()


@pytest.fixture(scope="module")
def ours(model):
    return mp.sample(500, 500, model=model, random_seed=1, **QUIET)


@pytest.fixture(scope="module")
def nuts(model):
    return pm.sample(
        300, tune=300, chains=4, cores=1, model=model, random_seed=1, nuts_sampler="pymc", **QUIET
    )


@pytest.mark.parametrize("sampler", ["ours", "nuts"])
def test_means_of_any_samplers_draws_are_sharp_and_right(sampler, model, request):
    data = mp.estimates(request.getfixturevalue(sampler), model)
    assert list(data.metric.values) == list(COLUMNS)
    np.testing.assert_allclose(data["m"].sel(metric="mean"), EXACT_MEAN, atol=1e-7)
    np.testing.assert_allclose(data["twice"].sel(metric="mean"), 2 * EXACT_MEAN, atol=1e-7)
    np.testing.assert_allclose(data["m"].sel(metric="sd"), PRECISION**-0.5, rtol=1e-5)
    rate = data["rate"].sel(metric=["mean", "mcse_mean", "gain"]).values
    assert abs(rate[0] - EXACT_RATE) < 5 * rate[1] + 1e-9
    assert rate[2] > 100


def test_the_dataset_has_the_coordinates_of_the_posterior(model, ours):
    data = mp.estimates(ours, model, var_names=["m"])
    assert list(data.data_vars) == ["m"]
    assert data["m"].dims == ("metric", "side")
    assert list(data["side"].values) == ["left", "right"]
    assert data.attrs["refused"] == ""
    assert json.loads(data.attrs["notes"]) == {}


def test_the_table_has_the_rows_of_arvizs_summary(model, ours):
    table = mp.estimates(ours, model, fmt="wide")
    assert list(table.columns) == list(COLUMNS)
    assert len(table) == len(arviz.summary(ours))
    assert table.loc["rate", "gain"] > 100


def test_transformed_variables_and_functions_are_estimated_too(model, ours):
    table = mp.estimates(
        ours,
        model,
        var_names="rate_log__",
        functions={
            "left_above": lambda posterior: posterior["m"].sel(side="left") > 0.5,
            "log_rate": lambda posterior: np.log(posterior["rate"]),
            "square": np.asarray(ours["posterior"]["rate"]) ** 2,
        },
        fmt="wide",
    )
    assert list(table.index) == ["rate_log__", "left_above", "log_rate", "square"]
    assert table.loc["log_rate", "mean"] == pytest.approx(table.loc["rate_log__", "mean"])
    above = 0.5 * math.erfc((0.5 - EXACT_MEAN[0]) * math.sqrt(PRECISION / 2))
    row = table.loc["left_above"]
    assert abs(row["mean"] - above) < 5 * row["mcse_mean"]


@pytest.mark.parametrize("build", [models.constrained, models.cholesky, models.regression])
def test_draws_go_back_to_the_vector_that_was_sampled(build):
    model = build()
    data = mp.sample(
        60,
        200,
        2,
        model=model,
        random_seed=3,
        idata_kwargs={"include_transformed": True},
        **QUIET,
    )
    density = ModelDensity(model)
    stored = unconstrain(density, data["posterior"])
    free = [rv.name for rv in model.free_RVs]
    computed = unconstrain(density, {name: data["posterior"][name] for name in free})
    np.testing.assert_allclose(computed, stored, rtol=1e-8, atol=1e-8)


def test_bounds_that_depend_on_other_variables_are_seen():
    with pm.Model() as model:
        low = pm.Normal("low", 0.0, 1.0)
        pm.Uniform("x", low, low + 2.0)
    data = mp.sample(60, 200, 2, model=model, random_seed=3, **QUIET)
    draws = unconstrain(ModelDensity(model), data["posterior"])
    low, x = (np.asarray(data["posterior"][name]) for name in ("low", "x"))
    share = (x - low) / 2.0
    np.testing.assert_allclose(draws[..., 1], np.log(share) - np.log1p(-share), atol=1e-8)


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")  # the wall is met
def test_a_wall_is_refused_and_plain_averages_are_given_on_request():
    model = models.wall()
    data = mp.sample(300, 300, model=model, random_seed=2, **QUIET)
    with pytest.raises(IdentityError, match=r"of x is .* standard errors from 0"):
        mp.estimates(data, model)
    found = mp.estimates(data, model, if_refused="plain")
    assert "standard errors from 0" in found.attrs["refused"]
    assert float(found["x"].sel(metric="gain")) == 1.0


def test_a_compiled_model_is_taken_as_it_is(model, ours):
    compiled = mp.compile(model)
    one, other = mp.estimates(ours, compiled), mp.estimates(ours, model)
    assert one.equals(other)


def test_the_evidence_is_known_to_its_error(model, ours):
    found = mp.log_marginal_likelihood(ours, model, random_seed=4)
    assert abs(found.log_evidence - exact_evidence()) < 5 * found.error
    assert found.error < 0.02


def test_what_cannot_be_is_refused_with_the_name_of_the_culprit(model, ours):
    with pytest.raises(EstimateError, match="fmt"):
        mp.estimates(ours, model, fmt="long")
    with pytest.raises(UnknownVariableError, match="nothing"):
        mp.estimates(ours, model, var_names=["nothing"])
    with pytest.raises(UnknownVariableError, match="lacks rate"):
        unconstrain(ModelDensity(model), {"m": ours["posterior"]["m"]})
    with pytest.raises(DiscreteVariableError, match="k"):
        mp.estimates(ours, models.mixed())
    with pm.Model() as flat:
        pm.Flat("a")
        pm.Normal("y", 0.0, 1.0, observed=1.0)
    with pytest.raises(EstimateError, match="prior of a is improper"):
        mp.log_marginal_likelihood(ours, flat)


def test_other_data_in_the_model_are_noticed():
    model = models.regression()
    data = mp.sample(60, 200, 2, model=model, random_seed=3, var_names=["beta", "sigma"], **QUIET)
    with model:
        pm.set_data({"seen": np.linspace(-1, 1, 40)})
    with pytest.raises(ModelChangedError, match="is not the one that was stored"):
        mp.estimates(data, model)


def test_deterministics_that_were_not_stored_are_computed():
    model = models.regression()
    data = mp.sample(200, 200, 2, model=model, random_seed=3, var_names=["beta", "sigma"], **QUIET)
    found = mp.estimates(data, model, var_names=["mu"])
    assert found["mu"].shape == (len(COLUMNS), 40)
    assert np.median(found["mu"].sel(metric="gain")) > 10


def test_gradients_that_nutpie_stored_are_used(model, monkeypatch):
    nutpie = pytest.importorskip("nutpie")
    compiled = nutpie.compile_pymc_model(model)
    data = nutpie.sample(
        compiled,
        draws=300,
        tune=300,
        chains=4,
        seed=1,
        progress_bar=False,
        store_gradient=True,
        store_unconstrained=True,
    )
    room = sys.modules["mjhmc_numba.pymc.estimates"]  # whose name is the function's, too
    monkeypatch.setattr(room, "unconstrain", None)  # is not asked
    found = mp.estimates(data, model)
    np.testing.assert_allclose(found["m"].sel(metric="mean"), EXACT_MEAN, atol=1e-6)


@pytest.mark.long
# ArviZ 0.23 takes the stages of SMC for draws.
@pytest.mark.filterwarnings("ignore:More chains:UserWarning")
@pytest.mark.parametrize("build", [conjugate, models.regression])
def test_the_evidence_agrees_with_sequential_monte_carlo(build):
    model = build()
    ours = mp.log_marginal_likelihood(
        mp.sample(1000, 1000, model=model, random_seed=1, **QUIET), model, random_seed=1
    )
    smc = pm.sample_smc(2000, chains=4, cores=1, model=model, random_seed=1, **QUIET)
    last = [
        float(np.asarray(chain, dtype=float)[np.isfinite(np.asarray(chain, dtype=float))][-1])
        for chain in np.asarray(smc["sample_stats"]["log_marginal_likelihood"], dtype=object)
    ]
    error = math.hypot(ours.error, np.std(last, ddof=1) / math.sqrt(len(last)))
    assert abs(ours.log_evidence - np.mean(last)) < 5 * max(error, 0.02)


def hierarchy():
    """Centred, with data that say little: a funnel."""
    with pm.Model() as model:
        tau = pm.LogNormal("tau", 0.0, 0.7)
        theta = pm.Normal("theta", 0.0, tau, shape=8)
        pm.Normal("y", theta, 2.0, observed=np.linspace(-2.0, 2.0, 8))
    return model


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")
def test_the_coordinates_of_the_warm_up_are_used(monkeypatch):
    model = hierarchy()
    sampling = mp.sample(600, 1000, model=model, random_seed=1, blocking=False, **QUIET)
    data, found = sampling.wait(), sampling.result.tuned[0].reparametrisation
    assert found is not None
    room, seen = sys.modules["mjhmc_numba.pymc.estimates"], []
    for name in ("estimate", "bridge"):
        usual = getattr(room, name)
        monkeypatch.setattr(
            room,
            name,
            lambda *what, usual=usual, **how: (
                seen.append(how["reparametrisation"]) or usual(*what, **how)
            ),
        )
    mp.estimates(data, model)
    evidence = mp.log_marginal_likelihood(data, model, random_seed=1)
    assert len(seen) == 2
    x = sampling.result.draws
    for one in seen:
        np.testing.assert_array_equal(one.to_z(x), found.to_z(x))
    monkeypatch.setattr(room, "_coordinates", lambda idata, density: None)
    plain = mp.log_marginal_likelihood(data, model, random_seed=1)
    assert evidence.overlap > plain.overlap
    assert abs(evidence.log_evidence - plain.log_evidence) < 5 * (evidence.error + plain.error)
