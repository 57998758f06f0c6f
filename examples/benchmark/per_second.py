"""Effective samples per gradient and per CPU second of whole runs, against nutpie and NUTS.

    python per_second.py --bench gallery [--models a,b] [--seeds 301,302]
    python per_second.py --bench gallery --samplers mjhmc --again     # ours anew, after a change
    python per_second.py --bench gallery --samplers nuts              # PyMC's, which takes long

Each model has a process of its own. There it is compiled once for each sampler, and the samplers
take turns over the seeds, so that a slow spell of the machine hits all of them. A run is what a
user calls, from the compiled model to the ArviZ object: 4 chains of 1000 + 1000 draws, one after
the other. CPU seconds are those of the process and all its threads. A first short run of each
sampler, which compiles what is compiled late, is counted beside them.

PyMC's NUTS is compiled again by each call of `pm.sample`: its CPU seconds begin with its first
draw. Nutpie's low-rank mode takes long in many dimensions, and NUTS on many models: a run is given
up after `--limit` seconds, and where its runs have taken MOST_SLOW CPU seconds a model gets no more
seeds of that sampler.

Rows go to results/per_second.csv, in the place of those with the same model, sampler and seed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for all samplers alike; before NumPy is loaded

import numpy as np
import problems
from effective import Run, score
from efficiency import text
from measure import RESULTS, keep_row, kept_rows

SAMPLERS = ("mjhmc", "nutpie", "nutpie_lowrank")  # of a call that names none
NUTS = "nuts"
SLOW = ("nutpie_lowrank", NUTS)
KEY = ("model", "sampler", "seed")
COLUMNS = [
    "folder",
    *KEY,
    "dim",
    "scored",
    "ess_bulk",
    "ess_tail",
    "ess_squares",
    "gradients_warmup",
    "gradients_draws",
    "cpu_seconds",
    "seconds",
    "compile_cpu_seconds",
    "first_cpu_seconds",
    "per_1000_draws",
    "per_1000_all",
    "squares_per_1000_draws",
    "squares_per_1000_all",
    "r_hat",
    "divergences",
    "warnings",
    "minor_chains",
    "load",
    "notes",
]
MOST_SLOW = 40.0  # CPU seconds per model, of each of them
FIRST = 20  # draws of the first short run, and of its warm-up


class Timer:
    """CPU seconds of all threads, and seconds, since it was made."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def read(self) -> dict[str, float]:
        return {
            "cpu_seconds": time.process_time() - self.cpu,
            "seconds": time.perf_counter() - self.wall,
        }


class TooSlowError(Exception):
    """A run that was given up."""


# -------------------------------------------------------------------- samplers


def compile_ours(model, options: dict) -> Callable:
    """A function of seed, draws, limit and timer that returns the ArviZ object."""
    import mjhmc_numba.pymc as mp

    compiled = mp.compile(model, progressbar=False)

    def sample(seed: int, draws: int, limit: float, timer: Timer):
        return compiled.sample(
            draws,
            draws,
            problems.CHAINS,
            random_seed=seed,
            cores=1,
            progressbar=False,
            **options,
        )

    return sample


def sample_nutpie(compiled, options: dict) -> Callable:
    """The same of nutpie; the modes share the compiled model."""
    import nutpie

    def sample(seed: int, draws: int, limit: float, timer: Timer):
        handle = nutpie.sample(
            compiled,
            draws=draws,
            tune=draws,
            chains=problems.CHAINS,
            cores=1,
            seed=seed,
            progress_bar=False,
            save_warmup=True,
            blocking=False,
            **options,
        )
        try:
            return handle.wait(timeout=limit)
        except BaseException as error:
            handle.abort()
            if isinstance(error, TimeoutError):
                raise TooSlowError from error
            raise

    return sample


def sample_nuts(model) -> Callable:
    """The same of PyMC's NUTS."""
    import pymc

    def sample(seed: int, draws: int, limit: float, timer: Timer):
        begun = False

        def look(trace, draw) -> None:
            nonlocal begun
            if not begun:
                begun = True
                timer.restart()  # what came before was compilation
            if timer.read()["seconds"] > limit:
                raise TooSlowError

        return pymc.sample(
            draws,
            tune=draws,
            chains=problems.CHAINS,
            cores=1,
            model=model,
            random_seed=seed,
            nuts_sampler="pymc",  # PyMC 6 would take nutpie where it is installed
            discard_tuned_samples=False,
            compute_convergence_checks=False,
            progressbar=False,
            callback=look,
        )

    return sample


class Compiled:
    """A model, compiled for the samplers that are asked for."""

    def __init__(self, entry):
        self.entry = entry

    @cached_property
    def for_nutpie(self):
        import nutpie

        return nutpie.compile_pymc_model(self.entry(), backend="numba")

    def sampler(self, name: str) -> Callable:
        if name == "mjhmc":
            return compile_ours(self.entry(), {})
        if name == NUTS:
            return sample_nuts(self.entry())
        import nutpie

        low_rank = problems.low_rank_options(nutpie.sample) if name == "nutpie_lowrank" else {}
        return sample_nutpie(self.for_nutpie, low_rank)


def as_run(data, var_names: list[str], warned: int, more: int = 0) -> Run:
    """The draws of an ArviZ object, and what they cost: gradients counted, and `more` for each."""
    posterior, stats = data["posterior"], data["sample_stats"]
    parts = [np.asarray(posterior[v].values, dtype=float) for v in var_names]
    if "warmup_gradients" in posterior.attrs:
        warmup = int(sum(posterior.attrs["warmup_gradients"]))
    else:
        steps = data["warmup_sample_stats"]["n_steps"].values
        warmup = int(steps.sum() + more * steps.size)
    steps = stats["n_steps"].values
    return Run(
        draws=np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2),
        logp=np.asarray(stats["lp" if "lp" in stats else "logp"].values),
        gradients={"warmup": warmup, "draws": int(steps.sum() + more * steps.size)},
        divergences=int(stats["diverging"].values.sum()),
        warnings=warned,
    )


