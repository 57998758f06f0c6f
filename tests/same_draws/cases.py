"""Runs whose draws are recorded: seeds x models x paths, each a function that returns arrays.

A change that moves code without changing the method leaves every one of them as it is, bit for
bit. They are short: a chain forgets nothing, so one operation in another order shows at once.
"""

import os

# PyTensor's machine code rounds differently when it is loaded from a cache: always compile.
os.environ["PYTENSOR_FLAGS"] = "numba__cache=False," + os.environ.get("PYTENSOR_FLAGS", "")

import warnings
from functools import cache, partial

import numpy as np
import pymc as pm

import mjhmc_numba
import mjhmc_numba.pymc
from mjhmc_numba import Settings, targets
from tests.integrations import models

SEEDS = (1, 2)
SIZE = {"draws": 40, "tune": 300, "chains": 2}
FIXED = {"step_size": 0.5, "num_steps": 2, "refresh_rate": 0.3, "draw_interval": 1.5, "tune": 0}


def centred_groups():
    """A centred hierarchy, for which the warm-up finds a reparametrisation."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfNormal("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, 4.0, observed=np.array([8.0, 3.0, -1.0, 2.0, 0.0, 1.0, 6.0, 4.0]))
    return model


def wide():
    """More dimensions than a cache line has numbers, with correlations of low rank."""
    rng = np.random.default_rng(3)
    loadings = rng.normal(size=(30, 2))
    return targets.correlated_gaussian(np.eye(30) + 8.0 * loadings @ loadings.T)


def standalone(make_target, seed, **options):
    """Draws of `mjhmc_numba.sample`, with those of the warm-up and what was spent."""
    options = SIZE | {"keep_warmup": True, "progress": False, "seed": seed} | options
    result = mjhmc_numba.sample(make_target(), **options)
    arrays = {"draws": result.draws, "warmup": result.warmup_draws}
    arrays["gradients"] = np.array([*result.gradients.values()])
    if result.jumps is not None:
        arrays |= {f"jumps_{k}": jumps["x"] for k, jumps in enumerate(result.jumps)}
        arrays |= {f"times_{k}": jumps["holding_time"] for k, jumps in enumerate(result.jumps)}
    return arrays


def native(make_model, seed, **options):
    """Draws of whole chains in native code."""
    options = SIZE | {"random_seed": seed, "progressbar": False, "cores": 1} | options
    options["discard_tuned_samples"] = False
    return _posterior(_compiled(make_model).sample(compute_convergence_checks=False, **options))


@cache
def _compiled(make_model):
    return mjhmc_numba.pymc.compile(make_model())


@cache
def _model_and_step(make_model, **options):
    with make_model() as model:
        return model, mjhmc_numba.pymc.MJHMC(**options)


def step(make_model, seed, **options):
    """Draws of the step method in `pm.sample`."""
    model, method = _model_and_step(make_model, **options)
    with model:
        data = pm.sample(
            **SIZE,
            step=method,
            random_seed=seed,
            cores=1,
            progressbar=False,
            compute_convergence_checks=False,
            discard_tuned_samples=False,
        )
    return _posterior(data)


def _posterior(data):
    groups = {"": data["posterior"], "warmup_": data["warmup_posterior"]}
    arrays = {
        f"{prefix}{name}": np.asarray(group[name].values)
        for prefix, group in groups.items()
        for name in sorted(group.data_vars)
    }
    for prefix, group in (("", "sample_stats"), ("warmup_", "warmup_sample_stats")):
        for name in ("n_steps", "energy", "lp", "step_size"):
            arrays[prefix + name] = np.asarray(data[group][name].values, dtype=float)
    return arrays


def _all():
    cases = {
        "standalone normal": partial(standalone, lambda: targets.standard_normal(5)),
        "standalone log_gamma": partial(standalone, lambda: targets.log_gamma(2.0, 3)),
        "standalone student_t": partial(standalone, lambda: targets.student_t(4.0, 6)),
        "standalone funnel": partial(standalone, lambda: targets.funnel(6, 1.5)),
        "standalone rough_well": partial(standalone, lambda: targets.rough_well(2, 4.0)),
        "standalone wide": partial(standalone, wide),
        "standalone banana": partial(standalone, lambda: targets.banana(3)),
        "standalone diag": partial(standalone, wide, metric="diag"),
        "standalone three_stage": partial(standalone, wide, integrator="three_stage"),
        "standalone partial refresh": partial(standalone, wide, refresh_alpha=0.6),
        "standalone barker": partial(standalone, wide, rates="barker", clock="poisson"),
        "standalone jumps": partial(
            standalone, lambda: targets.log_gamma(2.0, 3), rates="sqrt", jumps=True
        ),
        "standalone paper": partial(
            standalone,
            lambda: targets.log_gamma(2.0, 3),
            settings=Settings.paper(**{k: v for k, v in FIXED.items() if k != "tune"}),
            tune=0,
        ),
    }
    for name in ("gaussian", "funnel", "regression", "constrained"):
        cases[f"native {name}"] = partial(native, getattr(models, name))
    cases["native centred_groups"] = partial(native, centred_groups)
    cases["step regression"] = partial(step, models.regression)
    cases["step centred_groups"] = partial(step, centred_groups)
    cases["step mixed"] = partial(step, models.mixed, vars=("a", "b"))
    return cases


CASES = _all()


def run(name, seed):
    """The arrays of one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short runs of odd settings
        return CASES[name](seed)
