"""Driving step methods: by PyMC, or draw by draw without its traces and their compilation."""

import numpy as np
import pymc as pm
import pytest
from pymc.sampling import mcmc
from pymc.step_methods.compound import CompoundStep

from mjhmc_numba.pymc import MJHMC

# Marks for what others warn of, and nobody here can help.
OTHERS_WARN = [
    # PyTensor from pip says so when it compiles a matrix product.
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
    # Python 3.12 on a fork in a process with threads, such as those of the progress bars.
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]
# Whose STEP_METHODS `pm.sample` assigns from: the module's in PyMC 6, the package's in PyMC 5.
OWNER_OF_LIST = mcmc if "STEP_METHODS" in vars(mcmc) else pm
QUIET = {"progressbar": False, "compute_convergence_checks": False}
SMALL = {"draws": 25, "tune": 40, "chains": 3, "random_seed": 11} | QUIET
FIXED = {"step_size": 0.5, "num_steps": 1, "refresh_rate": 0.25, "draw_interval": 2.0}


def begin(step, seed, tune, draws=0):
    """What PyMC does with a step before a chain: 5 and 6 have another hook each."""
    rng = np.random.default_rng(seed)
    if hasattr(CompoundStep, "setup_chain"):
        step.setup_chain(rng, tune, draws)
    else:
        step.set_rng(rng)


def run(step, point, draws, tune=0):
    """Points and statistics of some draws, and where the chain is then."""
    points, stats = [], []
    for k in range(tune + draws):
        if k == tune:
            step.stop_tuning()
        point, made = step.step(point)
        if k >= tune:
            points.append(point)
            stats.append(made)
    return points, stats


def chain(step, point, seed, draws, tune):
    """A whole chain: values by name, (draw, ...)."""
    begin(step, seed, tune, draws)
    points, _ = run(step, point, draws, tune)
    return {name: np.stack([p[name] for p in points]) for name in points[0]}


def vectors(points):
    """All variables of points, one row each."""
    return np.array([np.concatenate([np.ravel(v) for v in p.values()]) for p in points])


def sample(model, step=None, **options):
    """A short run of `pm.sample`."""
    options = {"draws": 20, "tune": 30, "chains": 2, "cores": 1, "random_seed": 5} | QUIET | options
    with model:
        return pm.sample(step=MJHMC() if step is None else step, **options)
