"""Curves and differential equations: minor modes slip a cycle, or fit another peak."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from mixtures import simulator
from posterior import posterior
from posteriors.shelf import runge_kutta


@posterior("frequency", "amplitude", "sigma")
def sinusoid():
    """The frequency of a wave in noise: minor modes at its side lobes."""
    frequency, amplitude = 1.3, np.array([1.0, 0.5])
    rng = simulator("sinusoid", 911, frequency=frequency, amplitude=amplitude, sigma=0.4)
    t = np.sort(rng.uniform(0, 15, 60))
    y = amplitude @ [np.cos(frequency * t), np.sin(frequency * t)] + 0.4 * rng.normal(size=60)
    with pm.Model() as model:
        frequency = pm.LogNormal("frequency", 0, 0.5)
        amplitude = pm.Normal("amplitude", 0, 1, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        wave = amplitude[0] * pt.cos(frequency * t) + amplitude[1] * pt.sin(frequency * t)
        pm.Normal("y", wave, sigma, observed=y)
    return model


@posterior("place", "sigma")
def two_peaks():
    """Places of two peaks of known, unequal heights: a minor mode exchanges them."""
    height, place = np.array([2.0, 1.2]), np.array([2.0, -1.5])
    rng = simulator("two_peaks", 912, place=place, sigma=0.2)
    x = np.linspace(-5, 5, 80)
    y = np.exp(-0.5 * (x[:, None] - place) ** 2) @ height + 0.2 * rng.normal(size=80)
    with pm.Model() as model:
        place = pm.Normal("place", 0, 3, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        peaks = (height * pt.exp(-0.5 * pt.sqr(x[:, None] - place))).sum(axis=1)
        pm.Normal("y", peaks, sigma, observed=y)
    return model


@posterior("stiffness", "damping", "start", "sigma")
def pendulum():
    """A damped pendulum seen 30 times: minor modes swing once more, or less."""
    stiffness, damping, start = 4.0, 0.15, np.array([1.2, 0.0])
    rng = simulator("pendulum", 913, stiffness=stiffness, damping=damping, start=start, sigma=0.15)
    times = np.linspace(0, 12, 121)

    def slope(angle, speed, k, c):
        return speed, -k * pt.sin(angle) - c * speed

    seen = [pt.as_tensor(value) for value in (*start, stiffness, damping)]
    true = runge_kutta(slope, seen[:2], seen[2:], times)[0][3::4].eval()
    y = true + 0.15 * rng.normal(size=len(true))
    with pm.Model() as model:
        stiffness = pm.LogNormal("stiffness", 1, 0.7)
        damping = pm.LogNormal("damping", -2, 1)
        start = pm.Normal("start", 0, 1, shape=2)
        sigma = pm.HalfNormal("sigma", 0.5)
        angle = runge_kutta(slope, [start[0], start[1]], [stiffness, damping], times)[0][3::4]
        pm.Normal("y", angle, sigma, observed=y)
    return model


@posterior("a", "b", "c", "sigma")
def fitzhugh_nagumo():
    """A nerve that fires, seen 50 times (Ramsay et al. 2007): minor modes are out of phase."""
    a, b, c = 0.2, 0.2, 3.0
    rng = simulator("fitzhugh_nagumo", 914, a=a, b=b, c=c, sigma=0.3)
    times = np.linspace(0, 20, 201)
    origin = [pt.as_tensor(np.float64(value)) for value in (-1.0, 1.0)]

    def slope(voltage, recovery, a, b, c):
        firing = c * (voltage - voltage**3 / 3 + recovery)
        return firing, -(voltage - a + b * recovery) / c

    rates = [pt.as_tensor(np.float64(value)) for value in (a, b, c)]
    true = runge_kutta(slope, origin, rates, times)[0][3::4].eval()
    y = true + 0.3 * rng.normal(size=len(true))
    with pm.Model() as model:
        a = pm.Normal("a", 0, 0.4)
        b = pm.Normal("b", 0, 0.4)
        c = pm.LogNormal("c", 1, 0.5)
        sigma = pm.HalfNormal("sigma", 1)
        voltage = runge_kutta(slope, origin, [a, b, c], times)[0][3::4]
        pm.Normal("y", voltage, sigma, observed=y)
    return model