def chosen(data) -> str:
    """What our chains run with, for people."""
    attrs = data["posterior"].attrs
    known = ("integrator", "metric_rank", "num_steps", "step_size", "refresh_alpha")
    return "; ".join(f"{k} {_short(attrs[k])}" for k in known if k in attrs)


def _short(value) -> str:
    if isinstance(value, str):
        return value.replace(", ", "/")
    return "/".join(f"{one:.2g}" for one in np.ravel(value))


# ------------------------------------------------------------------------ runs


def measured(
    sample: Callable, seed: int, limit: float, var_names: list[str], more: int = 0
) -> dict:
    """The row of a run: what it cost, what it is worth."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        timer = Timer()
        data = sample(seed, 1000, limit, timer)
        cost = timer.read()
    warned = sum("Sampling" in w.category.__name__ for w in caught)
    run = as_run(data, var_names, warned, more)
    return cost | score(run) | {"scored": run.draws.shape[2], "notes": chosen(data)}


def ready(sampler: str, model: Compiled) -> tuple[Callable, dict]:
    """The sampler of a model, compiled, and what that cost; the second mode of nutpie has it."""
    timer = Timer()
    sample = model.sampler(sampler)
    compiled, timer = timer.read()["cpu_seconds"], Timer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample(1, FIRST, 600.0, Timer())
    first = timer.read()["cpu_seconds"]
    return sample, {"compile_cpu_seconds": compiled, "first_cpu_seconds": first}


@contextmanager
def alone(path: Path):
    """Another process that writes to the same file waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def keep(path: Path, row: dict) -> None:
    shown = {column: text(row.get(column)) for column in COLUMNS}
    with alone(path):
        keep_row(path, shown, KEY)


def run_model(name: str, arguments) -> None:
    """In this process: all that is missing of a model."""
    entry = problems.bench_models(arguments.bench)[name]
    point = entry().initial_point()
    about = {"folder": arguments.bench.name, "model": name}
    about["dim"] = int(sum(np.size(value) for value in point.values()))
    missing = to_do(name, arguments)
    samplers = dict.fromkeys(sampler for _, sampler in missing)
    model = Compiled(entry)
    compiled = {sampler: ready(sampler, model) for sampler in samplers}
    spent = dict.fromkeys(samplers, 0.0)
    for seed, sampler in missing:
        if sampler in SLOW and spent[sampler] >= MOST_SLOW:
            continue
        sample, costs = compiled[sampler]
        row = about | {"sampler": sampler, "seed": str(seed)} | costs
        row["load"] = os.getloadavg()[0]
        try:
            # NUTS of PyMC evaluates the start of each trajectory again, and does not count it.
            more = 1 if sampler == NUTS else 0
            row |= measured(sample, seed, arguments.limit, entry.var_names, more)
        except TooSlowError:
            row["notes"] = f"given up after {arguments.limit:.0f} s"
            row["cpu_seconds"] = arguments.limit
        spent[sampler] += row["cpu_seconds"]
        keep(arguments.out, row)
        shown = {k: text(row.get(k)) for k in ("per_1000_draws", "r_hat", "cpu_seconds", "notes")}
        print(name, sampler, seed, shown, flush=True)


def to_do(name: str, arguments) -> list[tuple[int, str]]:
    """Seeds and samplers that have no row, the samplers in turn."""
    done = {tuple(row[k] for k in KEY) for row in kept_rows(arguments.out)}
    return [
        (seed, sampler)
        for seed in arguments.seeds
        for sampler in arguments.samplers
        if arguments.again or (name, sampler, str(seed)) not in done
    ]


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_folder(parser)
    parser.add_argument("--models", help="names, separated by commas; all if not given")
    parser.add_argument("--samplers", default=",".join(SAMPLERS), help="separated by commas")
    parser.add_argument("--seeds", default="301,302,303,304,305")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of a run of another")
    parser.add_argument("--out", type=Path, default=RESULTS / "per_second.csv")
    parser.add_argument("--again", action="store_true", help="run those that have rows, too")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    arguments.seeds = [int(seed) for seed in arguments.seeds.split(",")]
    arguments.samplers = arguments.samplers.split(",")
    unknown = set(arguments.samplers) - {*SAMPLERS, NUTS}
    if unknown:
        known = ", ".join([*SAMPLERS, NUTS])
        parser.error(f"unknown samplers: {', '.join(sorted(unknown))}; known: {known}")
    arguments.models = problems.choose(arguments.models, arguments.bench)
    return arguments


def main() -> None:
    arguments = parse()
    if arguments.one:
        run_model(arguments.models[0], arguments)
        return
    failed = []
    for name in arguments.models:
        if not to_do(name, arguments):
            continue
        command = [sys.executable, __file__, "--one", "--models", name]
        command += ["--bench", str(arguments.bench), "--out", str(arguments.out)]
        command += ["--samplers", ",".join(arguments.samplers), "--limit", str(arguments.limit)]
        command += ["--seeds", ",".join(map(str, arguments.seeds))]
        command += ["--again"] if arguments.again else []
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"Failed, and left out: {', '.join(failed)}")


if __name__ == "__main__":
    main()
