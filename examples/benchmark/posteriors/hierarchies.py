"""Hierarchical models: of posteriordb, and one with simulated data."""

from __future__ import annotations

import pymc as pm
import pytensor.tensor as pt
from shelf import data, posterior


@posterior("theta", "mu", "tau")
def eight_schools_noncentered():
    """Eight schools, non-centred: 10 parameters, a mild funnel."""
    d = data("eight_schools_noncentered")
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        z = pm.Normal("theta_trans", 0, 1, shape=len(d["y"]))
        theta = pm.Deterministic("theta", mu + tau * z)
        pm.Normal("y", theta, d["sigma"], observed=d["y"])
    return model


@posterior("mu", "tau", "beta", "a", "b")
def hier_logistic():
    """Logistic regression, 25 groups with intercept and slope, non-centred: 60 parameters."""
    d = data("hier_logistic")
    group = d["group"].astype(int)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1.5, shape=2)
        tau = pm.HalfNormal("tau", 1, shape=2)
        beta = pm.Normal("beta", 0, 1, shape=d["x"].shape[1])
        z = pm.Normal("z", 0, 1, shape=(2, 25))
        a = pm.Deterministic("a", mu[0] + tau[0] * z[0])
        b = pm.Deterministic("b", mu[1] + tau[1] * z[1])
        logit = a[group] + b[group] * d["t"] + pt.dot(d["x"], beta)
        pm.Bernoulli("y", logit_p=logit, observed=d["y"])
    return model
