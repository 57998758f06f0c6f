"""Case studies of counts and choices with many levels."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from posterior import posterior
from simulation import sigmoid, simulator


@posterior("sigma_theta", "sigma_a", "mu_b", "sigma_b", "theta", "a", "b")
def irt_2pl():
    """Item response, two-parameter logistic: 100 people and 20 items, centred."""
    rng = simulator(111)
    people, items = 100, 20
    true_theta = rng.normal(0, 1.2, people)
    true_a = np.exp(rng.normal(0, 0.4, items))
    true_b = rng.normal(0.3, 1, items)
    p = sigmoid(true_a[:, None] * (true_theta - true_b[:, None]))
    y = (rng.uniform(size=(items, people)) < p).astype(int)
    with pm.Model() as model:
        sigma_theta = pm.HalfCauchy("sigma_theta", 2)
        theta = pm.Normal("theta", 0, sigma_theta, shape=people)
        sigma_a = pm.HalfCauchy("sigma_a", 2)
        a = pm.LogNormal("a", 0, sigma_a, shape=items)
        mu_b = pm.Normal("mu_b", 0, 5)
        sigma_b = pm.HalfCauchy("sigma_b", 2)
        b = pm.Normal("b", mu_b, sigma_b, shape=items)
        pm.Bernoulli("y", logit_p=a[:, None] * (theta[None, :] - b[:, None]), observed=y)
    return model


@posterior("beta", "sigma_site", "sigma_eps", "site", "eps")
def poisson_glmm():
    """Counts cubic in time at 20 sites, with an effect of each of the 200 rows, all centred."""
    rng = simulator(112)
    sites, years = 20, 10
    rows = sites * years
    site_of, year = np.repeat(np.arange(sites), years), np.tile(np.arange(years), sites)
    time = (year - 4.5) / 4.5
    x = np.column_stack([np.ones(rows), time, time**2, time**3])
    true_eta = (
        x @ np.array([2.5, 0.6, -0.3, -0.2])
        + rng.normal(0, 0.4, sites)[site_of]
        + rng.normal(0, 0.35, rows)
    )
    y = rng.poisson(np.exp(true_eta))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 5, shape=4)
        sigma_site = pm.HalfNormal("sigma_site", 1)
        sigma_eps = pm.HalfNormal("sigma_eps", 1)
        site = pm.Normal("site", 0, sigma_site, shape=sites)
        eps = pm.Normal("eps", 0, sigma_eps, shape=rows)
        pm.Poisson("y", pt.exp(pt.dot(x, beta) + site[site_of] + eps), observed=y)
    return model


@posterior("beta", "sigma_state", "sigma_cell", "state", "cell")
def election88_like():
    """Votes of 2000 people: 49 states crossed with 16 cells of age and education, centred."""
    rng = simulator(113)
    rows, states, cells = 2000, 49, 16
    weight = np.exp(rng.normal(0, 0.8, states))
    others = rng.choice(states, rows - states, p=weight / weight.sum())
    state_of = np.concatenate([np.arange(states), others])
    cell_of = rng.choice(cells, rows, p=rng.dirichlet(np.full(cells, 3.0)))
    black = (rng.uniform(size=rows) < 0.1) * 1.0
    female = (rng.uniform(size=rows) < 0.53) * 1.0
    previous_vote = rng.normal(0, 0.1, states)
    x = np.column_stack([np.ones(rows), black, female, previous_vote[state_of]])
    true_eta = (
        x @ np.array([0.4, -1.7, -0.1, 4.0])
        + rng.normal(0, 0.25, states)[state_of]
        + rng.normal(0, 0.2, cells)[cell_of]
    )
    y = (rng.uniform(size=rows) < sigmoid(true_eta)).astype(int)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=4)
        sigma_state = pm.HalfNormal("sigma_state", 1)
        sigma_cell = pm.HalfNormal("sigma_cell", 1)
        state = pm.Normal("state", 0, sigma_state, shape=states)
        cell = pm.Normal("cell", 0, sigma_cell, shape=cells)
        logit_p = pt.dot(x, beta) + state[state_of] + cell[cell_of]
        pm.Bernoulli("y", logit_p=logit_p, observed=y)
    return model


@posterior("log_ratio", "log_size", "theta")
def rat_tumor():
    """Rat tumours: beta-binomial with 71 groups, centred; heavy right tails of a and b."""
    rng = simulator(114)
    groups = 71
    rats = rng.choice([10, 13, 17, 18, 19, 20, 20, 20, 22, 24, 46, 50], groups)
    y = rng.binomial(rats, rng.beta(2.4, 14.0, groups))
    with pm.Model() as model:
        a = pm.HalfFlat("a", initval=2.0)
        b = pm.HalfFlat("b", initval=10.0)
        pm.Potential("prior_ab", -2.5 * pt.log(a + b))
        # a and b themselves have no mean.
        pm.Deterministic("log_ratio", pt.log(a / b))
        pm.Deterministic("log_size", pt.log(a + b))
        theta = pm.Beta("theta", a, b, shape=groups)
        pm.Binomial("y", n=rats, p=theta, observed=y)
    return model


@posterior("phi", "kappa", "theta")
def dirichlet_multinomial():
    """Simplexes of 12 groups around a common one, 5 categories, multinomial counts."""
    rng = simulator(115)
    groups, categories = 12, 5
    true_phi = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
    p = np.stack([rng.dirichlet(20 * true_phi) for _ in range(groups)])
    n = rng.randint(30, 120, groups)
    y = np.stack([rng.multinomial(n[i], p[i]) for i in range(groups)])
    with pm.Model() as model:
        phi = pm.Dirichlet("phi", np.ones(categories))
        kappa = pm.LogNormal("kappa", np.log(10), 1)
        concentration = kappa * phi * np.ones((groups, 1))
        theta = pm.Dirichlet("theta", concentration, shape=(groups, categories))
        pm.Multinomial("y", n=n, p=theta, observed=y)
    return model
