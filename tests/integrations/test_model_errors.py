"""What is wrong with a model is said before sampling, with the name of the culprit."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from mjhmc_numba.errors import InitialPointError, TargetError
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.errors import (
    DataError,
    DiscreteVariableError,
    ModelChangedError,
    NoVariableError,
    ObjectModeWarning,
    RandomDensityError,
    StartError,
    UnknownVariableError,
)
from tests.integrations import models


def test_a_model_without_free_variables_is_refused():
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=[1.0])
    with pytest.raises(NoVariableError, match="observed"):
        ModelDensity(model)
    with pytest.raises(NoVariableError, match="empty"):
        ModelDensity(pm.Model())


def test_a_model_of_discrete_variables_is_refused():
    with pm.Model() as model:
        pm.Poisson("n", 3)
    with pytest.raises(NoVariableError, match="discrete ones: n"):
        ModelDensity(model)


def test_a_discrete_variable_is_named():
    model = models.mixed()
    with pytest.raises(DiscreteVariableError, match="z is discrete"):
        ModelDensity(model, vars=[model["a"], model["z"]])


@pytest.mark.parametrize(
    ("wanted", "why"), [("gamma", "not in the model"), ("y", "observed"), ("mu", "Deterministic")]
)
def test_a_variable_that_cannot_be_sampled_is_named(wanted, why):
    with pytest.raises(UnknownVariableError, match=f"{wanted}.*{why}"):
        ModelDensity(models.regression(), vars=[wanted])


def test_a_random_density_is_refused():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        batch = pm.Minibatch(np.arange(100.0), batch_size=10)
        pm.Normal("y", mu, 1, observed=batch, total_size=100)
    with pytest.raises(RandomDensityError, match="random numbers"):
        ModelDensity(model).address  # noqa: B018 (compiles)


def test_a_mode_of_another_backend_is_followed_through_python():
    density = ModelDensity(models.regression(), compile_kwargs={"mode": "FAST_COMPILE"})
    x = np.full(density.ndim, 0.3)
    with pytest.warns(ObjectModeWarning, match="Numba backend"):
        logp, grad = density.logp_and_grad(x)
    assert not density.is_native
    usual = ModelDensity(models.regression()).logp_and_grad(x)
    assert logp == pytest.approx(usual[0])
    assert np.allclose(grad, usual[1])


def start_error(model, **initvals):
    density = ModelDensity(model)
    point = model.initial_point() | {k: np.asarray(v) for k, v in initvals.items()}
    with pytest.raises(StartError) as caught:
        density.check_start(point)
    return caught.value


def test_a_start_outside_the_support_names_the_term_and_the_element():
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1, shape=2)
        pm.Exponential("y", pt.exp(a[0]), observed=[1.0, -2.0, 3.0])
    error = start_error(model)
    assert isinstance(error, InitialPointError)
    assert isinstance(error, TargetError)
    assert "the term of y is -inf in 1 of 3 elements, first at [1]" in str(error)
    assert "a = [0." in str(error)


def test_a_start_where_the_density_raises_names_the_term():
    assert "the term of p raises AssertionError" in str(start_error(models.asserting(), x=4.0))


def test_a_gradient_that_is_not_finite_is_named():
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=2, initval=[0.0, 1.0])
        pm.Potential("p", pt.sqrt(b).sum())
    message = str(start_error(model))
    assert "gradient is not finite: b: inf in 1 of 2 elements, first at [0]" in message


def test_nan_in_observed_values_is_named():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1, observed=pm.Data("seen", [0.0, 1.0]))
        pm.set_data({"seen": [0.0, np.nan]})
    error = start_error(model)
    assert isinstance(error, DataError)
    assert "Observed values of y: nan in 1 of 2 elements, first at [1]" in str(error)


def test_nan_in_a_covariate_is_named():
    model = models.regression()
    wrong = model["x"].get_value()
    wrong[3, 1] = np.nan
    with model:
        pm.set_data({"x": wrong})
    error = start_error(model)
    assert isinstance(error, DataError)
    assert "Data x: nan in 1 of 120 elements, first at [3,1]" in str(error)


def test_a_good_start_is_its_vector():
    density = ModelDensity(models.regression())
    x = density.check_start(density.model.initial_point())
    np.testing.assert_array_equal(x, np.zeros(4))


def test_a_model_that_changed_after_compilation_is_refused():
    model = models.regression()
    density = ModelDensity(model)
    density.check_unchanged()
    with model:
        pm.Normal("late", 0, 1)
    with pytest.raises(ModelChangedError, match="late"):
        density.check_unchanged()


def test_a_point_of_another_shape_is_refused():
    density = ModelDensity(models.regression())
    point = density.model.initial_point() | {"beta": np.zeros(4)}
    with pytest.raises(ModelChangedError, match="beta has shape"):
        density.layout.ravel(point)


def test_data_of_another_rank_or_unknown_name_is_refused():
    density = ModelDensity(models.regression())
    with pytest.raises(ModelChangedError, match="x has 1 dimensions"):
        density.with_data(x=np.zeros(3))
    with pytest.raises(UnknownVariableError, match="nothere"):
        density.with_data(nothere=1)


def test_data_that_would_resize_a_variable_is_refused():
    with pm.Model(coords={"g": [0, 1, 2]}) as model:
        x = pm.Data("x", np.ones(3), dims="g")
        b = pm.Normal("b", 0, 1, dims="g")
        pm.Normal("y", (x * b).sum(), 1, observed=0.0)
    with pytest.raises(ModelChangedError, match="length 5"):
        ModelDensity(model).with_data(x=np.ones(5))
