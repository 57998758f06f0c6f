"""The calls of the soak: both ways to sample, and what goes wrong on the way.

Each is a function of a random generator, which decides what varies. A call that does not end as it
should raises.
"""

from __future__ import annotations

import hashlib
import math
import os
import signal
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pymc as pm
from numba import njit

import mjhmc_numba as mj
import mjhmc_numba.pymc as mp

FIXED = {"step_size": 0.5, "num_steps": 2, "refresh_rate": 0.3, "draw_interval": 1.5, "tune": 0}
QUIET = {"progress": False}
PYMC_QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
SHORT = {"draws": 200, "tune": 200, "chains": 2}


@njit(nogil=True)
def density(x, grad, rounds):
    """X - e^x in each dimension, and some work that is thrown away."""
    wasted = 0.0
    for k in range(rounds):
        wasted += math.sin(k * x[0])
    total = 1e-300 * wasted
    for j in range(x.size):
        grad[j] = 1.0 - math.exp(x[j])
        total += x[j] - math.exp(x[j])
    return total


@njit
def raises(x, grad, limit):
    if abs(x[0]) > limit:
        raise ValueError("the pump is dry")
    grad[:] = -x
    return -0.5 * np.sum(x * x)


def in_python(x):
    return -0.5 * x @ x, -x


@cache
def model() -> mp.CompiledModel:
    """A hierarchy of few groups, whose data can be changed."""
    with pm.Model() as built:
        mu = pm.Normal("mu", 0, 2)
        tau = pm.HalfNormal("tau", 1)
        theta = pm.Normal("theta", mu, tau, shape=5)
        pm.Deterministic("range", theta.max() - theta.min())
        pm.Normal("y", theta, 1.0, observed=pm.Data("seen", np.arange(5.0)))
    return mp.compile(built)


# ------------------------------------------------------------------- the same bits


def digest() -> str:
    """Of all draws of three runs that should never change."""
    fixed = mj.sample(density, ndim=3, args=(5,), seed=1, draws=300, chains=2, **FIXED, **QUIET)
    tuned = mj.sample(density, ndim=3, args=(5,), seed=2, **SHORT, **QUIET)
    posterior = model().sample(random_seed=3, **SHORT, **PYMC_QUIET)["posterior"]
    values = [fixed.draws, tuned.draws, *(posterior[v].values for v in sorted(posterior.data_vars))]
    return hashlib.sha256(b"".join(np.ascontiguousarray(v).tobytes() for v in values)).hexdigest()


# ------------------------------------------------------------------------ standalone


def standalone(rng):
    seed = int(rng.integers(2**31))
    result = mj.sample(
        density, ndim=int(rng.integers(1, 30)), args=(5,), seed=seed, **SHORT, **QUIET
    )
    result.to_arviz()


def python_density(rng):
    mj.sample(
        in_python, ndim=2, draws=50, chains=2, seed=int(rng.integers(2**31)), **FIXED, **QUIET
    )


def jump_record(rng):
    seed = int(rng.integers(2**31))
    mj.sample(
        density, ndim=2, args=(5,), seed=seed, draws=200, chains=2, jumps=True, **FIXED, **QUIET
    )


def extended(rng):
    seed = int(rng.integers(2**31))
    first = mj.sample(density, ndim=2, args=(5,), seed=seed, draws=50, chains=2, **FIXED, **QUIET)
    assert first.extend(100).draws.shape == (2, 150, 2)
    mj.sample(density, args=(6,), warm_start=first, draws=50, tune=20, chains=2, ndim=2, **QUIET)


def checkpointed(rng):
    options = {"ndim": 2, "args": (5,), "seed": int(rng.integers(2**31)), "chains": 2, **SHORT}
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "checkpoint"
        mj.sample(density, checkpoint=kept, every=0, **options, **QUIET)
        again = mj.sample(density, checkpoint=kept, every=0, **options, **QUIET)
    whole = mj.sample(density, **options, **QUIET)
    assert np.array_equal(again.draws, whole.draws)


def stored(rng):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        seed = int(rng.integers(2**31))
        mj.sample(density, ndim=2, args=(5,), seed=seed, store=path, **SHORT, **QUIET)
        mj.from_store(path)


def raised_by_the_density(rng):
    raised = None
    try:
        seed = int(rng.integers(2**31))
        mj.sample(raises, [0.0], args=(3.2,), draws=10**5, chains=2, seed=seed, **FIXED, **QUIET)
    except ValueError as error:
        raised = error
    assert "pump" in str(raised)
    # Where the first draw raises there is nothing to keep.
    assert raised.result is None or raised.result.draws.shape[1] > 0


def refused(rng):
    for bad in ({"step_size": -1}, {"draws": "many"}, {"ndim": 0}, {"metric": np.ones(7)}):
        try:
            mj.sample(density, **({"ndim": 2, "args": (5,)} | bad), **QUIET)
        except (mj.SettingsError, mj.TargetError):
            continue
        raise AssertionError(f"{bad} was not refused")


