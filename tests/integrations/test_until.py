"""mp.sample(until=...) on PyMC models."""

import json
import sys

import numpy as np
import pytest

import mjhmc_numba.pymc as mp
from mjhmc_numba import SettingsError
from mjhmc_numba.pymc.errors import UnknownVariableError
from tests.integrations import models

FIXED = {"step_size": 0.3, "num_steps": 3, "refresh_rate": 0.3, "draw_interval": 1.0}
RUN = {"random_seed": 5, "quiet": True, **FIXED}


@pytest.fixture(scope="module")
def compiled():
    return mp.compile(models.regression())


UNTIL = mp.Until(
    {"sigma": 0.02, "sigma_log__": 0.02, "mu": 0.001, "late": 0.1},
    functions={"late": lambda posterior: posterior["mu"][..., -1] > 0},
    r_hat=1.05,
)


def test_its_draws_are_those_of_a_longer_run(compiled):
    data = compiled.sample(60, 200, until=UNTIL, **RUN)
    rounds = json.loads(data["posterior"].attrs["rounds"])
    assert len(rounds) > 1
    made = data["posterior"].sizes["draw"]
    assert made == rounds[-1]["draws"]
    whole = compiled.sample(made, 200, **RUN)
    for name in whole["posterior"].data_vars:
        np.testing.assert_array_equal(data["posterior"][name], whole["posterior"][name])
    assert set(data["sample_stats"].data_vars) == set(whole["sample_stats"].data_vars)


def test_in_the_background_it_is_the_same(compiled):
    data = compiled.sample(60, 200, until=UNTIL, **RUN)
    sampling = compiled.sample(60, 200, until=UNTIL, blocking=False, **RUN)
    other = sampling.wait()
    np.testing.assert_array_equal(data["posterior"]["sigma"], other["posterior"]["sigma"])
    assert sampling.result.rounds[-1].draws == other["posterior"].sizes["draw"]


def test_what_is_stopped_in_the_background_keeps_the_rounds(compiled):
    seen = []

    def late(posterior):
        if not seen:
            seen.append(sampling)
            sampling._stop()
        return posterior["sigma"]

    until = mp.Until({"late": 1e-9}, functions={"late": late})
    sampling = compiled.sample(60, 200, until=until, blocking=False, **RUN)
    data = sampling.wait()
    assert data["posterior"].sizes["draw"] >= 60
    assert sampling.result.interrupted


def test_the_function_sample_takes_it_too():
    with models.regression():
        data = mp.sample(60, 200, until=mp.Until({"sigma": 0.05}), **RUN)
        assert "rounds" in data["sample_stats"].attrs
        with pytest.raises(UnknownVariableError, match="no variable nothing"):
            mp.sample(60, 200, until=mp.Until({"nothing": 0.05}), **RUN)
        with pytest.raises(SettingsError, match="draws=20 of the first round"):
            mp.sample(20, 200, until=mp.Until(0.05), **RUN)
        with pytest.raises(SettingsError, match="until goes with whole chains"):
            mp.sample(60, 200, until=mp.Until(0.05), callback=print, **RUN)


def test_the_cap_is_warned_of_with_the_name(compiled):
    data = compiled.sample(60, 200, until=mp.Until({"sigma": 1e-9}, most_draws=100), **RUN)
    assert data["posterior"].sizes["draw"] == 100
    assert "until: after 100 draws per chain" in data["sample_stats"].attrs["warnings"]
    assert "sigma" in data["sample_stats"].attrs["warnings"]


def test_gradients_that_were_stored_are_used(monkeypatch):
    model = models.regression()
    data = mp.sample(200, 200, model=model, store_gradients=True, **RUN)
    computed = mp.estimates(data, model)
    stats = data["sample_stats"]
    assert stats["gradient"].shape == stats["unconstrained_draw"].shape == (4, 200, 4)
    room = sys.modules["mjhmc_numba.pymc.estimates"]
    monkeypatch.setattr(room, "unconstrain", None)  # is not asked
    used = mp.estimates(data, model)
    np.testing.assert_array_equal(used["beta"], computed["beta"])
    evidence = mp.log_marginal_likelihood(data, model, random_seed=1)
    assert np.isfinite(evidence.log_evidence)
