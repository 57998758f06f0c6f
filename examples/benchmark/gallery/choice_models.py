"""Multinomial choices."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from posterior import posterior
from shelf import data


@posterior("beta_ic", "beta_oc", "chol", "alpha")
def heating_choice():
    """Heating systems: raw covariates, an LKJ prior on intercepts that are not identified."""
    d = data("heating")
    with pm.Model() as model:
        by_installation = pm.Normal("beta_ic", 0, 1)
        by_operation = pm.Normal("beta_oc", 0, 1)
        scales = pm.Exponential.dist(1.0, shape=5)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=5, eta=2.0, sd_dist=scales)
        alpha = pm.MvNormal("alpha", mu=np.zeros(5), chol=chol)
        costs = by_installation * d["installation_cost"] + by_operation * d["operating_cost"]
        pm.Categorical("y", p=pm.math.softmax(alpha + costs, axis=1), observed=d["choice"])
    return model


@posterior("beta_feat", "beta_disp", "beta_price", "alpha", "beta_individual")
def cracker_choice():
    """Brands of crackers: tastes of 136 persons, 3292 choices."""
    d = data("crackers")
    person = d["person"]
    with pm.Model() as model:
        by_feature = pm.Normal("beta_feat", 0, 1)
        by_display = pm.Normal("beta_disp", 0, 1)
        by_price = pm.Normal("beta_price", 0, 1)
        alpha = pm.Normal("alpha", 0, 1, shape=4)
        persons = len(np.unique(person))
        own = pm.Normal("beta_individual", 0, 0.1, shape=(persons, 4))[person]
        # As in the gallery: the fourth brand has the third one's taste, and no intercept.
        brands = [alpha[0] + own[:, 0], alpha[1] + own[:, 1], alpha[2] + own[:, 2], own[:, 2]]
        shown = by_display * d["disp"] + by_feature * d["feat"] + by_price * d["price"]
        utility = pt.stack(brands, axis=1) + shown
        pm.Categorical("y", p=pm.math.softmax(utility, axis=1), observed=d["choice"])
    return model
