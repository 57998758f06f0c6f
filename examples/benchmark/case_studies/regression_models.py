"""Case studies of regression, linear and otherwise."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from posterior import posterior
from simulation import sigmoid, simulator

ordered = pm.distributions.transforms.ordered


@posterior("alpha", "beta", "sigma")
def kilpisjarvi_uncentered():
    """Summer temperature on the raw year, 1952-2013: two parameters correlate at about -0.9999."""
    rng = simulator(105)
    year = np.arange(1952, 2014).astype(float)
    y = 9.3 + 0.02 * (year - year.mean()) + rng.normal(0, 1.1, len(year))
    with pm.Model() as model:
        alpha = pm.Normal("alpha", 9.3, 100)
        beta = pm.Normal("beta", 0, 0.0333)
        sigma = pm.HalfFlat("sigma")
        pm.Normal("y", alpha + beta * year, sigma, observed=y)
    return model


@posterior("beta", "sigma", "nu")
def student_t_regression():
    """Robust regression: Student-t noise with unknown degrees of freedom, 150 rows."""
    rng = simulator(106)
    rows = 150
    x = np.column_stack([np.ones(rows), rng.normal(size=(rows, 4))])
    y = x @ np.array([2.0, 1.0, -0.5, 0.3, 0.0]) + 0.8 * rng.standard_t(4, rows)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 5, shape=5)
        sigma = pm.HalfNormal("sigma", 2)
        nu = pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=pt.dot(x, beta), sigma=sigma, observed=y)
    return model


@posterior("beta0", "sigma", "log_tau", "log_c2", "beta")
def horseshoe_50():
    """Regularised horseshoe, non-centred: 100 rows and 50 predictors, of which 5 matter."""
    rng = simulator(107)
    rows, predictors = 100, 50
    x = rng.normal(size=(rows, predictors))
    x = 0.8 * x + 0.6 * rng.normal(size=(rows, 1))  # all pairs correlate at 0.36
    true = np.zeros(predictors)
    true[[3, 11, 20, 33, 45]] = [2.0, -1.5, 1.0, 0.7, -0.4]
    y = 1.0 + x @ true + rng.normal(0, 1.0, rows)
    tau0 = 5 / (predictors - 5) / np.sqrt(rows)
    with pm.Model() as model:
        beta0 = pm.Normal("beta0", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        tau = pm.HalfCauchy("tau", tau0)
        lam = pm.HalfCauchy("lam", 1, shape=predictors)
        c2 = pm.InverseGamma("c2", 2, 8)
        # tau and c2 themselves have few moments.
        pm.Deterministic("log_tau", pt.log(tau))
        pm.Deterministic("log_c2", pt.log(c2))
        z = pm.Normal("z", 0, 1, shape=predictors)
        scale = tau * sigma
        shrunk = lam * pt.sqrt(c2 / (c2 + scale**2 * lam**2))
        beta = pm.Deterministic("beta", z * scale * shrunk)
        pm.Normal("y", beta0 + pt.dot(x, beta), sigma, observed=y)
    return model


@posterior("beta", "cut")
def ordered_logistic():
    """Ordered logistic regression: 5 categories, 500 rows, 4 predictors."""
    rng = simulator(108)
    rows = 500
    x = rng.normal(size=(rows, 4))
    true_cut = np.array([-1.5, -0.3, 0.8, 2.2])
    latent = x @ np.array([1.0, -0.7, 0.4, 0.0]) + rng.logistic(size=rows)
    y = (latent[:, None] > true_cut).sum(1)
    start = np.array([-2.0, -1.0, 1.0, 2.0])
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2.5, shape=4)
        cut = pm.Normal("cut", 0, 5, shape=4, transform=ordered, initval=start)
        pm.OrderedLogistic("y", eta=pt.dot(x, beta), cutpoints=cut, compute_p=False, observed=y)
    return model


@posterior("beta", "gamma", "alpha")
def zinb_roaches():
    """Roaches: zero-inflated negative-binomial counts with exposure, 260 rows."""
    rng = simulator(109)
    rows = 260
    roach = np.abs(rng.normal(0, 1.0, rows))
    treated = (rng.uniform(size=rows) < 0.6).astype(float)
    senior = (rng.uniform(size=rows) < 0.3).astype(float)
    exposure = rng.uniform(0.4, 2.0, rows)
    x = np.column_stack([np.ones(rows), roach, treated, senior])
    true_mu = exposure * np.exp(x @ np.array([2.2, 0.9, -0.5, -0.3]))
    true_zero = sigmoid(-0.8 + 1.2 * senior)
    true_alpha = 0.9
    counts = rng.poisson(true_mu * rng.gamma(true_alpha, 1 / true_alpha, rows))
    y = counts * (rng.uniform(size=rows) > true_zero)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 5, shape=4)
        gamma = pm.Normal("gamma", 0, 2, shape=2)
        alpha = pm.Gamma("alpha", 2, 1)
        pm.ZeroInflatedNegativeBinomial(
            "y",
            psi=pm.math.sigmoid(-(gamma[0] + gamma[1] * senior)),
            mu=exposure * pt.exp(pt.dot(x, beta)),
            alpha=alpha,
            observed=y,
        )
    return model


@posterior("beta")
def dogs():
    """Dogs: logistic regression on earlier avoidances and shocks, 30 dogs, 25 trials."""
    rng = simulator(110)
    subjects, trials = 30, 25
    shocked = np.zeros((subjects, trials), dtype=int)
    avoidances, shocks = np.zeros((subjects, trials)), np.zeros((subjects, trials))
    for t in range(trials):
        if t:
            shocks[:, t] = shocked[:, :t].sum(1)
            avoidances[:, t] = t - shocks[:, t]
        p = sigmoid(2.4 - 0.35 * avoidances[:, t] - 0.2 * shocks[:, t])
        shocked[:, t] = rng.uniform(size=subjects) < p
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 100, shape=3)
        logit_p = beta[0] + beta[1] * avoidances + beta[2] * shocks
        pm.Bernoulli("y", logit_p=logit_p, observed=shocked)
    return model
