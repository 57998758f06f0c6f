"""A model behind the C signature equals the model in PyTensor's own hands."""

import pickle
import subprocess
import sys

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytest

from mjhmc_numba.density.signature import NOT_FINITE, RAISED, SUCCESS, evaluate
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.diagnosis import PYTHON_MODE
from mjhmc_numba.pymc.errors import ObjectModeWarning
from tests.integrations import models

# PyTensor from pip says so when PyMC computes the initial point of a Cholesky factor.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")

_densities = {}


@pytest.fixture
def density_of():
    """Compiled densities; one per model and session, as they take seconds."""

    def get(build):
        if build not in _densities:
            _densities[build] = ModelDensity(build())
        return _densities[build]

    return get


def pytensors_own(density, **others):
    """PyTensor's function of x, run by its Python backend."""
    model, point = density.model, density.model.initial_point() | others
    function = model.logp_dlogp_function(
        density.value_vars, ravel_inputs=True, initial_point=point, mode=PYTHON_MODE
    )
    function.set_extra_values(point)
    return lambda x: function([np.asarray(x, dtype=function.dtype)])


def code_at(density, x):
    return evaluate(density.address, np.array(x, dtype=float), density.table).code


def assert_same(density, reference, x, rtol=1e-10):
    logp, grad = density.logp_and_grad(x)
    expected_logp, expected_grad = reference(x)
    np.testing.assert_allclose(logp, expected_logp, rtol=rtol)
    np.testing.assert_allclose(grad, expected_grad, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", models.ORDINARY)
def test_density_and_gradient_are_pytensors(name, density_of):
    density = density_of(models.ORDINARY[name])
    assert density.is_native
    reference = pytensors_own(density)
    density.update_others(density.model.initial_point())
    rng = np.random.default_rng(3)
    start = density.layout.ravel(density.model.initial_point())
    for _ in range(5):
        assert_same(density, reference, start + rng.normal(scale=0.4, size=density.ndim))


def test_changed_data_is_read_without_recompilation(density_of):
    density = density_of(models.regression)
    address = density.address
    x = np.array([0.3, -0.2, 0.1, -0.4])
    before = density.logp_and_grad(x)
    rng = np.random.default_rng(4)
    old = {name: density.model[name].get_value() for name in ("x", "width")}
    with density.model:
        pm.set_data({"x": rng.normal(size=(40, 3)), "width": 0.5})
    assert density.update_data(by_identity=True)
    assert not density.update_data()
    assert_same(density, pytensors_own(density), x)
    assert density.logp_and_grad(x)[0] != before[0]
    with density.model:
        pm.set_data(old)
    assert density.update_data()
    assert density.logp_and_grad(x)[0] == before[0]
    assert density.address == address


def test_data_of_another_length_is_read_without_recompilation(density_of):
    density = density_of(models.regression)
    address, x = density.address, np.array([0.3, -0.2, 0.1, -0.4])
    rng = np.random.default_rng(5)
    longer = {"x": rng.normal(size=(70, 3)), "seen": rng.normal(size=70)}
    other = density.with_data(**longer)
    old = {name: density.model[name].get_value() for name in longer}
    with density.model:
        pm.set_data(longer)
    assert_same(other, pytensors_own(other), x)
    with density.model:
        pm.set_data(old)
    assert_same(density, pytensors_own(density), x)
    assert other.address == address


def test_with_data_leaves_the_model_and_the_first_density_alone(density_of):
    density = density_of(models.regression)
    x = np.zeros(4)
    before = density.logp_and_grad(x)[0]
    other = density.with_data(width=7.0)
    assert other.logp_and_grad(x)[0] != before
    assert not other.update_data()
    assert density.logp_and_grad(x)[0] == before
    assert density.model["width"].get_value() == 2.0


def test_variables_of_other_steps_are_taken_over(density_of):
    density = density_of(models.mixed)
    x = np.linspace(-1, 1, density.ndim)
    others = {"k": np.array(1), "z": np.array([2, 0, 1, 1, 2])}
    point = density.model.initial_point() | others
    density.update_others(density.model.initial_point())
    assert density.update_others(point)
    assert not density.update_others(point)
    assert_same(density, pytensors_own(density, **others), x)


def test_chosen_variables_keep_their_order_and_the_others_are_held_fixed():
    model = models.mixed()
    density = ModelDensity(model, vars=["b"])
    assert density.layout.names == ("b",)
    assert_same(density, pytensors_own(density), np.linspace(-1, 1, 5))
    both = ModelDensity(model, vars=[model["b"], model["a"]])
    assert both.layout.names == ("b", "a")
    assert both.layout.labels[-2:] == ["b[4]", "a"]


def test_float32_models_take_and_give_float64():
    with pytensor.config.change_flags(floatX="float32"):
        with pm.Model() as model:
            s = pm.HalfNormal("s", 1)
            pm.Normal("x", 0, s, shape=3)
        density = ModelDensity(model)
        assert density.layout.dtypes == ("float32", "float32")
        assert_same(density, pytensors_own(density), np.array([0.1, 0.2, 0.3, 0.4]), rtol=1e-5)
        assert density.layout.unravel(np.zeros(4))["x"].dtype == np.float32


def test_a_model_met_before_is_loaded_and_not_compiled(density_of):
    first = density_of(models.large_data)
    assert first.is_native
    again = ModelDensity(models.large_data())
    assert again._compiled().cache_hits == 1


def test_machine_code_does_not_depend_on_large_data(density_of):
    first = density_of(models.large_data)
    other = ModelDensity(models.large_data(shift=1.0))
    x = np.array([0.2])
    assert_same(other, pytensors_own(other), x)
    assert other._compiled().cache_hits == 1
    assert other.logp_and_grad(x)[0] != first.logp_and_grad(x)[0]


def test_a_failed_assertion_means_not_finite(density_of):
    density = density_of(models.asserting)
    assert density.is_native
    assert code_at(density, [2.0]) == SUCCESS
    assert code_at(density, [4.0]) == NOT_FINITE


def test_a_mistake_means_stop_and_names_the_exception(density_of):
    density = density_of(models.regression)
    x = np.array([0.3, -0.2, 0.1, -0.4])
    assert code_at(density, x) == SUCCESS
    wrong = density.with_data(x=np.ones((39, 3)))
    assert code_at(wrong, x) == RAISED
    assert isinstance(wrong.error_at(x), ValueError)
    with pytest.raises(ValueError, match="40"):
        wrong.logp_and_grad(x)
    assert density.error_at(x) is None


@pytest.fixture(scope="module")
def python_density():
    density = ModelDensity(models.in_python())
    with pytest.warns(ObjectModeWarning, match="Halved") as caught:
        assert not density.is_native
    assert len(caught) == 1
    return density


def test_an_operation_without_native_code_still_works(python_density):
    x = np.array([0.3, -0.7])
    assert_same(python_density, pytensors_own(python_density), x)
    other = python_density.with_data(scale=0.5)
    expected = -0.5 * (x**2).sum() / 0.25 - np.log(2 * np.pi * 0.25) - (x**2).sum() / 4
    np.testing.assert_allclose(other.logp_and_grad(x)[0], expected)


def test_what_a_python_operation_raises_is_kept(python_density):
    x = np.array([6.0, 0.0])
    assert code_at(python_density, x) == RAISED
    error = python_density.error_at(x)
    assert isinstance(error, ArithmeticError)
    assert "more than five" in str(error)
    assert python_density.error_at(np.zeros(2)) is None
    assert code_at(python_density, np.zeros(2)) == SUCCESS


def test_a_pickled_density_is_the_same_and_needs_no_compilation(density_of):
    density = density_of(models.regression).with_data(width=3.0)
    x = np.array([0.3, -0.2, 0.1, -0.4])
    copy = cloudpickle.loads(cloudpickle.dumps(density))
    assert copy.logp_and_grad(x)[0] == density.logp_and_grad(x)[0]
    assert copy._compiled().cache_hits == 1
    target = cloudpickle.loads(cloudpickle.dumps(density.target()))
    assert target.logp_and_grad(x)[0] == density.logp_and_grad(x)[0]


def test_a_pickled_density_is_the_same_in_a_new_process(density_of, tmp_path):
    density = density_of(models.mixed)
    density.update_others(density.model.initial_point())
    x = np.linspace(-1, 1, density.ndim)
    (tmp_path / "density").write_bytes(cloudpickle.dumps(density))
    program = (
        "import pickle, sys, numpy as np\n"
        "density = pickle.load(open(sys.argv[1], 'rb'))\n"
        "x = np.linspace(-1, 1, density.ndim)\n"
        "logp, grad = density.logp_and_grad(x)\n"
        "pickle.dump((logp, grad, density._compiled().cache_hits), open(sys.argv[2], 'wb'))\n"
    )
    files = [str(tmp_path / "density"), str(tmp_path / "result")]
    subprocess.run([sys.executable, "-c", program, *files], check=True)
    logp, grad, hits = pickle.loads((tmp_path / "result").read_bytes())
    expected = density.logp_and_grad(x)
    assert logp == expected[0]
    np.testing.assert_array_equal(grad, expected[1])
    assert hits == 1


def test_dimensions_are_told_under_the_names_that_the_user_gave():
    with pm.Model(coords={"school": ["Choate", "Deerfield"]}) as model:
        pm.HalfNormal("tau")
        pm.Normal("theta", dims="school")
        pm.Normal("mu", shape=2, transform=pm.distributions.transforms.ordered, initval=[0, 1])
        pm.Dirichlet("share", np.ones(3))
    told = ModelDensity(model).layout.told
    assert told[:5] == ("tau", "theta[Choate]", "theta[Deerfield]", "mu[0]", "mu[1]")
    assert told[5:] == tuple(f"share (number {k} of 2, unconstrained)" for k in (1, 2))


def test_the_target_of_a_density_is_the_density(density_of):
    density = density_of(models.constrained)
    target = density.target()
    x = np.full(density.ndim, 0.1)
    assert target.names == list(density.layout.told)
    np.testing.assert_array_equal(target.logp_and_grad(x)[1], density.logp_and_grad(x)[1])
