"""Regressions, survival, volatility, physics."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from posterior import posterior
from scipy.interpolate import BSpline
from shelf import data


@posterior("group1_mean", "group2_mean", "group1_std", "group2_std", "nu_minus_one")
def best():
    """Robust comparison of two groups (Kruschke's BEST)."""
    d = data("drug_trial")
    both = np.concatenate([d["drug"], d["placebo"]]).astype(float)
    with pm.Model() as model:
        mean1 = pm.Normal("group1_mean", both.mean(), both.std() * 2)
        mean2 = pm.Normal("group2_mean", both.mean(), both.std() * 2)
        sd1 = pm.Uniform("group1_std", 0.1, 10)
        sd2 = pm.Uniform("group2_std", 0.1, 10)
        nu = pm.Exponential("nu_minus_one", 1 / 29.0) + 1
        pm.StudentT("drug", nu=nu, mu=mean1, lam=sd1**-2, observed=d["drug"].astype(float))
        pm.StudentT("placebo", nu=nu, mu=mean2, lam=sd2**-2, observed=d["placebo"].astype(float))
    return model


@posterior("step_size", "volatility", "nu")
def stoch_vol_sp500():
    """Stochastic volatility of the S&P 500, 800 days: a centred random walk."""
    returns = np.diff(np.log(data("sp500")["close"]))
    with pm.Model() as model:
        step = pm.Exponential("step_size", 10)
        start = pm.Normal.dist(0, 100)
        walk = pm.GaussianRandomWalk("volatility", sigma=step, shape=len(returns), init_dist=start)
        nu = pm.Exponential("nu", 0.1)
        pm.StudentT("returns", nu=nu, lam=pt.exp(-2 * walk), observed=returns)
    return model


@posterior("a", "w", "sigma")
def cherry_spline():
    """Days of first cherry blossom: regression on 19 cubic B-splines."""
    d = data("cherry_blossoms")
    year = d["year"].astype(float)
    knots = np.percentile(year, np.linspace(0, 100, 17))
    ends = np.repeat(knots[[0, -1]], 3).reshape(2, 3)
    basis = BSpline.design_matrix(year, np.concatenate([ends[0], knots, ends[1]]), 3).toarray()
    with pm.Model() as model:
        a = pm.Normal("a", 100, 5)
        w = pm.Normal("w", 0, 3, shape=basis.shape[1])
        sigma = pm.Exponential("sigma", 1)
        pm.Normal("D", a + pt.dot(basis, w), sigma, observed=d["doy"].astype(float))
    return model


@posterior("variance_of_shot", "variance_of_distance")
def golf_angle_distance():
    """Golf putts by physics: a million trials make a very narrow posterior."""
    d = data("golf")
    ball, cup = (1.68 / 2) / 12, (4.25 / 2) / 12
    overshot, tolerance = 1.0, 3.0

    def normal_cdf(x):
        return 0.5 + 0.5 * pt.erf(x / pt.sqrt(2.0))

    with pm.Model() as model:
        angle = pm.HalfNormal("variance_of_shot")
        length = pm.HalfNormal("variance_of_distance")
        straight = 2 * normal_cdf(np.arcsin((cup - ball) / d["distance"]) / angle) - 1
        scale = (d["distance"] + overshot) * length
        far_enough = normal_cdf((tolerance - overshot) / scale) - normal_cdf(-overshot / scale)
        pm.Binomial("success", n=d["tries"], p=straight * far_enough, observed=d["successes"])
    return model


@posterior("beta", "mu", "s")
def attrition_weibull():
    """Weibull regression of 3770 employees' stay, with censoring."""
    d = data("attrition")
    levels = [d["level"] == i for i in range(1, len(d["levels"]))]
    fields = [d["field"] == i for i in range(1, len(d["fields"]))]
    covariates = [d["sentiment"], d["intention"], d["male"], *levels, *fields]
    x = np.column_stack(covariates).astype(float)
    month, stays = d["month"].astype(float), d["left"] == 0
    with pm.Model(check_bounds=False) as model:
        beta = pm.Normal("beta", 0.0, 1, shape=x.shape[1])
        mu = pm.Normal("mu", 0, 1)
        s = pm.HalfNormal("s", 5.0)
        scale = pt.exp(-(mu + pt.dot(x, beta)) / s)
        pm.Weibull("y_obs", beta=scale[~stays], alpha=s, observed=month[~stays])
        pm.Potential("y_cens", -((month[stays] / scale[stays]) ** s))
    return model


@posterior("b0", "b1", "b2", "b3", "s")
def moderation():
    """Regression with an interaction: muscle mass, training and age."""
    d = data("muscle")
    hours, age = d["hours"], d["age"]
    with pm.Model() as model:
        b0, b1, b2, b3 = (pm.Normal(name, 0, 10) for name in ("b0", "b1", "b2", "b3"))
        s = pm.HalfCauchy("s", 1)
        mean = b0 + b1 * hours + b2 * hours * age + b3 * age
        pm.Normal("y", mean, s, observed=d["percent"])
    return model
