"""Regressions and small models without a hierarchy, from posteriordb."""

from __future__ import annotations

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from shelf import data, posterior


def columns(*values) -> np.ndarray:
    return np.column_stack(values).astype(float)


def regression(y, x: np.ndarray, beta=pm.Flat, sigma=pm.HalfFlat) -> pm.Model:
    """Normal(x beta, sigma) with the priors given, flat if not."""
    with pm.Model() as model:
        mean = pt.dot(x, beta("beta", shape=x.shape[1]))
        pm.Normal("y", mean, sigma("sigma"), observed=np.asarray(y, dtype=float))
    return model


@posterior("beta", "sigma")
def kidscore_interaction():
    """Regression with raw interaction, flat coefficients: 5 parameters, correlations near 1."""
    d = data("kidscore_interaction")
    x = columns(np.ones(len(d["mom_hs"])), d["mom_hs"], d["mom_iq"], d["mom_hs"] * d["mom_iq"])
    return regression(d["kid_score"], x, sigma=partial(pm.HalfCauchy, beta=2.5))


@posterior("beta", "sigma")
def earn_height():
    """Regression in raw dollars, flat priors: 3 parameters with scales of 1e2 to 1e4."""
    d = data("earn_height")
    return regression(d["earn"], columns(np.ones(len(d["earn"])), d["height"]))


@posterior("beta", "sigma")
def logearn_interaction():
    """Log earnings with raw interaction, flat priors: 5 parameters, correlations near 1."""
    d = data("logearn_interaction")
    x = columns(np.ones(len(d["earn"])), d["height"], d["male"], d["height"] * d["male"])
    return regression(np.log(d["earn"]), x)


@posterior("beta", "sigma")
def mesquite():
    """Weights of bushes, 46 rows, 7 coefficients of unequal scales, flat priors."""
    d = data("mesquite")
    names = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
    x = columns(np.ones(len(d["weight"])), *(d[name] for name in names))
    return regression(d["weight"], x)


@posterior("beta", "sigma")
def nes2000():
    """Party identification in 2000, 476 rows, 9 coefficients, flat priors."""
    d = data("nes2000")
    ages = [d["age_discrete"] == group for group in (2, 3, 4)]
    rest = (d["educ1"], d["gender"], d["income"])
    x = columns(np.ones(len(d["partyid7"])), d["real_ideo"], d["race_adj"], *ages, *rest)
    return regression(d["partyid7"], x)


@posterior("beta", "sigma")
def sblrc():
    """Regression on five correlated columns, 100 rows."""
    d = data("sblrc")
    beta, sigma = partial(pm.Normal, mu=0, sigma=10), partial(pm.HalfNormal, sigma=10)
    return regression(d["y"], d["X"], beta, sigma)


@posterior("rho", "alpha", "sigma")
def gp_regr():
    """Marginal Gaussian process regression, 11 points: 3 parameters."""
    d = data("gp_regr")
    gaps = np.subtract.outer(d["x"], d["x"]) ** 2.0
    with pm.Model() as model:
        rho = pm.Gamma("rho", alpha=25, beta=4)
        alpha = pm.HalfNormal("alpha", 2)
        sigma = pm.HalfNormal("sigma", 1)
        # Stan's program adds sigma, not its square.
        covariance = alpha**2 * pt.exp(-0.5 * gaps / rho**2) + sigma * np.eye(len(gaps))
        pm.MvNormal("y", np.zeros(len(gaps)), cov=covariance, observed=d["y"])
    return model


@posterior("mu", "sigma", "theta")
def low_dim_gauss_mix():
    """Mixture of two Gaussians with ordered means: 5 parameters, 1000 rows."""
    y = data("low_dim_gauss_mix")["y"]
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2, shape=2, initval=np.array([-1.0, 1.0]), transform=ordered)
        sigma = pm.HalfNormal("sigma", 2, shape=2)
        theta = pm.Beta("theta", 5, 5)
        first, second = (pm.logp(pm.Normal.dist(mu[i], sigma[i]), y) for i in (0, 1))
        mixed = pt.logaddexp(pt.log(theta) + first, pt.log1p(-theta) + second)
        pm.Potential("mixture", mixed.sum())
    return model
