"""Distributions whose moments are known exactly."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from shelf import data, posterior


@posterior("x")
def gauss_ill100():
    """Gaussian in 100 dimensions with rotated axes; the covariance has condition number 1e4."""
    d = data("gauss_ill100")
    covariance = d["half"] @ d["half"].T
    with pm.Model() as model:
        pm.MvNormal("x", d["mean"], chol=np.linalg.cholesky(covariance), shape=100)
    return model


@posterior("v", "x")
def funnel_noncentered():
    """Neal's funnel in 10 dimensions, non-centred: a standard Gaussian, read through exp."""
    with pm.Model() as model:
        v = pm.Deterministic("v", 3 * pm.Normal("v_raw", 0, 1))
        pm.Deterministic("x", pt.exp(v / 2) * pm.Normal("x_raw", 0, 1, shape=9))
    return model


@posterior("v", "x")
def funnel_centered():
    """Neal's funnel in 10 dimensions, centred: no fixed step size fits all of it."""
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        pm.Normal("x", 0, pt.exp(v / 2), shape=9)
    return model


@posterior("x")
def rough_well():
    """Well in 2 dimensions, sd 100, with ripples of height 2 and period 8."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 100, shape=2)
        pm.Potential("ripple", -pt.cos(np.pi * x / 4).sum())
    return model
