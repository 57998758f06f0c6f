"""Models of groups, mostly centred as users write them."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from posterior import posterior
from shelf import data


@posterior("mu_a", "sigma_a", "mu_b", "sigma_b", "alpha", "beta", "sigma_y")
def radon_slopes_centred():
    """Radon in 85 counties: centred intercepts and slopes."""
    d = data("radon")
    county = d["county"]
    counties = len(np.unique(county))
    with pm.Model() as model:
        mu_a = pm.Normal("mu_a", 0.0, 10.0)
        sigma_a = pm.Exponential("sigma_a", 1)
        mu_b = pm.Normal("mu_b", 0.0, 10.0)
        sigma_b = pm.Exponential("sigma_b", 1)
        alpha = pm.Normal("alpha", mu_a, sigma_a, shape=counties)
        beta = pm.Normal("beta", mu_b, sigma_b, shape=counties)
        sigma_y = pm.Exponential("sigma_y", 1)
        mean = alpha[county] + beta[county] * d["floor"].astype(float)
        pm.Normal("y", mean, sigma_y, observed=np.log(d["activity"] + 0.1))
    return model


@posterior("home", "sd_att", "sd_def", "intercept", "atts_star", "defs_star")
def rugby():
    """Points of rugby matches: centred attacks and defences with free sums."""
    d = data("rugby")
    home_team, away_team = d["home"], d["away"]
    with pm.Model() as model:
        home = pm.Normal("home", 0, 1)
        sd_att = pm.HalfNormal("sd_att", 2)
        sd_def = pm.HalfNormal("sd_def", 2)
        intercept = pm.Normal("intercept", 3, 1)
        attack = pm.Normal("atts_star", 0, sd_att, shape=len(d["teams"]))
        defence = pm.Normal("defs_star", 0, sd_def, shape=len(d["teams"]))
        attack, defence = attack - pt.mean(attack), defence - pt.mean(defence)
        at_home = pt.exp(intercept + home + attack[home_team] + defence[away_team])
        away = pt.exp(intercept + attack[away_team] + defence[home_team])
        pm.Poisson("home_points", at_home, observed=d["home_score"])
        pm.Poisson("away_points", away, observed=d["away_score"])
    return model


@posterior(
    "global_intercept",
    "global_sigma",
    "global_age_beta",
    "global_coa_beta",
    "global_peer_beta",
    "global_coa_age_beta",
    "global_peer_age_beta",
    "subject_intercept_sigma",
    "subject_age_sigma",
    "subject_intercept",
    "subject_age_beta",
)
def alcohol_growth():
    """Growth curves of 82 subjects: centred intercepts and slopes."""
    d = data("alcohol")
    subject, age, coa, peer = d["subject"], d["age_14"], d["coa"], d["cpeer"]
    subjects = len(np.unique(subject))
    with pm.Model() as model:
        intercept = pm.Normal("global_intercept", 0, 1)
        sigma = pm.HalfStudentT("global_sigma", 1, 3)
        by_age = pm.Normal("global_age_beta", 0, 1)
        by_coa = pm.Normal("global_coa_beta", 0, 1)
        by_peer = pm.Normal("global_peer_beta", 0, 1)
        by_coa_age = pm.Normal("global_coa_age_beta", 0, 1)
        by_peer_age = pm.Normal("global_peer_age_beta", 0, 1)
        sd_intercept = pm.HalfNormal("subject_intercept_sigma", 5)
        sd_age = pm.HalfNormal("subject_age_sigma", 5)
        own_intercept = pm.Normal("subject_intercept", 0, sd_intercept, shape=subjects)
        own_age = pm.Normal("subject_age_beta", 0, sd_age, shape=subjects)
        level = intercept + own_intercept[subject] + by_coa * coa + by_peer * peer
        growth = by_age + own_age[subject] + by_coa_age * coa + by_peer_age * peer
        pm.Normal("outcome", level + growth * age, sigma, observed=d["alcuse"])
    return model


@posterior("phi", "kappa_log", "theta", "theta_new")
def baseball():
    """Batting averages of 18 players: a beta-binomial hierarchy, centred on (0, 1)."""
    d = data("baseball")
    with pm.Model() as model:
        phi = pm.Uniform("phi", 0.0, 1.0)
        kappa = pt.exp(pm.Exponential("kappa_log", 1.5))
        theta = pm.Beta("theta", phi * kappa, (1 - phi) * kappa, shape=len(d["hits"]))
        pm.Binomial("y", n=d["at_bats"], p=theta, observed=d["hits"])
        theta_new = pm.Beta("theta_new", phi * kappa, (1 - phi) * kappa)
        pm.Binomial("y_new", n=4, p=theta_new, observed=0)
    return model
