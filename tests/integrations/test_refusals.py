"""A table of bad input for models: each is refused with a typed error."""

import numpy as np
import pymc as pm
import pytest

from mjhmc_numba.errors import InitialPointError, SettingsError
from mjhmc_numba.pymc import compile as compile_model
from mjhmc_numba.pymc import sample
from mjhmc_numba.pymc.errors import ModelError, UnknownVariableError

CASES = [
    ({"random_seed": "abc"}, SettingsError, "random_seed"),
    ({"random_seed": -3}, SettingsError, "random_seed"),
    ({"initvals": {"zz": 1.0}}, UnknownVariableError, "zz"),
    ({"initvals": {"x": np.zeros(5)}}, InitialPointError, "initvals"),
    ({"initvals": {"x": np.full(2, np.nan)}}, InitialPointError, "nan"),
    ({"initvals": {"x": "a"}}, InitialPointError, "initvals"),
    ({"initvals": {"x": np.array([1j, 0.0])}}, InitialPointError, "initvals"),
    ({"draws": 10**400}, SettingsError, "draws is beyond"),
    ({"executor": "dask"}, SettingsError, "no method `submit`"),
    ({"step_size": -1.0}, SettingsError, "step_size"),
    ({"step_sise": 1.0}, SettingsError, "step_sise"),
]


@pytest.fixture(scope="module")
def compiled():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    return compile_model(model)


@pytest.mark.parametrize(("arguments", "error", "message"), CASES)
def test_bad_input_is_refused_by_name(compiled, arguments, error, message):
    given = {"draws": 10, "tune": 10, "chains": 1, "progressbar": False, **arguments}
    with pytest.raises(error, match=message):
        compiled.sample(**given)


def test_what_is_no_model_is_refused():
    with pytest.raises(ModelError, match="not str"):
        sample(model="abc", progressbar=False)
