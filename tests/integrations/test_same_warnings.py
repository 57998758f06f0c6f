"""The step method and the native path say the same of the same chains."""

import logging
import warnings

import numpy as np
import pymc as pm
import pytest

import mjhmc_numba.pymc as mp
from mjhmc_numba.diagnostics import findings
from mjhmc_numba.errors import SamplingWarning
from tests.integrations import models
from tests.integrations.chains import FIXED, OTHERS_WARN

pytestmark = OTHERS_WARN

HOW = {"chains": 2, "cores": 1, "random_seed": 5, "progressbar": False}


def normal():
    with pm.Model() as model:
        pm.Normal("x", 0, np.array([1.0, 2.0, 0.5]))
    return model


def wide():
    with pm.Model() as model:
        pm.Normal("x", 0, 1, shape=20)
    return model


CASES = {
    "good": (normal, {"draws": 600, "tune": 300}, {}, set()),
    "mixing": (normal, {"draws": 1100, "tune": 0}, FIXED | {"step_size": 0.02}, {"mixes slowly"}),
    "capped": (normal, {"draws": 60, "tune": 0}, FIXED | {"max_gradients": 1}, {"cut short"}),
    "stuck": (
        wide,
        {"draws": 700, "tune": 0},
        {"step_size": 1.5, "num_steps": 1, "refresh_rate": 0.001, "draw_interval": 40.0},
        {"was stuck", "mean acceptance"},
    ),
    "energy": (
        models.funnel,
        {"draws": 1100, "tune": 0},
        {"step_size": 0.3, "num_steps": 2, "refresh_rate": 0.5, "draw_interval": 4.0},
        {"energies slowly", "mixes slowly"},
    ),
}


@pytest.mark.parametrize(("make", "size", "options", "words"), CASES.values(), ids=CASES)
def test_a_chain_is_told_the_same_by_both_paths(make, size, options, words, caplog):
    model = make()
    with caplog.at_level(logging.WARNING, "pymc.stats.convergence"), model:
        pm.sample(step=mp.MJHMC(**options), **HOW, **size, compute_convergence_checks=True)
    online = {r.message for r in caplog.records if r.message.startswith("The chain")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = mp.compile(model).sample(
            **HOW, **size, **options, compute_convergence_checks=False, blocking=False
        )
        run.wait()
    native = [str(w.message) for w in caught if issubclass(w.category, SamplingWarning)]
    found = findings(run._result, is_hierarchy=make is models.funnel)
    assert online == {finding.message for of_chain in found for finding in of_chain}
    assert any("non-centred" in message for message in online) == (make is models.funnel)
    assert bool(online) == bool(words)
    for word in words:
        assert any(word in message for message in online), (word, online)
    for chain, of_chain in enumerate(found):
        for finding in of_chain:
            if finding.kind == "divergence":  # counted, over all chains
                assert any("met a divergence" in message for message in native)
            elif all(finding.kind != f.kind for earlier in found[:chain] for f in earlier):
                assert any(message.startswith(finding.of(chain)) for message in native)
