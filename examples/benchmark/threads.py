"""Wall time of two chains on two cores over that of the two in sequence."""

import argparse
import os
import time

from kernel_overhead import dense_gaussian
from measure import interleaved, ratio, report, verdict

import mjhmc_numba as mj

BAR = 0.6
SETTINGS = {
    "step_size": 0.05,
    "num_steps": 5,
    "refresh_rate": 0.2,
    "draw_interval": 2.5,
    "integrator": "leapfrog",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="rounds of measurements")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one chain")
    arguments = parser.parse_args()
    target = dense_gaussian()

    def seconds(draws: int, chains: int, cores: int) -> float:
        began = time.perf_counter()
        mj.sample(
            target,
            draws=draws,
            tune=0,
            chains=chains,
            cores=cores,
            seed=1,
            progress=False,
            **SETTINGS,
        )
        return time.perf_counter() - began

    seconds(10, 1, 1)
    draws = max(int(1000 * arguments.seconds / seconds(1000, 1, 1)), 100)
    costs = interleaved(
        {
            "sequence": lambda: seconds(draws, 2, 1),
            "together": lambda: seconds(draws, 2, 2),
        },
        arguments.repeats,
    )
    value = ratio(costs, "together", "sequence")
    report(
        "threads",
        [
            {
                "cores": os.cpu_count(),
                "load": os.getloadavg()[0],
                "in sequence s": float(sorted(costs["sequence"])[len(costs["sequence"]) // 2]),
                "on two cores s": float(sorted(costs["together"])[len(costs["together"]) // 2]),
                "ratio": value,
                "bar": BAR,
                "verdict": verdict(value, BAR),
            }
        ],
    )


if __name__ == "__main__":
    main()
