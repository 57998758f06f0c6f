"""The native path beside nutpie on PyMC models: time per gradient, and time to the first draw.

    python pymc_speed.py --bench DIR [--models a,b]      # the PyMC models of a folder
    python pymc_speed.py --bench DIR --what startup

Time per gradient: whole runs of one chain on one thread, warm-up included, in turn; wall time over
gradients, so that all that a sampler does between gradients counts. The bar is for models that are
not small. Start-up: fresh processes that
build the model, compile it and make one draw, with the kernel in its cache; for "new" PyTensor's
cache has not seen the model, for "again" the same script has run before.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import problems
from measure import interleaved, ratio, report, verdict

GRADIENT_BAR, STARTUP_BAR, AGAIN_BAR = 1.1, 1.0, 0.5
SMALL = 10.0  # microseconds of nutpie's gradient below which a model is small and has no bar
DRAWS, TUNE = 1000, 1000

STARTUP = """
import sys, time, warnings
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import problems
from pathlib import Path
warnings.simplefilter("ignore")
model = problems.bench_models(Path(sys.argv[2]))[sys.argv[3]]()
if sys.argv[4] == "nutpie":
    import nutpie
    began = time.perf_counter()
    compiled = nutpie.compile_pymc_model(model, backend="numba")
    nutpie.sample(compiled, draws=1, tune=1, chains=1, cores=1, seed=1, progress_bar=False)
else:
    from mjhmc_numba.pymc import compile
    from mjhmc_numba.process import Process
    Process.compile_kernel()
    began = time.perf_counter()
    compile(model).sample(draws=1, tune=1, chains=1, cores=1, random_seed=1, progressbar=False)
print(time.perf_counter() - began)
"""


def time_mjhmc(compiled) -> float:
    """Seconds per gradient."""
    began = time.perf_counter()
    data = compiled.sample(
        draws=DRAWS,
        tune=TUNE,
        chains=1,
        cores=1,
        random_seed=1,
        progressbar=False,
        discard_tuned_samples=False,
        compute_convergence_checks=False,
    )
    seconds = time.perf_counter() - began
    groups = ("sample_stats", "warmup_sample_stats")
    return seconds / sum(float(data[group]["n_steps"].sum()) for group in groups)


def time_nutpie(compiled) -> float:
    """Seconds per gradient."""
    import nutpie

    began = time.perf_counter()
    data = nutpie.sample(
        compiled,
        draws=DRAWS,
        tune=TUNE,
        chains=1,
        cores=1,
        seed=1,
        progress_bar=False,
        save_warmup=True,
    )
    seconds = time.perf_counter() - began
    groups = ("sample_stats", "warmup_sample_stats")
    return seconds / sum(float(data[group]["n_steps"].sum()) for group in groups)


def gradients(name: str, bench: Path, repeats: int) -> dict:
    """A row of times per gradient."""
    from mjhmc_numba.pymc import compile as compile_model

    problem = problems.load(name, bench)
    ours, theirs = compile_model(problem.model), problem.nutpie_model[0]
    costs = interleaved(
        {"mjhmc": lambda: time_mjhmc(ours), "nutpie": lambda: time_nutpie(theirs)}, repeats
    )
    value = ratio(costs, "mjhmc", "nutpie")
    theirs_us = 1e6 * statistics.median(costs["nutpie"])
    bar = GRADIENT_BAR if theirs_us >= SMALL else None
    return {
        "model": name,
        "dimensions": problem.dim,
        "mjhmc us": 1e6 * statistics.median(costs["mjhmc"]),
        "nutpie us": theirs_us,
        "ratio": value,
        "bar": bar,
        "verdict": verdict(value, bar),
        "load": os.getloadavg()[0],
    }


def first_draw(name: str, bench: Path, sampler: str, caches: Path) -> float:
    """Seconds from the model to its first draw, in a new process with caches in a folder."""
    code = [sys.executable, "-c", STARTUP, str(Path(__file__).parent), str(bench.resolve()), name]
    flags = f"{os.environ.get('PYTENSOR_FLAGS', '')},base_compiledir={caches}".lstrip(",")
    environment = os.environ | {"PYTENSOR_FLAGS": flags, "NUMBA_CACHE_DIR": str(caches / "numba")}
    done = subprocess.run(
        [*code, sampler], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.split()[-1])


def startup(name: str, bench: Path, repeats: int) -> dict:
    """A row of start-up times."""
    costs: dict[str, list[float]] = {}
    for _ in range(repeats):
        for sampler in ("mjhmc", "nutpie"):
            with tempfile.TemporaryDirectory() as caches:
                for run in ("new", "again"):
                    seconds = first_draw(name, bench, sampler, Path(caches))
                    costs.setdefault(f"{sampler} {run}", []).append(seconds)
    new, again = ratio(costs, "mjhmc new", "nutpie new"), ratio(costs, "mjhmc again", "mjhmc new")
    met = new <= STARTUP_BAR and again <= AGAIN_BAR
    return {
        "model": name,
        **{f"{what} s": statistics.median(values) for what, values in costs.items()},
        "new: mjhmc / nutpie": new,
        "bar": STARTUP_BAR,
        "mjhmc: again / new": again,
        "its bar": AGAIN_BAR,
        "verdict": "met" if met else "NOT MET",
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", type=Path, required=True, help="folder of PyMC models")
    parser.add_argument("--models", help="names, separated by commas; all if not given")
    parser.add_argument("--what", choices=["gradients", "startup"], help="both if not given")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of measurements")
    arguments = parser.parse_args()
    bench = arguments.bench
    models = arguments.models.split(",") if arguments.models else problems.names(bench)
    if arguments.what != "startup":
        report("pymc_gradients", [gradients(name, bench, arguments.repeats) for name in models])
    if arguments.what != "gradients":
        report("pymc_startup", [startup(name, bench, arguments.repeats) for name in models])


if __name__ == "__main__":
    main()
