"""All variables of the posterior come out of raveled draws as PyMC would compute them."""

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import mjhmc_numba.pymc.expand as expand_room
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.diagnosis import PYTHON_MODE
from mjhmc_numba.pymc.errors import ExpansionError, UnknownVariableError
from mjhmc_numba.pymc.expand import Expansion
from tests.integrations import models

# PyTensor from pip says so when PyMC computes the initial point of a Cholesky factor.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")


def draws_of(density, seed=0, chains=2, draws=7):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=0.4, size=(chains, draws, density.ndim))


def pymcs_own(density, x):
    """All variables at the vector x by PyMC's function of a point."""
    model = density.model
    outputs = model.unobserved_value_vars
    function = model.compile_fn(outputs, inputs=model.value_vars, mode=PYTHON_MODE)
    values = function(density.layout.unravel(x))
    return {v.name: value for v, value in zip(outputs, values, strict=True)}


def assert_expanded(density, draws, expanded):
    for chain, draw in ((0, 0), (1, draws.shape[1] - 1)):
        expected = pymcs_own(density, draws[chain, draw])
        for name, values in expanded.items():
            assert values.dtype == expected[name].dtype
            np.testing.assert_allclose(values[chain, draw], expected[name], rtol=1e-12)


@pytest.mark.parametrize("build", [models.regression, models.constrained, models.cholesky])
def test_variables_are_those_of_pymc(build):
    density = ModelDensity(build())
    draws = draws_of(density)
    expanded = Expansion(density)(draws)
    model = density.model
    assert list(expanded) == [v.name for v in model.free_RVs + model.deterministics]
    assert_expanded(density, draws, expanded)


def test_transformed_values_are_stored_on_request():
    density = ModelDensity(models.regression())
    expanded = Expansion(density, include_transformed=True)(draws_of(density))
    np.testing.assert_allclose(np.exp(expanded["sigma_log__"]), expanded["sigma"])


def test_loops_run_natively_and_agree():
    density = ModelDensity(models.looping())
    expansion = Expansion(density)
    draws = draws_of(density)
    assert_expanded(density, draws, expansion(draws))
    assert isinstance(expansion._runner, expand_room.NativeLoop)


def test_chunks_do_not_change_the_result(monkeypatch):
    density = ModelDensity(models.constrained())
    draws = draws_of(density, draws=11)
    whole = Expansion(density)(draws)
    monkeypatch.setattr(expand_room, "CHUNK_BYTES", 300)
    done = []
    parts = Expansion(density)(draws, progress=done.append)
    assert len(done) > 3
    assert done[-1] == 22
    for name in whole:
        np.testing.assert_array_equal(parts[name], whole[name])


def test_operations_without_native_code_are_expanded_too():
    density = ModelDensity(models.in_python())
    draws = draws_of(density)
    expanded = Expansion(density)(draws)
    np.testing.assert_allclose(expanded["h"], draws / 2)
    with pytest.raises(ExpansionError, match="more than five"):
        Expansion(density)(draws + 10)


def test_no_draws_give_empty_arrays_of_the_right_shape():
    density = ModelDensity(models.regression())
    expanded = Expansion(density)(np.empty((2, 0, density.ndim)))
    assert expanded["mu"].shape == (2, 0, 40)


def test_data_of_the_density_is_used():
    density = ModelDensity(models.regression()).with_data(x=np.zeros((5, 3)), seen=np.zeros(5))
    mu = Expansion(density, ["mu"])(draws_of(density))["mu"]
    np.testing.assert_array_equal(mu, np.zeros((2, 7, 5)))


def test_a_pickled_expansion_is_the_same():
    density = ModelDensity(models.constrained())
    expansion, draws = Expansion(density), draws_of(density)
    expected = expansion(draws)
    again = cloudpickle.loads(cloudpickle.dumps(expansion))(draws)
    for name in expected:
        np.testing.assert_array_equal(again[name], expected[name])


def test_names_that_the_model_does_not_have_are_refused():
    density = ModelDensity(models.regression())
    with pytest.raises(UnknownVariableError, match="gamma"):
        Expansion(density, ["beta", "gamma"])


def test_a_shape_that_varies_is_refused():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=4)
        pm.Deterministic("positive", x[pt.gt(x, 0).nonzero()])
    density = ModelDensity(model)
    with pytest.raises(ExpansionError, match="shape"):
        Expansion(density)(draws_of(density))


@pytest.mark.parametrize("build", [models.regression, models.constrained, models.cholesky])
@pytest.mark.parametrize("include_transformed", [False, True])
def test_in_place_of_the_draws_it_is_the_same(build, include_transformed):
    """What fits where its transform lay is written there, and nothing else changes."""
    density = ModelDensity(build())
    expansion = Expansion(density, include_transformed=include_transformed)
    draws = draws_of(density, draws=11)
    expected = {name: array.copy() for name, array in expansion(draws).items()}
    made = expansion(draws, in_place=True)
    for name, array in expected.items():
        np.testing.assert_array_equal(made[name], array)
    is_known = {
        v.name: None not in v.type.shape
        for v in density.model.free_RVs + density.model.deterministics
    }
    counted = [a for name, a in made.items() if is_known.get(name, True)]
    own = sum(a[0, 0].size for a in counted if not np.may_share_memory(a, draws))
    assert expansion.width(in_place=True) == own


def test_in_place_a_copy_of_a_transform_keeps_it(monkeypatch):
    """Written over are rows that something else is still read from."""
    monkeypatch.setattr(expand_room, "CHUNK_BYTES", 300)
    with pm.Model() as model:
        s = pm.HalfNormal("s", shape=3)
        pm.Deterministic("twice", 2 * s)
        pm.Deterministic("raw", pt.log(s))
        pm.Deterministic("itself", model.rvs_to_values[s][::1])
    density = ModelDensity(model)
    draws = draws_of(density, draws=40)
    before = draws.copy()
    expansion = Expansion(density)
    assert expansion.width(in_place=True) == 9  # all but s itself
    assert expansion.width(in_place=False) == 12
    made = expansion(draws, in_place=True)
    np.testing.assert_array_equal(made["s"], np.exp(before))
    np.testing.assert_array_equal(made["twice"], 2 * np.exp(before))
    np.testing.assert_allclose(made["raw"], before, atol=1e-12)
    np.testing.assert_array_equal(made["itself"], before)
    np.testing.assert_array_equal(draws, made["s"])
