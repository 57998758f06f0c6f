"""Time of the kernel per gradient over that of the bare call of the density.

The bare call goes through the same address, from a compiled loop, at draws of the same chain:
at one point alone every branch would be foreseen. The kernel runs with what a warm-up found, so
that momentum draws, energies, copies and the statistics of a draw are shared among as many
gradients as in real life. CPU time of the thread, so that other programs on the machine matter
little.
"""

import argparse
import math
import time

import numpy as np
from measure import interleaved, ratio, report, verdict
from numba import njit

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.density import Target
from mjhmc_numba.kernel.density import call_density
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.process import Process, random_words

SECONDS = 0.2  # of one measurement


@njit(nogil=True)
def bare_calls(state, points, grad, logp, calls):
    """Call the density so many times, at one point after the other."""
    total = 0.0
    for k in range(calls):
        x = points[k % len(points)]
        call_density(state[0], x.ctypes.data, grad.ctypes.data, logp.ctypes.data)
        total += logp[0]
    return total


@njit(fastmath={"reassoc", "contract", "nsz", "arcp"})
def logistic_regression(x, grad, design, successes):
    """Normal prior on the coefficients x; binary outcomes."""
    logp = 0.0
    for j in range(x.size):
        grad[j] = -x[j]
        logp -= 0.5 * x[j] * x[j]
    for i in range(design.shape[0]):
        eta = 0.0
        for j in range(x.size):
            eta += design[i, j] * x[j]
        weight = math.exp(-abs(eta))
        logp += successes[i] * eta - max(eta, 0.0) - math.log1p(weight)
        probability = (1.0 if eta > 0 else weight) / (1.0 + weight)
        for j in range(x.size):
            grad[j] += (successes[i] - probability) * design[i, j]
    return logp


def dense_gaussian() -> Target:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(100, 100))
    return mj.as_target(targets.correlated_gaussian(root @ root.T / 100 + 0.1 * np.eye(100)))


def diagonal_gaussian() -> Target:
    return mj.as_target(targets.gaussian(np.logspace(-1, 0, 100)))


def small_regression(rows: int = 30) -> Target:
    rng = np.random.default_rng(2)
    design = rng.normal(size=(rows, 10))
    successes = (rng.uniform(size=rows) < 0.5).astype(float)
    return mj.as_target(logistic_regression, 10, (design, successes))


# Target, and the bar for its ratio; the cheap one has none: its gradient costs less than the
# arithmetic of any integrator.
CASES = {
    "dense Gaussian, d = 100": (dense_gaussian, 1.10),
    "diagonal Gaussian, d = 100": (diagonal_gaussian, None),
    "logistic regression, d = 10": (small_regression, 1.3),
}


# What the warm-up may choose, and whether the bar applies. A low-rank metric has arithmetic of its
# own, and buys fewer gradients with it.
PLANS = {
    "leapfrog, 5 steps per rung": (
        {
            "integrator": "leapfrog",
            "metric": "diag",
            "num_steps": 5,
            "refresh_rate": 1 / 6,
            "draw_interval": 3.0,
        },
        True,
    ),
    "all tuned, diagonal metric": ({"metric": "diag"}, True),
    "all tuned, low-rank metric": ({"metric": "low_rank"}, False),
}


def time_bare(process: Process, points: np.ndarray, calls: int) -> float:
    """Seconds of CPU time per call."""
    grad, logp = np.empty(points.shape[1]), np.empty(1)
    began = time.thread_time()
    bare_calls(process.state, points, grad, logp, calls)
    return (time.thread_time() - began) / calls


def time_kernel(process: Process, draws: np.ndarray, stats: np.ndarray) -> float:
    """Seconds of CPU time per gradient."""
    began = time.thread_time()
    process.run(draws, stats)
    return (time.thread_time() - began) / stats[:, STAT_NAMES.index("n_gradients")].sum()


def count(stats: np.ndarray, name: str) -> float:
    return stats[:, STAT_NAMES.index(name)].sum()


def tuned_process(target: Target, **options) -> Process:
    """A process that runs with what a warm-up found."""
    run = {"seed": 3, "chains": 1, "progress": False, "tune": 500, "draws": 10}
    tuned = mj.sample(target, **run, **options).tuned[0]
    words = random_words(np.random.SeedSequence(4))
    process = Process(target, mj.Settings(**options), tuned, words)
    process.start(np.zeros(target.ndim))
    return process


def measure(name: str, plan: str, repeats: int) -> dict:
    make, bar = CASES[name]
    options, judged = PLANS[plan]
    bar = bar if judged else None
    target = make()
    process = tuned_process(target, **options)
    draws, stats = np.empty((200, target.ndim)), np.empty((200, len(STAT_NAMES)))
    seconds = time_kernel(process, draws, stats) * count(stats, "n_gradients")
    calls = int(SECONDS / time_bare(process, draws, 1000))
    rows = max(int(200 * SECONDS / seconds), 10)
    draws, stats = np.empty((rows, target.ndim)), np.empty((rows, len(STAT_NAMES)))
    costs = interleaved(
        {
            "kernel": lambda: time_kernel(process, draws, stats),
            "bare": lambda: time_bare(process, draws[:1000], calls),
        },
        repeats,
    )
    value = ratio(costs, "kernel", "bare")
    return {
        "target": name,
        "settings": plan,
        "rank": process.tuned.metric.rank,
        "integrator": process.tuned.integrator,
        "gradients per refresh": float(count(stats, "n_gradients") / max(count(stats, "n_R"), 1)),
        "bare us": 1e6 * float(np.median(costs["bare"])),
        "kernel us": 1e6 * float(np.median(costs["kernel"])),
        "ratio": value,
        "bar": bar,
        "verdict": verdict(value, bar),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="rounds of measurements")
    arguments = parser.parse_args()
    rows = [measure(name, plan, arguments.repeats) for name in CASES for plan in PLANS]
    report("kernel_overhead", rows)


if __name__ == "__main__":
    main()
