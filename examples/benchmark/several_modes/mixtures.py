"""Mixtures and hidden states: minor modes exchange components, or let one take two groups."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from posterior import posterior
from posteriors.shelf import hidden_markov_logp, scan

ordered = pm.distributions.transforms.ordered
TRUTH: dict[str, dict] = {}


def simulator(name: str, seed: int, **truth) -> np.random.RandomState:
    """Random data of a model, whose parameters are noted."""
    TRUTH[name] = {variable: np.asarray(value, dtype=float) for variable, value in truth.items()}
    return np.random.RandomState(seed)


def add_mixture(log_weights, components) -> None:
    """The likelihood of rows, with components (rows, k) summed out."""
    pm.Potential("mixture", pt.logsumexp(log_weights + components, axis=1).sum())


def chain_of_states(rng, transition: np.ndarray, length: int) -> np.ndarray:
    """States of a Markov chain that begins in the first."""
    states = [0]
    for _ in range(length - 1):
        states.append(rng.choice(len(transition), p=transition[states[-1]]))
    return np.array(states)


@posterior("w", "mu", "sigma")
def ordered_mixture_3():
    """Three normals of unequal weight with ordered means: in a minor mode one covers two groups."""
    w, mu, sigma = np.array([0.6, 0.3, 0.1]), np.array([0.0, 5.0, 11.0]), np.array([1.0, 1.0, 0.7])
    rng = simulator("ordered_mixture_3", 901, w=w, mu=mu, sigma=sigma)
    state = rng.choice(3, 200, p=w)
    y = mu[state] + sigma[state] * rng.normal(size=200)
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.full(3, 2.0))
        mu = pm.Normal("mu", 5, 10, shape=3, transform=ordered, initval=np.array([3.0, 5.0, 7.0]))
        sigma = pm.HalfNormal("sigma", 3, shape=3)
        add_mixture(pt.log(w), pm.logp(pm.Normal.dist(mu, sigma), y[:, None]))
    return model


@posterior("mu", "sigma")
def labelled_mixture():
    """Two normals of known, unequal weights, with free means: a minor mode exchanges them."""
    w, mu = np.array([0.3, 0.7]), np.array([-2.0, 2.5])
    rng = simulator("labelled_mixture", 902, mu=mu, sigma=1.0)
    y = mu[rng.choice(2, 150, p=w)] + rng.normal(size=150)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5, shape=2)
        sigma = pm.HalfNormal("sigma", 2)
        add_mixture(np.log(w), pm.logp(pm.Normal.dist(mu, sigma), y[:, None]))
    return model


@posterior("sigma", "mu")
def mixture_of_scales():
    """Noise of two sizes in known shares: a minor mode exchanges the sizes."""
    w, sigma = np.array([0.75, 0.25]), np.array([0.3, 4.0])
    rng = simulator("mixture_of_scales", 903, sigma=sigma, mu=1.0)
    y = 1.0 + sigma[rng.choice(2, 150, p=w)] * rng.normal(size=150)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        sigma = pm.LogNormal("sigma", 0, 1.5, shape=2)
        add_mixture(np.log(w), pm.logp(pm.Normal.dist(mu, sigma), y[:, None]))
    return model


@posterior("slope", "intercept", "sigma")
def two_lines():
    """Two regressions in known shares: in minor modes they are exchanged, or cross."""
    w, slope, intercept = np.array([0.65, 0.35]), np.array([1.5, -1.0]), np.array([0.0, 1.0])
    rng = simulator("two_lines", 904, slope=slope, intercept=intercept, sigma=0.4)
    x, line = rng.uniform(-3, 3, 160), rng.choice(2, 160, p=w)
    y = intercept[line] + slope[line] * x + 0.4 * rng.normal(size=160)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 2, shape=2)
        intercept = pm.Normal("intercept", 0, 2, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        mean = intercept + slope * x[:, None]
        add_mixture(np.log(w), pm.logp(pm.Normal.dist(mean, sigma), y[:, None]))
    return model


@posterior("centre", "sigma")
def larger_group():
    """The centre of a heavy-tailed cloud of points; a smaller cloud beside it is a minor mode."""
    centre = np.array([4.0, 4.0])
    rng = simulator("larger_group", 905, centre=centre, sigma=0.6)
    y = np.concatenate([rng.normal(centre, 1, (60, 2)), rng.normal(-centre, 0.7, (30, 2))])
    with pm.Model() as model:
        centre = pm.Normal("centre", 0, 10, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        square = pt.sqr((y - centre) / sigma).sum(axis=1)
        pm.Potential("student", (-2 * pt.log(sigma) - 2.5 * pt.log1p(square / 3)).sum())
    return model


@posterior("theta1", "theta2", "phi", "lam")
def hidden_2_states():
    """Two hidden states seen in two ways, each with ordered means: minor modes confuse states."""
    transition = np.array([[0.9, 0.1], [0.25, 0.75]])
    phi, lam = np.array([-1.0, 2.0]), np.array([0.0, 1.5])
    rng = simulator(
        "hidden_2_states", 906, theta1=transition[0], theta2=transition[1], phi=phi, lam=lam
    )
    state = chain_of_states(rng, transition, 150)
    u, v = phi[state] + 0.5 * rng.normal(size=150), lam[state] + rng.normal(size=150)
    with pm.Model() as model:
        theta1 = pm.Dirichlet("theta1", np.ones(2))
        theta2 = pm.Dirichlet("theta2", np.ones(2))
        phi, lam = (
            pm.Normal(name, 0, 3, shape=2, transform=ordered, initval=np.array([-0.5, 0.5]))
            for name in ("phi", "lam")
        )
        emission = pm.logp(pm.Normal.dist(phi, 0.5), u[:, None])
        emission += pm.logp(pm.Normal.dist(lam, 1.0), v[:, None])
        pm.Potential("forward", hidden_markov_logp(emission, theta1, theta2))
    return model


@posterior("transition", "mu", "sigma")
def hidden_3_states():
    """Three hidden states with ordered means: minor modes spend two of them on one group."""
    transition = np.array([[0.85, 0.1, 0.05], [0.1, 0.8, 0.1], [0.1, 0.3, 0.6]])
    mu, sigma = np.array([-3.0, 0.0, 5.0]), 0.8
    rng = simulator("hidden_3_states", 907, transition=transition, mu=mu, sigma=sigma)
    y = mu[chain_of_states(rng, transition, 150)] + sigma * rng.normal(size=150)
    with pm.Model() as model:
        transition = pm.Dirichlet("transition", np.ones((3, 3)))
        mu = pm.Normal("mu", 0, 5, shape=3, transform=ordered, initval=np.array([-1.0, 0.0, 1.0]))
        sigma = pm.HalfNormal("sigma", 2)
        emission = pm.logp(pm.Normal.dist(mu, sigma), y[:, None])
        top = emission.max(axis=1)
        likelihood = pt.exp(emission - top[:, None])

        def step(seen, before, moves):
            ahead = (before[:, None] * moves).sum(axis=0) * seen
            return ahead / ahead.sum(), ahead.sum()

        first = likelihood[0].sum()
        _, norms = scan(
            step,
            sequences=[likelihood[1:]],
            outputs_info=[likelihood[0] / first, None],
            non_sequences=[transition],
        )
        pm.Potential("forward", pt.log(first) + pt.log(norms).sum() + top.sum())
    return model
