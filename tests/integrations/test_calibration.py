"""Simulation-based calibration: over data that a model makes, its posteriors are right on average.

The band about the ECDFs of the ranks holds all of a model's quantities, its log density too, with
99 %. A model that strays beyond it is simulated again with other seeds, and must stray
`ROUNDS` times: a right one does with a probability of 1e-6.
"""

import numpy as np
import pymc as pm
import pytest

import mjhmc_numba.pymc as mp
from mjhmc_numba.pymc import calibration

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
]

SIMULATIONS, DRAWS, LEVELS, ROUNDS, PROBABILITY = 1000, 600, 99, 3, 0.99


def location_and_scale():
    """A constrained scale, from few observations."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 1.0, 2.0)
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Normal("y", mu, sigma, observed=pm.Data("seen", np.zeros(6)))
    return model


def logistic():
    """Discrete data, correlated slopes."""
    rng = np.random.default_rng(4)
    inputs = rng.normal(size=(25, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0, 0, 1.0]])
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0.0, 1.5, shape=3)
        seen = pm.Data("seen", np.zeros(25, dtype="int64"))
        pm.Bernoulli("y", logit_p=inputs @ slopes, observed=seen)
    return model


def hierarchy():
    """Groups about a mean, centred, with data that say little of the scale."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        tau = pm.LogNormal("tau", 0.0, 0.7)
        theta = pm.Normal("theta", mu, tau, shape=5)
        pm.Normal("y", theta, 1.0, observed=pm.Data("seen", np.zeros(5)))
    return model


def shares():
    """A simplex and a positive rate."""
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.array([0.8, 1.5, 3.0]))
        rate = pm.Gamma("rate", 3.0, 0.3)
        pm.Poisson("y", rate * p, observed=pm.Data("seen", np.zeros(3, dtype="int64")))
    return model


def strays(result):
    """Quantities whose ECDF leaves the band; it is for all of them together (Bonferroni)."""
    quantities = result.quantities()
    low, high = result.band(1 - (1 - PROBABILITY) / len(quantities))
    found = []
    for name, ranks in quantities.items():
        ecdf = np.bincount(ranks, minlength=result.levels + 1).cumsum() / len(ranks)
        if not ((low <= ecdf) & (ecdf <= high)).all():
            found.append(name)
    return found


def calibrate(compiled, seed):
    """Of one model, by default settings; every sixth draw is ranked."""
    rng = np.random.default_rng(seed)
    result = mp.sbc(compiled, SIMULATIONS, DRAWS, levels=LEVELS, random_seed=rng, progressbar=False)
    assert not result.failures
    assert "log_density" in result.quantities()
    return result


@pytest.mark.parametrize("make", [location_and_scale, logistic, hierarchy, shares])
def test_a_model_is_calibrated(seeds, make):
    compiled = mp.compile(make())
    strayed = []
    for part in range(ROUNDS):
        strayed.append(strays(calibrate(compiled, seeds(150, part))))
        if not strayed[-1]:
            return
    pytest.fail(f"left the band in {ROUNDS} rounds: {strayed}")


def test_a_posterior_of_other_data_strays(seeds, monkeypatch):
    """One observation of six is lost on its way to the sampler."""
    simulate = calibration._simulate

    def simulate_and_lose(*arguments):
        prior, observed = simulate(*arguments)
        kept = observed["y"].copy()
        kept[:, 0] = kept[:, 1]
        return prior, {"y": kept}

    monkeypatch.setattr(calibration, "_simulate", simulate_and_lose)
    strayed = strays(calibrate(mp.compile(location_and_scale()), seeds(151)))
    assert {"sigma", "log_density"} & set(strayed)
