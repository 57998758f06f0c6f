"""Peak memory of a large run over the size of its output."""

import argparse

from measure import in_new_process, report, verdict

BAR = 1.5

CODE = """
import json, resource, sys, time
import mjhmc_numba as mj
from mjhmc_numba import targets

def peak():
    factor = 1 if sys.platform == "darwin" else 1024
    return factor * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

ndim, draws, tune, chains, metric = *map(int, sys.argv[1:5]), sys.argv[5]
options = {"seed": 1, "progress": False, "metric": metric}
mj.sample(targets.standard_normal(10), draws=100, tune=100, chains=1, **options)
before = peak()
began = time.perf_counter()
result = mj.sample(
    targets.standard_normal(ndim), draws=draws, tune=tune, chains=chains, **options
)
seconds = time.perf_counter() - began
output = result.draws.nbytes + sum(values.nbytes for values in result.stats.values())
print(json.dumps([seconds, output, peak() - before]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ndim", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=1000)
    parser.add_argument("--chains", type=int, default=4)
    arguments = parser.parse_args()
    rows = []
    for metric in ("low_rank", "diag"):
        sizes = (arguments.ndim, arguments.draws, arguments.tune, arguments.chains)
        seconds, output, peak = in_new_process(CODE, *map(str, sizes), metric)
        rows.append(
            {
                "dimensions": arguments.ndim,
                "chains x draws": f"{arguments.chains} x {arguments.draws}",
                "warm-up": arguments.tune,
                "metric": metric,
                "seconds": seconds,
                "output MB": output / 1e6,
                "peak MB": peak / 1e6,
                "ratio": peak / output,
                "bar": BAR,
                "verdict": verdict(peak / output, BAR),
            }
        )
    report("memory", rows)


if __name__ == "__main__":
    main()
