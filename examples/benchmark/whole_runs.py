"""Whole runs: from a PyMC model to its ArviZ object, beside nutpie and PyMC's NUTS.

    python whole_runs.py [--models a,b] [--samplers mjhmc,nutpie] [--when new] [--repeats 1]

Each run is a fresh process with cache folders of its own. "first" finds them empty, as on a machine
that has never seen the sampler; "new" finds what the sampler has left there when it compiled the
models of BEFORE; "again" finds what the same script has left. Seconds count from the model, built
and imported, to the ArviZ object: 4 chains of 1000 + 1000 draws on all cores. CPU seconds are those
of all threads and child processes. "compiled" is the part until the chains begin.

All measurements are kept in results/whole_runs_single.csv. What is measured again takes the place
of the same row; the others stay.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import problems
from measure import RESULTS, in_new_process, keep_row, kept_rows, report

SAMPLERS, OCCASIONS = ("mjhmc", "nutpie", "nuts"), ("first", "new", "again")
BEFORE = ("eight_schools_noncentered", "mesquite")  # compiled before a "new" model
KEY = ("versions", "model", "sampler", "when", "repeat")
WARM = "from mjhmc_numba.process import Process; Process.compile_kernel(); print(0)"
MODELS = {
    "posteriors": [
        "eight_schools_noncentered",
        "mesquite",
        "hier_logistic",
        "arK",
        "gp_regr",
        "garch11",
    ],
    "gallery": [
        "rugby",
        "baseball",
        "best",
        "golf_angle_distance",
        "attrition_weibull",
        "moderation",
        "alcohol_growth",
    ],
    "case_studies": ["student_t_regression"],
}

RUN = """
import json, os, resource, sys, time, warnings
sys.path.insert(0, sys.argv[1])
import problems
warnings.simplefilter("ignore")
import pymc as pm
sampler, draws, chains = sys.argv[4], int(sys.argv[5]), int(sys.argv[6])
size = {"draws": draws, "tune": draws, "chains": chains, "cores": os.cpu_count()}
if sampler == "mjhmc":
    import mjhmc_numba.pymc as mp
if sampler == "nutpie":
    import nutpie
model = problems.bench_models(problems.folder(sys.argv[2]))[sys.argv[3]]()

def times():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(u.ru_utime + u.ru_stime for u in used)

began = compiled = times()
if sampler == "mjhmc":
    ready = mp.compile(model, progressbar=False)
    compiled = times()
    data = ready.sample(**size, random_seed=1, progressbar=False)
elif sampler == "nutpie":
    ready = nutpie.compile_pymc_model(model, backend="numba")
    compiled = times()
    data = nutpie.sample(ready, **size, seed=1, progress_bar=False)
else:
    data = pm.sample(**size, model=model, random_seed=1, progressbar=False, nuts_sampler="pymc")
