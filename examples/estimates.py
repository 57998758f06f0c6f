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


def what_if(data, model: pm.Model, dose: np.ndarray):
    """The curve at other doses, for each draw: `pm.Data` are replaced for a moment."""
    own = model["dose"].get_value()
    with model:
        pm.set_data({"dose": dose})
        try:
            found = pm.compute_deterministics(
                data.posterior, var_names=["mean"], merge_dataset=False, progressbar=False
            )
        finally:
            pm.set_data({"dose": own})
    return found["mean"]


def normal_tail(z: np.ndarray) -> np.ndarray:
    """The probability of more than z standard deviations."""
    return 0.5 * np.vectorize(math.erfc)(z / math.sqrt(2.0))


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
    # The posterior predictive at doses that were not given: its mean, and a probability. That of
    # the next response is smooth in the parameters, and gains; that of an event for the curve is a
    # step, and gains little.
    curve = np.asarray(what_if(data, models["curve"], np.array([6.0, 10.0])))
    sigma = np.asarray(data.posterior["sigma"])
    functions = {
        "response at 6, 10": curve,
        "P(response at 10 > 3.4)": normal_tail((3.4 - curve[..., 1]) / sigma),
        "P(curve at 10 > 3.4)": curve[..., 1] > 3.4,
    }
    names = ["start", "height", "half", "sigma"]
    table = mp.estimates(data, models["curve"], names, functions, fmt="wide")
    print(table.to_string(float_format=lambda value: f"{value:.5g}"))
    difference = evidence["curve"].log_evidence - evidence["line"].log_evidence
    error = math.hypot(evidence["curve"].error, evidence["line"].error)
    print(f"log Bayes factor, curve against line: {difference:.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
