"""Models of series in time: autoregression, volatility, hidden states, a differential equation."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from shelf import data, hidden_markov_logp, posterior, runge_kutta, scan


@posterior("alpha", "beta", "sigma")
def arK():
    """Autoregression of order 5 on 200 points: 7 parameters, nearly Gaussian."""
    d = data("arK")
    y, order = d["y"], d["K"]
    lags = np.column_stack([y[order - i - 1 : len(y) - i - 1] for i in range(order)])
    with pm.Model() as model:
        alpha = pm.Normal("alpha", 0, 10)
        beta = pm.Normal("beta", 0, 10, shape=order)
        sigma = pm.HalfCauchy("sigma", 2.5)
        pm.Normal("y", alpha + pt.dot(lags, beta), sigma, observed=y[order:])
    return model


@posterior("mu", "alpha0", "alpha1", "beta1")
def garch11():
    """GARCH(1,1), 200 points: 4 parameters, a bound that depends on a parameter, a scan."""
    d = data("garch11")
    y = d["y"]
    with pm.Model() as model:
        mu = pm.Flat("mu")
        alpha0 = pm.HalfFlat("alpha0")
        alpha1 = pm.Uniform("alpha1", 0, 1)
        beta1 = pm.Uniform("beta1", 0, 1 - alpha1)
        # Stan's prior is flat on the triangle: the uniform's 1 / (1 - alpha1) is undone.
        pm.Potential("flat_triangle", pt.log1p(-alpha1))
        start = pt.as_tensor(np.float64(d["sigma1"]) ** 2)
        variance = scan(
            lambda shock, before, b: shock + b * before,
            sequences=[alpha0 + alpha1 * pt.sqr(y[:-1] - mu)],
            outputs_info=[start],
            non_sequences=[beta1],
        )
        sd = pt.sqrt(pt.concatenate([start[None], variance]))
        pm.Normal("y", mu, sd, observed=y)
    return model


@posterior("theta1", "theta2", "mu")
def hmm_example():
    """Hidden Markov model of two states, 100 points, Gaussian emissions."""
    y = data("hmm_example")["y"]
    with pm.Model() as model:
        theta1 = pm.Dirichlet("theta1", np.ones(2))
        theta2 = pm.Dirichlet("theta2", np.ones(2))
        # 0 < mu[0] < mu[1], by positive increments.
        increments = pm.HalfFlat("inc", shape=2, initval=np.array([3.0, 6.0]))
        mu = pm.Deterministic("mu", pt.cumsum(increments))
        pm.Potential("prior_mu", pm.logp(pm.Normal.dist(np.array([3.0, 10.0]), 1), mu).sum())
        emission = pm.logp(pm.Normal.dist(mu[None, :], 1), y[:, None])
        pm.Potential("forward", hidden_markov_logp(emission, theta1, theta2))
    return model


@posterior("theta1", "theta2", "phi", "lam")
def hmm_drive_1():
    """Hidden Markov model of basketball drives; in a minor mode the states are swapped."""
    d = data("hmm_drive_1")
    weights = d["alpha"].astype(float)
    start = np.array([0.0, 3.0])
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        theta1 = pm.Dirichlet("theta1", weights[0])
        theta2 = pm.Dirichlet("theta2", weights[1])
        phi, lam = (
            pm.Normal(name, start, 1, shape=2, transform=ordered, initval=start)
            for name in ("phi", "lam")
        )
        emission = pm.logp(pm.Normal.dist(phi[None, :], float(d["tau"])), d["u"][:, None])
        emission += pm.logp(pm.Normal.dist(lam[None, :], float(d["rho"])), d["v"][:, None])
        pm.Potential("forward", hidden_markov_logp(emission, theta1, theta2))
    return model


@posterior("theta", "z_init", "sigma")
def lotka_volterra():
    """Hares and lynxes, 20 years: 8 parameters, minor modes where the cycles slip."""
    d = data("lotka_volterra")
    usual, spread = np.array([1, 0.05, 1, 0.05]), np.array([0.5, 0.05, 0.5, 0.05])
    start = np.array([0.6, 0.03, 0.8, 0.025])
    with pm.Model() as model:
        theta = pm.TruncatedNormal("theta", usual, spread, lower=0, shape=4, initval=start)
        z_init = pm.LogNormal("z_init", np.log(10), 1, shape=2, initval=np.array([30.0, 5.0]))
        sigma = pm.LogNormal("sigma", -1, 1, shape=2, initval=np.array([0.3, 0.3]))

        def slope(hares, lynxes, a, b, c, e):
            return (a - b * lynxes) * hares, (e * hares - c) * lynxes

        years = len(d["y"])
        path = runge_kutta(
            slope,
            [z_init[0], z_init[1]],
            [theta[i] for i in range(4)],
            np.linspace(0, years, 10 * years + 1),
        )
        yearly = pt.stack([component[9::10] for component in path], axis=1)
        pm.LogNormal("y_init", pt.log(z_init), sigma, observed=d["y_init"])
        pm.LogNormal("y", pt.log(yearly), sigma, observed=d["y"])
    return model


@posterior("mu", "sigma", "nu", "h")
def stoch_vol():
    """Stochastic volatility, a non-centred random walk: 503 parameters, Student-t returns."""
    returns = data("stoch_vol")["r"]
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        sigma = pm.Exponential("sigma", 5)
        nu = pm.Gamma("nu", 2, 0.1)
        z = pm.Normal("z", 0, 1, shape=len(returns))
        h = pm.Deterministic("h", mu + sigma * pt.cumsum(z))
        pm.StudentT("r", nu=nu, mu=0, sigma=pt.exp(h / 2), observed=returns)
    return model
