"""Wall time of two chains on two cores over that of the two in sequence."""

import argparse
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from kernel_overhead import bare_calls, dense_gaussian
from measure import interleaved, ratio, report, verdict

import mjhmc_numba as mj
from mjhmc_numba.density import Target

BAR = 0.6
SETTINGS = {"step_size": 0.1, "num_steps": 5, "refresh_rate": 0.2, "integrator": "leapfrog"}
DRAWS = 1000


def seconds_of_chains(target: Target, draw_interval: float, chains: int, cores: int) -> float:
    run = {"draws": DRAWS, "chains": chains, "cores": cores, "tune": 0, "seed": 1}
    began = time.perf_counter()
    mj.sample(target, progress=False, draw_interval=draw_interval, **run, **SETTINGS)
    return time.perf_counter() - began


def seconds_of_calls(target: Target, calls: int, workers: int) -> float:
    """Two loops of bare calls: what the machine has to give at the time."""

    def loop(_):
        d = target.ndim
        bare_calls(target.address, np.ones((1, d)), np.empty(d), np.empty(1), target.table, calls)

    began = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(loop, range(2)))
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="rounds of measurements")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one chain")
    arguments = parser.parse_args()
    target = dense_gaussian()
    seconds_of_chains(target, 5.0, 1, 1)  # compiles
    seconds_of_calls(target, 10, 1)
    interval = max(20.0 * arguments.seconds / seconds_of_chains(target, 20.0, 1, 1), 5.0)
    calls = int(2e4 * arguments.seconds / seconds_of_calls(target, 10_000, 1))
    costs = interleaved(
        {
            "sequence": lambda: seconds_of_chains(target, interval, 2, 1),
            "together": lambda: seconds_of_chains(target, interval, 2, 2),
            "bare sequence": lambda: seconds_of_calls(target, calls, 1),
            "bare together": lambda: seconds_of_calls(target, calls, 2),
        },
        arguments.repeats,
    )
    rows = []
    for what, name, bar in (("two chains", "", BAR), ("two loops of bare calls", "bare ", None)):
        value = ratio(costs, f"{name}together", f"{name}sequence")
        rows.append(
            {
                "what": what,
                "in sequence s": statistics.median(costs[f"{name}sequence"]),
                "on two cores s": statistics.median(costs[f"{name}together"]),
                "ratio": value,
                "bar": bar,
                "verdict": verdict(value, bar),
                "load": os.getloadavg()[0],
            }
        )
    report("threads", rows)


if __name__ == "__main__":
    main()
