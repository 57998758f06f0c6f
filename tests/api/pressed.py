"""A program that is interrupted at any moment: each line is what became of one run.

    python -m tests.api.pressed standalone|pymc

It says "begin", or "begin compiling", runs, and says what came of it; then it waits for a line.
"""

import faulthandler
import json
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from numba import njit

import mjhmc_numba as mj


def new_density():
    """One that is compiled anew, and takes its time."""

    @njit
    def density(x, grad, rounds):
        wasted = 0.0
        for k in range(rounds):
            wasted += np.sin(k * x[0])
        for j in range(x.size):
            grad[j] = 1.0 - np.exp(x[j])
        return np.sum(x - np.exp(x)) + 1e-300 * wasted

    return density


def compiles(count):
    return count % 5 == 1


def standalone(count, keep_warmup, cores):
    """Compiles a density, now and then; warms up, draws, and looks at the draws."""
    if compiles(count):
        standalone.density = new_density()
    result = mj.sample(
        standalone.density,
        ndim=3,
        args=(1000,),
        draws=3000,
        tune=1000,
        chains=4,
        cores=cores,
        keep_warmup=keep_warmup,
        progress=False,
        seed=1,
    )
    arrays = [result.draws, *result.stats.values()]
    if result.warmup_draws is not None:
        arrays.append(result.warmup_draws)
    return arrays, result.draws.shape


def with_pymc(count, keep_warmup, cores):
    """The same of a model."""
    import pymc as pm

    import mjhmc_numba.pymc

    with pm.Model():
        x = pm.Normal("x", 0, 1 + (count - 1) // 5, shape=50)
        pm.Deterministic("y", pm.math.exp(x))
        data = mjhmc_numba.pymc.sample(
            draws=6000,
            chains=4,
            cores=cores,
            progressbar=False,
            random_seed=1,
            discard_tuned_samples=not keep_warmup,
        )
    groups = [name for name in ("posterior", "warmup_posterior") if name in data]
    arrays = [data[name][v].values for name in groups for v in ("x", "y")]
    return arrays, data["posterior"]["x"].shape if "posterior" in data else [0, 0]


def clocks():
    """Now, CPU seconds of this process, and seconds that its main thread has waited for a CPU."""
    waited = int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    return {"ended": time.monotonic(), "cpu": time.process_time(), "queued": waited}


def wait_for_compilers():
    """One that was left to itself ends a `catch_warnings` of Numba's; that is the whole process's
    and would take the warnings of the next run.
    """
    for thread in threading.enumerate():
        if thread.name == "mjhmc_numba compiler":
            thread.join()


def main():
    """Run until there is no further line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    faulthandler.register(signal.SIGUSR1)  # says where all threads are
    run = {"standalone": standalone, "pymc": with_pymc}[sys.argv[1]]
    if run is with_pymc:
        import mjhmc_numba.pymc  # noqa: F401 (an import that is interrupted leaves half a module)
    count = 0
    while True:
        count += 1
        report, ended = {}, {}
        wait_for_compilers()
        try:
            print("begin compiling" if compiles(count) else "begin", flush=True)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    arrays, shape = run(count, count % 2 == 0, cores=1 + count % 2)
                finally:
                    ended = clocks()
            said = [str(w.message) for w in caught if "Interrupted" in str(w.message)]
            finite = all(np.isfinite(a).all() for a in arrays if a.dtype.kind == "f")
            report = {"shape": list(shape), "finite": finite, "said": said}
        except KeyboardInterrupt:
            report = {"raised": True}
        try:
            print(json.dumps(report | (ended or clocks())), flush=True)
            if not sys.stdin.readline():
                return
        except KeyboardInterrupt:
            sys.stdin.readline()


if __name__ == "__main__":
    main()
