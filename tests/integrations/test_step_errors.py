"""What MJHMC as a step method refuses, and how it says so."""

import numpy as np
import pymc as pm
import pytest
from pymc.step_methods.compound import CompoundStep

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.pymc import MJHMC
from mjhmc_numba.pymc.errors import (
    DataError,
    DiscreteVariableError,
    NoVariableError,
    StartError,
    UnknownVariableError,
)
from tests.integrations import models
from tests.integrations.chains import FIXED, OTHERS_WARN, begin, run, sample

pytestmark = OTHERS_WARN


def test_an_unknown_option_is_named(model):
    with model, pytest.raises(SettingsError, match="Did you mean 'target_accept'"):
        MJHMC(target_acept=0.9)


def test_settings_and_options_exclude_each_other(model):
    from mjhmc_numba import Settings

    with model, pytest.raises(SettingsError, match="not both"):
        MJHMC(settings=Settings(), step_size=0.1)


def test_options_reach_the_process(model):
    with model:
        step = MJHMC(**FIXED, rates="barker", refresh_alpha=0.5, metric=np.arange(1.0, 7.0))
    begin(step, 1, 0)
    run(step, model.initial_point(), draws=1)
    assert step._process["g_max"] == 2.0
    assert step._process["refresh_alpha"] == 0.5
    assert np.allclose(step._process.tuned.metric.scale**2, np.arange(1.0, 7.0))


def test_a_metric_that_does_not_fit_is_refused(model):
    with model, pytest.raises(SettingsError, match="5 dimensions, the density 6"):
        MJHMC(metric=np.ones(5))


def test_wrong_variables_are_named():
    with models.mixed():
        with pytest.raises(DiscreteVariableError, match="k is discrete"):
            MJHMC(["k"])
        with pytest.raises(UnknownVariableError, match="nobody is not in the model"):
            MJHMC(["nobody"])
    with pm.Model():
        pm.Poisson("n", 3)
        with pytest.raises(NoVariableError, match="only discrete ones"):
            MJHMC()


def test_a_start_outside_the_support_names_the_term():
    with pm.Model() as model:
        pm.Normal("x", 0, 1)
        pm.Potential("never", pm.math.log(-1.0 - model["x"] ** 2))
        step = MJHMC()
    with pytest.raises(StartError, match="term of never"):
        sample(model, step)


def test_data_that_is_nan_is_named():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        seen = pm.Data("seen", [0.0, 1.0])
        pm.Normal("y", x, 1, observed=seen)
        step = MJHMC()
        seen.set_value(np.array([0.0, np.nan]))
    with pytest.raises(DataError, match="seen"):
        sample(model, step)


def test_a_start_at_the_edge_is_moved_inside():
    """Half of the points around the initial one are outside; a chain never starts there."""
    model = models.wall()
    with model:
        step = MJHMC(tune=20)
    for seed in range(5):
        begin(step, seed, 20)
        point, _ = step.step(model.initial_point() | {"x": np.array(0.01)})
        assert point["x"] > 0


def test_every_variable_alone_is_a_compound_step(model):
    with model:
        step = MJHMC(blocked=False)
    assert isinstance(step, CompoundStep)
    assert [[v.name for v in s.vars] for s in step.methods] == [["x"], ["m"]]


def test_its_competence_is_that_of_nuts():
    from pymc.step_methods.compound import Competence

    with pm.Model() as model:
        pm.Normal("x")
        pm.Poisson("n", 1)
    assert MJHMC.competence(model["x"], True) == Competence.PREFERRED
    assert MJHMC.competence(model["x"], False) == Competence.INCOMPATIBLE
    assert MJHMC.competence(model["n"], False) == Competence.INCOMPATIBLE