def compiled_anew(rng):
    """A density that nobody has seen before."""
    factor = float(rng.normal())

    @njit
    def new(x, grad):
        grad[:] = -x
        return -0.5 * np.sum(x * x) + factor

    mj.sample(new, ndim=2, seed=1, draws=20, chains=1, **FIXED, **QUIET)


# ---------------------------------------------------------------- threads and executors


def in_threads(rng):
    """Three runs at once, each as it is alone."""
    seeds = [int(s) for s in rng.integers(2**31, size=3)]
    alone, together = {}, {}

    def work(into, seed):
        run = mj.sample(
            density, ndim=3, args=(5,), seed=seed, draws=200, chains=2, **FIXED, **QUIET
        )
        into[seed] = run.draws

    threads = [threading.Thread(target=work, args=(together, seed)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in seeds:
        work(alone, seed)
    assert all(np.array_equal(alone[seed], together[seed]) for seed in seeds)


def thread_pool(rng):
    with ThreadPoolExecutor(2) as pool:
        seed = int(rng.integers(2**31))
        mj.sample(density, ndim=3, args=(5,), seed=seed, executor=pool, **SHORT, **QUIET)
        model().sample(random_seed=seed, executor=pool, **SHORT, **PYMC_QUIET)


def process_pool(rng):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        seed = int(rng.integers(2**31))
        options = {"ndim": 3, "args": (5,), "seed": seed, **SHORT, **QUIET}
        away = mj.sample(density, executor=pool, **options)
    assert np.array_equal(away.draws, mj.sample(density, **options).draws)


# ------------------------------------------------------------------------- interrupts


def _pressed(rng, longest, run):
    """Run, and press Ctrl-C meanwhile; what comes back is whole."""
    timer = threading.Timer(rng.uniform(0, longest), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        run()
        timer.join()  # a press after the end is met here
        time.sleep(0.05)
    except KeyboardInterrupt:
        timer.join()


def pressed(rng):
    def run():
        result = mj.sample(density, ndim=3, args=(1000,), draws=5000, tune=500, seed=1, **QUIET)
        assert np.isfinite(result.draws).all()

    _pressed(rng, 1.5, run)


def pressed_model(rng):
    def run():
        data = model().sample(5000, 500, random_seed=1, **PYMC_QUIET)
        assert "posterior" not in data or np.isfinite(data["posterior"]["mu"].values).all()

    _pressed(rng, 1.5, run)


# ------------------------------------------------------------------------------ PyMC


def sampled_model(rng):
    model().sample(random_seed=int(rng.integers(2**31)), **SHORT, **PYMC_QUIET)


def other_data(rng):
    compiled = model().with_data(seen=rng.normal(size=5))
    compiled.sample(random_seed=1, **SHORT, **PYMC_QUIET)


def mapped(rng):
    datasets = [{"seen": rng.normal(size=5)} for _ in range(4)]
    model().map(datasets, 100, 100, 1, random_seed=1, progressbar=False)


def in_background(rng):
    sampling = model().sample(10**6, 200, random_seed=1, chains=2, blocking=False, **PYMC_QUIET)
    time.sleep(rng.uniform(0, 0.3))
    sampling.abort()


def refused_model(rng):
    for bad in ({"initvals": {"zz": 1}}, {"random_seed": "abc"}, {"initvals": {"mu": math.nan}}):
        try:
            model().sample(**SHORT, **bad, **PYMC_QUIET)
        except (mj.SettingsError, mj.TargetError, KeyError):
            continue
        raise AssertionError(f"{bad} was not refused")


def step_method(rng):
    with model().density.model:
        pm.sample(
            50,
            tune=50,
            chains=1,
            cores=1,
            step=mp.MJHMC(),
            random_seed=int(rng.integers(2**31)),
            progressbar=False,
            compute_convergence_checks=False,
        )


OFTEN = (
    standalone,
    python_density,
    jump_record,
    extended,
    checkpointed,
    stored,
    raised_by_the_density,
    refused,
    in_threads,
    thread_pool,
    pressed,
    pressed_model,
    sampled_model,
    other_data,
    mapped,
    in_background,
    refused_model,
)
# Each of these costs seconds; and machine code, once made, is Numba's to keep.
SELDOM = (process_pool, step_method, compiled_anew)


# ------------------------------------------------- the same compiled without us, for comparison


def numba_alone(rng):
    """The density of `compiled_anew`, compiled and called by Numba alone."""
    factor = float(rng.normal())

    @njit
    def new(x, grad):
        grad[:] = -x
        return -0.5 * np.sum(x * x) + factor

    new(np.zeros(2), np.zeros(2))


def pytensor_alone(rng):
    """The log density of the model and its gradient, compiled by PyMC and PyTensor alone."""
    built = model().density.model
    function = built.logp_dlogp_function(ravel_inputs=True, mode="NUMBA")
    function.set_extra_values({})
    function(np.zeros(model().density.ndim))


COMPILE = (compiled_anew, numba_alone, step_method, pytensor_alone)
