"""Each run reads data of its own, whatever happens to the model's meanwhile."""

import gc

import numpy as np
import pymc as pm
import pytensor
import pytest

import mjhmc_numba.pymc as mp
from mjhmc_numba.pymc.density import ModelDensity
from tests.integrations import models

OPTIONS = {
    "draws": 3000,
    "tune": 300,
    "chains": 2,
    "random_seed": 5,
    "progressbar": False,
    "compute_convergence_checks": False,
}
pytestmark = [
    pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning"),
    # PyTensor from pip says so when it compiles a product.
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
]


def line():
    """A regression line whose data may be long, and a Deterministic of data of its own."""
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        t = pm.Data("t", np.linspace(-1, 1, 30))
        new_t = pm.Data("new_t", np.array([2.0, 3.0]))
        slope = pm.Normal("slope", 0, 10)
        pm.Normal("y", slope * t, 1, observed=pm.Data("seen", rng.normal(size=30)))
        pm.Deterministic("fit", slope * t)
        pm.Deterministic("forecast", slope * new_t)
    return model


def other_data():
    rng = np.random.default_rng(2)
    return {"t": np.full(50, 7.0), "seen": rng.normal(size=50) + 70, "new_t": np.array([1.0])}


def assert_equal(data, expected):
    for group in ("posterior", "constant_data", "observed_data"):
        for name in expected[group].data_vars:
            np.testing.assert_array_equal(data[group][name], expected[group][name], err_msg=name)


def test_a_background_run_keeps_the_data_it_began_with():
    model = line()
    compiled = mp.compile(model)
    alone = compiled.sample(**OPTIONS)
    background = compiled.sample(**OPTIONS, blocking=False)
    with model:
        pm.set_data(other_data())
    second = compiled.sample(**OPTIONS | {"draws": 200})
    gc.collect()  # what was replaced is gone, but for those who read it
    first = background.wait(timeout=300)
    assert_equal(first, alone)
    assert first["posterior"]["fit"].shape[2] == 30
    assert second["posterior"]["fit"].shape[2] == 50
    assert abs(float(second["posterior"]["slope"].mean()) - 10) < 1
    np.testing.assert_array_equal(model["t"].get_value(), other_data()["t"])


def test_draws_so_far_are_expanded_by_the_data_of_their_run():
    model = line()
    compiled = mp.compile(model)
    background = compiled.sample(**OPTIONS | {"draws": 10**6}, blocking=False)
    with model:
        pm.set_data(other_data())
    try:
        shown = None
        while shown is None:
            shown = background.inspect()
    finally:
        background.abort()
    forecast = shown["posterior"]["forecast"].values
    slope = shown["posterior"]["slope"].values
    np.testing.assert_array_equal(forecast, slope[..., None] * [2.0, 3.0])


@pytest.fixture(scope="module")
def density():
    return ModelDensity(models.regression())


def test_a_snapshot_is_the_density_of_its_moment(density):
    x = np.array([0.3, -0.2, 0.1, -0.4])
    before, snapshot = density.logp_and_grad(x)[0], density.snapshot()
    assert snapshot.address == density.address
    with density.model:
        pm.set_data({"width": 0.5})
    assert not snapshot.update_data()
    assert snapshot.logp_and_grad(x)[0] == before
    assert density.update_data()
    assert density.logp_and_grad(x)[0] != before
    assert density.snapshot().logp_and_grad(x)[0] == density.logp_and_grad(x)[0]
    assert snapshot.data_value(density.model["width"]) == 2.0
    assert snapshot.with_data(width=0.5).logp_and_grad(x)[0] == density.logp_and_grad(x)[0]


def test_a_snapshot_of_other_data_keeps_them(density):
    x = np.zeros(4)
    other = density.with_data(width=7.0)
    assert other.snapshot().logp_and_grad(x)[0] == other.logp_and_grad(x)[0]


def test_data_written_in_place_do_not_reach_a_snapshot():
    """Neither its density nor what is computed of its draws."""
    shared = pytensor.shared(np.array([1.0, 2.0]))  # no name, no pm.Data
    with pm.Model() as model:
        x = pm.Normal("x", shared, 1, shape=2)
        pm.Deterministic("double", x * shared)
    density = ModelDensity(model)
    expansion, snapshot = mp.Expansion(density), density.snapshot()
    before = snapshot.logp_and_grad(np.zeros(2))[0]
    shared.get_value(borrow=True)[:] = 9.0
    assert snapshot.logp_and_grad(np.zeros(2))[0] == before
    draws = np.ones((1, 1, 2))
    assert expansion(draws, density=snapshot)["double"].tolist() == [[[1.0, 2.0]]]
    assert expansion(draws)["double"].tolist() == [[[9.0, 9.0]]]


@pytest.mark.filterwarnings("ignore::mjhmc_numba.pymc.errors.ObjectModeWarning")
def test_runs_of_a_python_density_at_once_do_not_mix():
    compiled = mp.compile(models.in_python())
    options = OPTIONS | {"draws": 300, "tune": 0, "step_size": 0.5, "num_steps": 2}
    options |= {"refresh_rate": 0.3, "draw_interval": 1.5}
    other = compiled.with_data(scale=0.25)
    alone = [model.sample(**options)["posterior"]["x"] for model in (compiled, other)]
    runs = [model.sample(**options, blocking=False) for model in (compiled, other)]
    together = [run.wait(timeout=300)["posterior"]["x"] for run in runs]
    for ours, expected in zip(together, alone, strict=True):
        np.testing.assert_array_equal(ours, expected)
