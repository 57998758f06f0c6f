"""Sharper posterior means, predictions for other data, and a Bayes factor.

    python examples/estimates.py

A regression with `pm.Data`: the draws of one run tell what to expect of inputs that were not in
the data, each expectation with an error many times smaller than that of a plain average; and
which of two models the data prefer.
"""

from __future__ import annotations

import math

import numpy as np
import pymc as pm

import mjhmc_numba.pymc as mp

SETTINGS = {"random_seed": 1, "progressbar": False, "compute_convergence_checks": False}


def growth(dose: np.ndarray, response: np.ndarray, *, curved: bool) -> pm.Model:
    """A line, or a saturating curve, through the same points."""
    with pm.Model() as model:
        x = pm.Data("dose", dose)
        start = pm.Normal("start", 0.0, 2.0)
        if curved:
            height = pm.HalfNormal("height", 5.0)
            half = pm.HalfNormal("half", 2.0)
            mean = start + height * x / (half + x)
        else:
            mean = start + pm.Normal("slope", 0.0, 2.0) * x
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Deterministic("mean", mean)
        pm.Normal("response", mean, sigma, observed=response)
    return model


def expected_at(dose: float):
    """What the curve says to expect at a dose, as a function of the posterior."""
    return lambda p: p["start"] + p["height"] * dose / (p["half"] + dose)


def main() -> None:
    rng = np.random.default_rng(3)
    dose = np.geomspace(0.1, 4.0, 30)
    response = 0.5 + 3.0 * dose / (0.8 + dose) + rng.normal(0.0, 0.3, size=30)
    models = {name: growth(dose, response, curved=name == "curve") for name in ("line", "curve")}
    evidence = {}
    for name, model in models.items():
        data = mp.sample(model=model, **SETTINGS)
        evidence[name] = mp.log_marginal_likelihood(data, model, random_seed=1)
        print(f"{name}: {evidence[name]}")
    # What-if predictions: the mean of the posterior predictive at doses that were not given.
    functions = {f"expected at {d:g}": expected_at(d) for d in (6.0, 10.0)}
    functions["above 3.4 at 10"] = lambda p: expected_at(10.0)(p) > 3.4
    names = ["start", "height", "half", "sigma"]
    table = mp.estimates(data, models["curve"], names, functions, fmt="wide")
    print(table.to_string(float_format=lambda value: f"{value:.5g}"))
    difference = evidence["curve"].log_evidence - evidence["line"].log_evidence
    error = math.hypot(evidence["curve"].error, evidence["line"].error)
    print(f"log Bayes factor, curve against line: {difference:.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