ended = times()
assert data["posterior"].sizes["draw"] == draws
print(json.dumps({
    "seconds": ended[0] - began[0], "CPU seconds": ended[1] - began[1],
    "CPU seconds compiled": compiled[1] - began[1], "load": os.getloadavg()[0],
}))
"""


def environment(caches: Path) -> dict[str, str]:
    """Variables by which all caches are in a folder."""
    flags = f"{os.environ.get('PYTENSOR_FLAGS', '')},base_compiledir={caches / 'pytensor'}"
    return {
        "PYTENSOR_FLAGS": flags.lstrip(","),
        "NUMBA_CACHE_DIR": str(caches / "numba"),
        "MJHMC_NUMBA_CACHE_DIR": str(caches / "mjhmc"),
    }


def run(model: str, sampler: str, caches: Path, draws: int = 1000, chains: int = 4) -> dict:
    """Seconds of a run in a process of its own."""
    place = next(place for place, names in MODELS.items() if model in names)
    arguments = (str(problems.HERE), place, model, sampler, str(draws), str(chains))
    return in_new_process(RUN, *arguments, environment=environment(caches))


def leave_behind(sampler: str, caches: Path) -> None:
    """Fill the caches as the models before a new one would."""
    caches.mkdir(mode=0o700)
    if sampler == "mjhmc":
        in_new_process(WARM, environment=environment(caches))
    for model in BEFORE:
        run(model, sampler, caches, draws=20, chains=1)


def runs_of(
    model: str, samplers: Sequence[str], occasions: Sequence[str], warm: Path, repeat: int
) -> None:
    """One round of all samplers on a model, in turn."""
    for sampler in samplers:
        if "new" in occasions and not (warm / sampler).exists():
            leave_behind(sampler, warm / sampler)
        with tempfile.TemporaryDirectory() as name:
            places = {"first": Path(name) / "empty", "new": Path(name) / "warm"}
            places["first"].mkdir(mode=0o700)
            if "new" in occasions and model not in BEFORE:
                shutil.copytree(warm / sampler, places["new"])
            seen = [when for when in ("first", "new") if when in occasions]
            places["again"] = places[seen[-1] if model not in BEFORE else "first"]
            for when in occasions:
                if when == "new" and model in BEFORE:
                    continue
                row = {"model": model, "sampler": sampler, "when": when, "repeat": str(repeat)}
                row |= run(model, sampler, places[when])
                print(row, flush=True)
                keep(row)


def versions() -> str:
    import nutpie
    import pymc

    return f"PyMC {pymc.__version__}, nutpie {nutpie.__version__}"


def kept() -> list[dict]:
    """All measurements that are there."""
    return kept_rows(RESULTS / "whole_runs_single.csv")


def keep(row: Mapping) -> None:
    """Add a measurement, in the place of the same one of earlier."""
    keep_row(RESULTS / "whole_runs_single.csv", {"versions": versions(), **row}, KEY)


def table(rows: Sequence[Mapping]) -> list[dict]:
    """A line per version of PyMC and model: medians over the repeats."""
    found: dict[tuple[str, str], dict[tuple[str, str], list[Mapping]]] = {}
    for row in rows:
        of_model = found.setdefault((row["versions"], row["model"]), {})
        of_model.setdefault((row["sampler"], row["when"]), []).append(row)
    return [_line(*key, of_model) for key, of_model in sorted(found.items())]


def _line(of_versions: str, model: str, of_model: Mapping) -> dict:
    line: dict = {"versions": of_versions, "model": model}
    for sampler in SAMPLERS:
        for when in OCCASIONS:
            runs = of_model.get((sampler, when), [])
            medians = [
                statistics.median(float(one[column]) for one in runs)
                for column in ("seconds", "CPU seconds", "CPU seconds compiled")
                if runs
            ]
            line[f"{sampler} {when}"] = " / ".join(f"{value:.1f}" for value in medians)
    loads = [float(one["load"]) for runs in of_model.values() for one in runs]
    return line | {"load": statistics.median(loads)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="names, separated by commas; those of SPEED.md if not")
    parser.add_argument("--samplers", default=",".join(SAMPLERS), help="separated by commas")
    parser.add_argument("--when", default=",".join(OCCASIONS), help="separated by commas")
    parser.add_argument("--repeats", type=int, default=1, help="rounds; 0: the table alone")
    arguments = parser.parse_args()
    samplers = arguments.samplers.split(",")
    occasions = [when for when in OCCASIONS if when in arguments.when.split(",")]
    if "again" in occasions and len(occasions) == 1:
        parser.error("--when again needs a run before it: first,again or new,again")
    chosen = arguments.models.split(",") if arguments.models else None
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(arguments.repeats):
            for model in (name for names in MODELS.values() for name in names):
                if chosen is None or model in chosen:
                    runs_of(model, samplers, occasions, Path(folder), repeat)
    report("whole_runs", table(kept()))


if __name__ == "__main__":
    main()
