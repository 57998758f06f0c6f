"""Models that go bad while they are sampled: which chain, when, and what it had drawn."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.sampling.parallel import ParallelSamplingError
from pytensor.gradient import grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from mjhmc_numba.errors import GradientError, StuckError
from mjhmc_numba.pymc import MJHMC, sample
from mjhmc_numba.pymc.errors import MissingGradientError, ModelError, ModelGradientError
from tests.integrations import models
from tests.integrations.chains import FIXED, OTHERS_WARN

pytestmark = [*OTHERS_WARN, pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")]

QUIET = {"progressbar": False, "random_seed": 3, "compute_convergence_checks": False}


@pytest.fixture(scope="module")
def fragile():
    """Raises beyond 5, which is 2.5 standard deviations out."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 2)
        pm.Potential("p", 0.01 * models.Halved()(x))
    return model


def drawn(error, group):
    return error.result[group]["x"].shape[1] if group in error.result else 0


def test_an_exception_from_a_step_brings_its_chain_and_the_draws(fragile):
    with fragile, pytest.raises(ArithmeticError, match="more than five") as caught:
        pm.sample(5000, tune=0, chains=2, cores=1, step=MJHMC(**FIXED), **QUIET)
    made = drawn(caught.value, "posterior")
    assert made > 0
    assert any(f"chain 0, after {made} draws" in note for note in caught.value.__notes__)


def test_an_exception_while_tuning_brings_the_tuning_draws(fragile):
    settings = {"step_size": 0.5, "metric": [4.0]}
    with fragile, pytest.raises(ArithmeticError, match="more than five") as caught:
        pm.sample(10, tune=5000, chains=1, cores=1, step=MJHMC(**settings), **QUIET)
    made = drawn(caught.value, "warmup_posterior")
    assert made > 0
    assert drawn(caught.value, "posterior") == 0
    assert any(f"after {made} tuning draws" in note for note in caught.value.__notes__)


def test_an_exception_in_a_worker_process_names_its_chain(fragile):
    with fragile, pytest.raises(ParallelSamplingError) as caught:
        pm.sample(5000, tune=0, chains=2, cores=2, step=MJHMC(**FIXED), **QUIET)
    original = caught.value.__cause__
    assert isinstance(original, ArithmeticError)
    assert any("Raised in chain" in note for note in original.__notes__)


def test_an_exception_of_whole_chains_brings_its_chain_and_the_draws(fragile):
    with fragile, pytest.raises(ArithmeticError, match="more than five") as caught:
        sample(5000, tune=0, chains=2, **FIXED, **QUIET)
    assert drawn(caught.value, "posterior") > 0
    assert any("Raised in chain" in note for note in caught.value.__notes__)


# --- Chains that cannot move


@pytest.mark.parametrize("tune", [0, 150])
def test_a_chain_that_cannot_move_raises(tune):
    with pm.Model() as model:
        x = pm.Normal("x", initval=0.0)
        pm.Potential("nowhere", pt.switch(pt.eq(x, 0.0), 0.0, -np.inf))
    options = FIXED if tune == 0 else {}
    with model:
        with pytest.raises(StuckError, match="did not move once"):
            sample(120, tune=tune, chains=1, jitter=False, **options, **QUIET)
        step = MJHMC(jitter=False, **options)
        with pytest.raises(StuckError, match="did not move once"):
            pm.sample(120, tune=tune, chains=1, cores=1, step=step, **QUIET)


# --- Gradients of custom operations


class Square(Op):
    """x**2 with a gradient that is wrong by a factor."""

    __props__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    def make_node(self, x):
        x = pt.as_tensor(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] ** 2)

    def pullback(self, inputs, outputs, cotangents):
        return [self.factor * 2.0 * inputs[0] * cotangents[0]]

    if not hasattr(Op, "pullback"):  # PyTensor 2
        L_op = pullback


class Undecided(Square):
    def pullback(self, inputs, outputs, cotangents):
        return [grad_not_implemented(self, 0, inputs[0])]

    if not hasattr(Op, "pullback"):
        L_op = pullback


class Unfinished(Square):
    def pullback(self, inputs, outputs, cotangents):
        raise NotImplementedError("later")

    if not hasattr(Op, "pullback"):
        L_op = pullback


def with_operation(op):
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("p", -0.5 * op(x))
    return model


@pytest.mark.parametrize("jitter", [True, False])  # without, the start is the mode
def test_a_wrong_gradient_of_an_operation_is_reported_before_sampling(jitter):
    with with_operation(Square(2.0)):
        with pytest.raises(ModelGradientError, match=r"In x the density says.*Square") as caught:
            sample(10, tune=10, chains=1, jitter=jitter, **QUIET)
        assert isinstance(caught.value, GradientError)
        with pytest.raises(ModelGradientError, match="Square"):
            pm.sample(10, tune=10, chains=1, cores=1, step=MJHMC(jitter=jitter), **QUIET)


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")
def test_the_check_of_a_gradient_can_be_turned_off_and_changes_no_draw():
    options = {"draws": 20, "tune": 0, "chains": 1, **FIXED, **QUIET}
    with with_operation(Square(2.0)):
        sample(check_gradient=False, **options)
    with with_operation(Square(1.0)):
        checked, unchecked = (sample(check_gradient=check, **options) for check in (True, False))
    np.testing.assert_array_equal(checked["posterior"]["x"], unchecked["posterior"]["x"])


@pytest.mark.parametrize("op", [Undecided(1.0), Unfinished(1.0)])
def test_an_operation_without_a_gradient_is_named(op):
    with with_operation(op):
        with pytest.raises(MissingGradientError, match=type(op).__name__) as caught:
            sample(10, tune=10, **QUIET)
        assert isinstance(caught.value, ModelError)
        with pytest.raises(MissingGradientError, match=type(op).__name__):
            MJHMC()
