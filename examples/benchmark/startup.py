"""How soon a new process samples a new density, with the kernel in the cache."""

import argparse
import os
import statistics

from measure import in_new_process, report, verdict

IMPORT_BAR, SAMPLING_BAR = 0.5, 2.0

# The constant makes the density new in each process; nothing of it can have been cached.
CODE = """
import json, sys, time
from time import perf_counter, process_time
began = perf_counter()
import numba
numba_seconds = perf_counter() - began
began, cpu_began = perf_counter(), process_time()
import mjhmc_numba
import_seconds, import_cpu = perf_counter() - began, process_time() - cpu_began
constant = float(sys.argv[1])

@numba.njit
def by_element(x, grad):
    logp = 0.0
    for j in range(x.size):
        grad[j] = -constant * x[j]
        logp -= 0.5 * constant * x[j] * x[j]
    return logp

@numba.njit
def by_slice(x, grad):
    grad[:] = -constant * x
    return -0.5 * constant * (x @ x)

density = globals()[sys.argv[2]]
mjhmc_numba.sample(density, ndim=10, draws=1, tune=10, chains=1, seed=1, progress=False)
sampling_seconds, sampling_cpu = perf_counter() - began, process_time() - cpu_began
from mjhmc_numba.kernel import chain
print(json.dumps({
    "numba": numba_seconds, "import": import_seconds, "import cpu": import_cpu,
    "sampling": sampling_seconds, "sampling cpu": sampling_cpu,
    "missed": sum(chain.run_ticks.stats.cache_misses.values()),
}))
"""


def medians(density: str, repeats: int) -> dict[str, float]:
    """Medians over fresh processes with a warm cache."""
    runs = [in_new_process(CODE, str(1.0 + 0.01 * k), density) for k in range(repeats)]
    if any(run["missed"] for run in runs):
        raise RuntimeError("The kernel was compiled again: did its sources change meanwhile?")
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="processes that are measured")
    repeats = parser.parse_args().repeats
    in_new_process(CODE, "1.0", "by_element")  # fills the cache
    element, by_slice = medians("by_element", repeats), medians("by_slice", repeats)

    def row(what, seconds, cpu_seconds, bar):
        return {
            "what": what,
            "seconds": seconds,
            "CPU seconds": cpu_seconds,
            "bar": bar,
            "verdict": verdict(seconds, bar),
            "load": os.getloadavg()[0],
        }

    first = "import mjhmc_numba to the first draw of a new density"
    report(
        "startup",
        [
            row("import numba", element["numba"], None, None),
            row(
                "import mjhmc_numba after it", element["import"], element["import cpu"], IMPORT_BAR
            ),
            row(first, element["sampling"], element["sampling cpu"], SAMPLING_BAR),
            row(
                f"{first} with grad[:] = ...", by_slice["sampling"], by_slice["sampling cpu"], None
            ),
        ],
    )


if __name__ == "__main__":
    main()
