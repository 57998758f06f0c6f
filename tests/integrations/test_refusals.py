"""A table of bad input for models: each is refused with a typed error."""

import numpy as np
import pymc as pm
import pytest

from mjhmc_numba.errors import InitialPointError, MemoryRequestError, SettingsError
from mjhmc_numba.pymc import compile as compile_model
from mjhmc_numba.pymc import sample
from mjhmc_numba.pymc.errors import ModelError, UnknownVariableError

CASES = [
    ({"random_seed": "abc"}, SettingsError, "random_seed"),
    ({"random_seed": -3}, SettingsError, "random_seed"),
    ({"initvals": {"zz": 1.0}}, UnknownVariableError, "zz"),
    ({"initvals": {"x": np.zeros(5)}}, InitialPointError, "initvals"),
    ({"initvals": {"x": np.full(2, np.nan)}}, InitialPointError, "nan"),
    (
        {"initvals": {"x": np.array([0.0, 1e150])}},
        InitialPointError,
        r"too far away: x\[1\] is 1e\+150",
    ),
    ({"initvals": {"x": "a"}}, InitialPointError, "initvals"),
    ({"initvals": {"x": np.array([1j, 0.0])}}, InitialPointError, "initvals"),
    ({"initvals": {"x": object()}}, InitialPointError, "initvals"),
    ({"initvals": {1: 2.0}}, UnknownVariableError, "no name"),
    ({"initvals": 5}, InitialPointError, "mapping of names to values"),
    ({"initvals": "abc"}, InitialPointError, "mapping of names to values"),
    ({"initvals": [5]}, InitialPointError, "of a chain are a mapping"),
    ({"initvals": [{}, {}, {}]}, InitialPointError, "3 for 1 chains"),
    ({"random_seed": 1.5}, SettingsError, "random_seed"),
    ({"random_seed": object()}, SettingsError, "random_seed"),
    *(
        ({name: value}, SettingsError, f"{name} is a whole number")
        for name in ("draws", "tune", "chains", "cores")
        for value in (-1, 2.5, "many", True)
    ),
    ({"chains": 10**9}, MemoryRequestError, "GB"),
    ({"draws": 10**10}, MemoryRequestError, "GB"),
    ({"chain": 5, "random_seed": 1}, SettingsError, "A chain is"),
    ({"chain": 0}, SettingsError, "same seed"),
    ({"metric": np.ones(7)}, SettingsError, "7 dimensions, the density 2"),
    ({"metric": "some"}, SettingsError, "metric="),
    ({"rates": "some"}, SettingsError, "rates="),
    ({"warmup": "some"}, SettingsError, "warmup"),
    ({"settings": 5}, SettingsError, "settings is a Settings"),
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
