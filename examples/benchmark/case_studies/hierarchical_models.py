"""Case studies with Gaussian data: varying coefficients, a random walk, factors."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from posterior import posterior
from simulation import simulator


@posterior("mu", "tau", "rho", "sigma_y", "a", "b")
def radon_lkj_noncentered():
    """Radon: intercepts and floor slopes of 85 counties of uneven size, LKJ prior, non-centred."""
    rng = simulator(101)
    counties, rows = 85, 919
    weight = np.exp(rng.normal(0, 1, counties))
    others = rng.choice(counties, rows - counties, p=weight / weight.sum())
    county = np.concatenate([np.arange(counties), others])
    floor = (rng.uniform(size=rows) < 0.17).astype(float)
    cov = np.array([[0.35**2, -0.4 * 0.35 * 0.3], [-0.4 * 0.35 * 0.3, 0.3**2]])
    true = np.array([1.45, -0.7]) + rng.normal(size=(counties, 2)) @ np.linalg.cholesky(cov).T
    y = true[county, 0] + true[county, 1] * floor + rng.normal(0, 0.75, rows)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5, shape=2)
        sd_dist = pm.HalfNormal.dist(1.0, shape=2)
        chol, corr, sd = pm.LKJCholeskyCov("chol", n=2, eta=2.0, compute_corr=True, sd_dist=sd_dist)
        pm.Deterministic("tau", sd)
        pm.Deterministic("rho", corr[0, 1])
        sigma_y = pm.HalfNormal("sigma_y", 2)
        z = pm.Normal("z", 0, 1, shape=(counties, 2))
        effect = mu + pt.dot(z, chol.T)
        a = pm.Deterministic("a", effect[:, 0])
        b = pm.Deterministic("b", effect[:, 1])
        pm.Normal("y", a[county] + b[county] * floor, sigma_y, observed=y)
    return model


@posterior("mu_a", "sigma_a", "beta", "sigma_y", "a")
def radon_centered():
    """Radon: varying intercepts, centred, well identified by 50 rows in each of 40 counties."""
    rng = simulator(102)
    counties, houses = 40, 50
    county = np.repeat(np.arange(counties), houses)
    floor = (rng.uniform(size=counties * houses) < 0.2).astype(float)
    y = (
        rng.normal(1.4, 0.5, counties)[county]
        - 0.65 * floor
        + rng.normal(0, 0.75, counties * houses)
    )
    with pm.Model() as model:
        mu_a = pm.Normal("mu_a", 0, 10)
        sigma_a = pm.HalfCauchy("sigma_a", 2.5)
        beta = pm.Normal("beta", 0, 10)
        sigma_y = pm.HalfCauchy("sigma_y", 2.5)
        a = pm.Normal("a", mu_a, sigma_a, shape=counties)
        pm.Normal("y", a[county] + beta * floor, sigma_y, observed=y)
    return model


@posterior("sigma_level", "sigma_obs", "level")
def local_level():
    """A state space: a centred random walk of 200 steps seen with noise, both variances unknown."""
    rng = simulator(103)
    times = 200
    y = 5 + np.cumsum(rng.normal(0, 0.5, times)) + rng.normal(0, 1.0, times)
    with pm.Model() as model:
        sigma_level = pm.HalfNormal("sigma_level", 2)
        sigma_obs = pm.HalfNormal("sigma_obs", 2)
        level = pm.Flat("level", shape=times, initval=np.full(times, y.mean()))
        pm.Potential("start", pm.logp(pm.Normal.dist(0, 10), level[0]))
        pm.Potential("walk", pm.logp(pm.Normal.dist(0, sigma_level), level[1:] - level[:-1]).sum())
        pm.Normal("y", level, sigma_obs, observed=y)
    return model


@posterior("mu", "diag", "low", "psi", "eta")
def factor_model():
    """Two factors of 80 rows and 8 columns: triangular loadings, positive diagonal, all scores."""
    rng = simulator(104)
    rows, columns, factors = 80, 8, 2
    true = np.array(
        [
            [1.2, 0],
            [0.4, 1.1],
            [0.9, -0.3],
            [0.7, 0.6],
            [-0.5, 0.8],
            [0.3, -0.9],
            [1.0, 0.2],
            [0.1, 0.7],
        ]
    )
    y = (
        rng.normal(0, 1, columns)
        + rng.normal(size=(rows, factors)) @ true.T
        + rng.normal(0, 0.6, (rows, columns))
    )
    below = np.tril_indices(columns, -1, factors)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5, shape=columns)
        diag = pm.HalfNormal("diag", 2, shape=factors)
        low = pm.Normal("low", 0, 1, shape=len(below[0]))
        psi = pm.HalfNormal("psi", 1, shape=columns)
        zeros = pt.zeros((columns, factors))
        loadings = pt.set_subtensor(zeros[np.arange(factors), np.arange(factors)], diag)
        loadings = pt.set_subtensor(loadings[below], low)
        eta = pm.Normal("eta", 0, 1, shape=(rows, factors))
        pm.Normal("y", mu + pt.dot(eta, loadings.T), psi, observed=y)
    return model
