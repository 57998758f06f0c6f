"""Time of a PyMC draw around the kernel, against PyMC's own for a step that does nothing.

    python examples/benchmark/pymc_overhead.py

Three things are timed in turn, several times over, so that a busy machine slows all of them:
`pm.sample` with a step that returns its point, `pm.sample` with MJHMC, and the same number of
draws in the kernel alone. The overhead of a draw is the second less the other two.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep

from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.process import Process
from mjhmc_numba.pymc import MJHMC

LIMIT = 20.0  # microseconds
FIXED = {"step_size": 0.5, "num_steps": 1, "refresh_rate": 0.25, "draw_interval": 2.0}


class Idle(BlockedStep):
    """A step that returns the point it was given, with one statistic."""

    name = "idle"
    stats_dtypes_shapes = {"tune": (bool, [])}

    def __init__(self, vars=None, model=None, **kwargs):  # noqa: A002
        self.vars = pm.modelcontext(model).value_vars
        self.rng = None
        self.tune = True

    def step(self, point):
        return dict(point), [{"tune": self.tune}]

    @property
    def sampling_state(self):
        return None

    @sampling_state.setter
    def sampling_state(self, state):
        pass

    def set_rng(self, rng):
        self.rng = rng

    def setup_chain(self, rng, tune, draws):
        self.rng = rng


def eight_schools():
    effect = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, shape=8)
        theta = pm.Deterministic("theta", mu + tau * z)
        pm.Normal("effect", theta, error, observed=effect)
    return model


def seconds_per_draw(step, draws: int) -> float:
    """The median, which draws that were interrupted by another program do not move."""
    times = []
    pm.sample(
        draws,
        tune=0,
        chains=1,
        cores=1,
        step=step,
        random_seed=1,
        callback=lambda trace, draw: times.append(time.perf_counter()),
        progressbar=False,
        compute_convergence_checks=False,
    )
    return float(np.median(np.diff(times)))


def seconds_in_kernel(step: MJHMC, draws: int) -> float:
    """The step's process, a hundred draws at a time; again the median."""
    rows = np.empty((100, step.density.ndim)), np.empty((100, len(STAT_NAMES)))
    times = []
    for _ in range(draws // 100):
        started = time.perf_counter()
        step._process.run(*rows)
        times.append(time.perf_counter() - started)
    return statistics.median(times) / 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    Process.compile_kernel()
    rows = []
    with eight_schools():
        idle, step = Idle(), MJHMC(**FIXED)
        for repeat in range(options.repeats + 1):
            row = (
                1e6 * seconds_per_draw(idle, options.draws),
                1e6 * seconds_per_draw(step, options.draws),
                1e6 * seconds_in_kernel(step, options.draws),
            )
            if repeat > 0:  # the first warms up
                rows.append((*row, row[1] - row[2] - row[0]))
    names = ("idle step", "MJHMC", "kernel alone", "overhead")
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        print(f"{name:>14}: {statistics.median(column):7.1f} us  (least {min(column):.1f})")
    print(f"{'limit':>14}: {LIMIT:7.1f} us")


if __name__ == "__main__":
    main()
