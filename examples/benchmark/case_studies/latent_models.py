"""Case studies with something latent: a component, membership in a population, a function."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from posterior import posterior
from simulation import sigmoid, simulator

ordered = pm.distributions.transforms.ordered


@posterior("w", "mu", "sigma")
def normal_mixture_3():
    """Three normals with ordered means, two of which overlap, marginalised, 600 rows."""
    rng = simulator(116)
    rows = 600
    component = rng.choice(3, rows, p=[0.3, 0.45, 0.25])
    true_mu, true_sigma = np.array([-3.0, 0.0, 3.2]), np.array([0.8, 1.0, 0.6])
    y = true_mu[component] + true_sigma[component] * rng.normal(size=rows)
    start = np.array([-2.0, 0.0, 2.0])
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.full(3, 5.0))
        mu = pm.Normal("mu", 0, 5, shape=3, transform=ordered, initval=start)
        sigma = pm.HalfNormal("sigma", 2, shape=3)
        joint = pt.log(w) + pm.logp(pm.Normal.dist(mu, sigma), y[:, None])
        pm.Potential("mix", pt.logsumexp(joint, axis=1).sum())
    return model


@posterior("omega", "mean_p", "sigma", "N_mean", "eps")
def mh_capture():
    """Capture and recapture of individuals that differ: 150 of them, augmented, 6 occasions."""
    rng = simulator(117)
    individuals, occasions = 150, 6
    captures = rng.binomial(occasions, sigmoid(-0.6 + 0.8 * rng.normal(size=100)))
    captures = captures[captures > 0]
    captures = np.concatenate([captures, np.zeros(individuals - len(captures), dtype=int)])
    seen = captures > 0
    with pm.Model() as model:
        omega = pm.Uniform("omega", 0, 1)
        mean_p = pm.Uniform("mean_p", 0, 1)
        sigma = pm.HalfNormal("sigma", 1.5)
        eps = pm.Normal("eps", 0, 1, shape=individuals)
        eta = pt.log(mean_p) - pt.log1p(-mean_p) + sigma * eps
        member = pt.log(omega) + captures * eta - occasions * pt.softplus(eta)
        either = pt.logaddexp(member, pt.log1p(-omega))
        pm.Potential("lik", pt.switch(seen, member, either).sum())
        # The expected size of the population, given the parameters.
        is_member = pm.math.sigmoid(member - pt.log1p(-omega))
        pm.Deterministic("N_mean", pt.switch(seen, 1.0, is_member).sum())
    return model


@posterior("rho", "alpha", "f")
def gp_poisson():
    """Counts at 40 points on a Gaussian process, squared exponential, non-centred by Cholesky."""
    rng = simulator(118)
    points = 40
    x = np.linspace(-10, 10, points)
    distance2 = np.subtract.outer(x, x) ** 2
    true_cov = np.exp(-0.5 * distance2 / 3.0**2) + 1e-8 * np.eye(points)
    y = rng.poisson(np.exp(1.0 + np.linalg.cholesky(true_cov) @ rng.normal(size=points)))
    with pm.Model() as model:
        rho = pm.Gamma("rho", alpha=25, beta=4)
        alpha = pm.HalfNormal("alpha", 2)
        z = pm.Normal("z", 0, 1, shape=points)
        cov = alpha**2 * pt.exp(-0.5 * distance2 / rho**2) + 1e-6 * np.eye(points)
        f = pm.Deterministic("f", pt.dot(pt.linalg.cholesky(cov), z))
        pm.Poisson("y", pt.exp(f), observed=y)
    return model
