"""Case studies with a mechanism, or of the time of an event."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from posterior import posterior
from simulation import sigmoid, simulator


def log_concentration(dose, t, clearance, volume, excess, lib):
    """One compartment with first-order absorption; `lib` is numpy or pytensor.tensor.

    `excess` is the rate of absorption above that of elimination. That it is positive rules out
    the mode in which the two are exchanged.
    """
    elimination = clearance / volume
    return (
        lib.log(dose)
        + lib.log(elimination + excess)
        - lib.log(volume)
        - lib.log(excess)
        - elimination * t
        + lib.log(-lib.expm1(-excess * t))
    )


@posterior("mu", "omega", "sigma", "CL", "V", "D")
def pk_one_compartment():
    """Theophylline: clearance, volume and absorption of 12 subjects at 10 times each."""
    rng = simulator(119)
    subjects = 12
    t = np.array([0.25, 0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 9.0, 12.0, 24.0])
    dose = rng.uniform(3.1, 5.9, subjects)[:, None]
    true_mu, true_omega = np.log([0.04, 0.5, 1.4]), np.array([0.25, 0.15, 0.5])
    true = np.exp(true_mu + true_omega * rng.normal(size=(subjects, 3)))
    true_log = log_concentration(dose, t, true[:, :1], true[:, 1:2], true[:, 2:], np)
    y = np.exp(true_log + rng.normal(0, 0.15, (subjects, len(t))))
    with pm.Model() as model:
        mu = pm.Normal("mu", np.array([-3.0, -0.7, 0.3]), 1, shape=3)
        omega = pm.HalfNormal("omega", 0.5, shape=3)
        sigma = pm.HalfNormal("sigma", 0.5)
        z = pm.Normal("z", 0, 1, shape=(subjects, 3))
        own = pt.exp(mu + omega * z)
        clearance = pm.Deterministic("CL", own[:, 0])[:, None]
        volume = pm.Deterministic("V", own[:, 1])[:, None]
        excess = pm.Deterministic("D", own[:, 2])[:, None]
        log_mean = log_concentration(dose, t, clearance, volume, excess, pt)
        pm.LogNormal("y", log_mean, sigma, observed=y)
    return model


def log_removals(susceptible, t, growth, gamma, infected, lib):
    """Log removals a week by Kermack and McKendrick's sech^2, and the time of their peak.

    `growth` is R0 - 1, `gamma` the rate of removal, `infected` the number at the start; `lib` is
    numpy or pytensor.tensor.
    """
    x = 2 * (1 + growth) ** 2 * infected / susceptible
    a = lib.sqrt(growth**2 + x)
    shift = lib.log(a + growth) - 0.5 * lib.log(x)  # artanh(growth / a)
    u = 0.5 * a * gamma * t - shift
    log_cosh = lib.logaddexp(u, -u) - np.log(2)
    log_size = lib.log(gamma / 2 * susceptible) + 2 * lib.log(a) - 2 * lib.log1p(growth)
    return log_size - 2 * log_cosh, 2 * shift / (a * gamma)


@posterior("R0", "gamma", "I0", "phi_inv", "peak")
def sir_kermack_mckendrick():
    """An epidemic in closed form, 30 weekly counts, negative binomial: a curved posterior."""
    rng = simulator(120)
    susceptible, t = 10000.0, np.arange(30) + 0.5
    true_log, _ = log_removals(susceptible, t, 0.15, 2.0, 5.0, np)
    y = rng.poisson(np.exp(true_log) * rng.gamma(15, 1 / 15, len(t)))
    with pm.Model() as model:
        growth = pm.LogNormal("d", np.log(0.2), 0.7)
        gamma = pm.LogNormal("gamma", np.log(1.5), 0.5)
        infected = pm.LogNormal("I0", np.log(5), 1)
        phi_inv = pm.Exponential("phi_inv", 5)
        pm.Deterministic("R0", 1 + growth)
        log_mean, peak = log_removals(susceptible, t, growth, gamma, infected, pt)
        pm.Deterministic("peak", peak)
        pm.NegativeBinomial("y", mu=pt.exp(log_mean), alpha=1 / phi_inv, observed=y)
    return model


@posterior("level", "tau", "width")
def changepoint_logistic():
    """Coal mining: 112 yearly counts at two rates, with a logistic switch between them."""
    rng = simulator(121)
    year = np.arange(1851, 1963).astype(float)
    y = rng.poisson(np.exp(1.13 + (-0.1 - 1.13) * sigmoid((year - 1890) / 2.0)))
    with pm.Model() as model:
        level = pm.Normal("level", 0, 2, shape=2)
        tau = pm.Uniform("tau", 1851, 1962)
        width = pm.LogNormal("width", 1, 1)
        log_rate = level[0] + (level[1] - level[0]) * pm.math.sigmoid((year - tau) / width)
        pm.Poisson("y", pt.exp(log_rate), observed=y)
    return model


@posterior("shape", "beta")
def weibull_survival():
    """Weibull regression: 300 rows, 4 covariates, about a third censored on the right."""
    rng = simulator(122)
    rows = 300
    continuous, binary = rng.normal(size=(rows, 2)), rng.uniform(size=(rows, 2)) < 0.5
    x = np.column_stack([np.ones(rows), continuous, binary])
    true_scale = np.exp(x @ np.array([3.0, 0.5, -0.3, 0.4, 0.0]))
    event, censoring = true_scale * rng.weibull(1.4, rows), rng.uniform(5, 80, rows)
    died, time = event <= censoring, np.minimum(event, censoring)
    with pm.Model() as model:
        shape = pm.Gamma("shape", 2, 1)
        beta = pm.Normal("beta", 0, 5, shape=5)
        u = np.log(time) - pt.dot(x, beta)  # log(time / scale)
        log_density = pt.log(shape) + shape * u - np.log(time)
        pm.Potential("lik", (died * log_density - pt.exp(shape * u)).sum())
    return model
