"""Whole runs: from a PyMC model to its ArviZ object, beside nutpie and PyMC's NUTS.

    python whole_runs.py [--models a,b] [--samplers mjhmc,nutpie] [--when new] [--repeats 1]

Each run is a fresh process with cache folders of its own. "first" finds them empty, as on a machine
that has never seen the sampler; "new" finds what the sampler has left there when it compiled the
models of BEFORE; "again" finds what the same script has left. Seconds count from the model, built
and imported, to the ArviZ object: 4 chains of 1000 + 1000 draws on all cores. CPU seconds are those
of all threads and child processes. "compiled" is the part until the chains begin.

The models are those of MODELS, in that order, those of the bench and real ones in turn. On each
model the samplers take turns at each occasion. All measurements are kept in
results/whole_runs_single.csv as they come. A round of a model that is there is not measured again,
so the program can be stopped and called again; with --anew it is, and takes the place of the rows
that are there.
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
# Where each model lies: six of the bench, and eight real ones. `first_draw.py` takes the same.
MODELS = {
    "eight_schools_noncentered": "posteriors",
    "rugby": "gallery",
    "mesquite": "posteriors",
    "best": "gallery",
    "arK": "posteriors",
    "golf_angle_distance": "gallery",
    "garch11": "posteriors",
    "baseball": "gallery",
    "hier_logistic": "posteriors",
    "moderation": "gallery",
    "student_t_regression": "case_studies",
    "alcohol_growth": "gallery",
    "gp_regr": "posteriors",
    "attrition_weibull": "gallery",
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
    arguments = (str(problems.HERE), MODELS[model], model, sampler, str(draws), str(chains))
    return in_new_process(RUN, *arguments, environment=environment(caches))


def leave_behind(sampler: str, caches: Path) -> None:
    """Fill the caches as the models before a new one would."""
    caches.mkdir(mode=0o700)
    if sampler == "mjhmc":
        in_new_process(WARM, environment=environment(caches))
    for model in BEFORE:
        run(model, sampler, caches, draws=20, chains=1)


def occasions_of(model: str, chosen: Sequence[str]) -> list[str]:
    """Those that there are for a model: one of BEFORE is never new, and "again" needs a run."""
    possible = [when for when in chosen if when != "new" or model not in BEFORE]
    return possible if possible != ["again"] else []


def is_measured(model: str, samplers: Sequence[str], occasions: Sequence[str], repeat: int) -> bool:
    """Whether a round of a model is there, with all samplers and on all occasions."""
    there = {tuple(row[name] for name in KEY) for row in kept()}
    now = versions()
    return all(
        (now, model, sampler, when, str(repeat)) in there
        for sampler in samplers
        for when in occasions
    )


def runs_of(
    model: str, samplers: Sequence[str], occasions: Sequence[str], warm: Path, repeat: int
) -> None:
    """One round of all samplers on a model, in turn."""
    with tempfile.TemporaryDirectory() as name:
        folders: dict[tuple[str, str], Path] = {}
        for when in occasions:
            for sampler in samplers:
                folder = Path(name) / f"{when}-{sampler}"
                if when == "first":
                    folder.mkdir(mode=0o700)
                elif when == "new":
                    if not (warm / sampler).exists():
                        leave_behind(sampler, warm / sampler)
                    shutil.copytree(warm / sampler, folder)
                else:  # that of the run before
                    before = [one for one in OCCASIONS if (one, sampler) in folders][-1]
                    folder = folders[before, sampler]
                folders[when, sampler] = folder
                row = {"model": model, "sampler": sampler, "when": when, "repeat": str(repeat)}
                row |= run(model, sampler, folder)
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
    kind = "bench" if MODELS[model] == "posteriors" else "real"
    line: dict = {"versions": of_versions, "model": model, "kind": kind}
    for sampler in SAMPLERS:
        columns = ["seconds", "CPU seconds", "CPU seconds compiled"]
        if sampler == "nuts":  # does not tell when its chains begin
            columns.pop()
        for when in OCCASIONS:
            runs = of_model.get((sampler, when), [])
            medians = [
                statistics.median(float(one[column]) for one in runs) for column in columns if runs
            ]
            line[f"{sampler} {when}"] = " / ".join(f"{value:.1f}" for value in medians)
    loads = [float(one["load"]) for runs in of_model.values() for one in runs]
    return line | {"load": statistics.median(loads)}


def ratios(rows: Sequence[Mapping]) -> list[dict]:
    """Ours over each of the others, of runs of the same round: geometric means over the models."""
    cost = {
        column: {tuple(row[name] for name in KEY): float(row[column]) for row in rows}
        for column in ("CPU seconds", "seconds")
    }
    lines = []
    for of_versions in sorted({row["versions"] for row in rows}):
        for other in SAMPLERS[1:]:
            for when in OCCASIONS:
                found = _ratios(cost["CPU seconds"], of_versions, other, when)
                if found:
                    worst = max(found, key=found.__getitem__)
                    wall = _ratios(cost["seconds"], of_versions, other, when)
                    lines.append(
                        {
                            "versions": of_versions,
                            "beside": other,
                            "when": when,
                            "models": len(found),
                            "CPU seconds": statistics.geometric_mean(found.values()),
                            "largest": f"{found[worst]:.2f} ({worst})",
                            "wall seconds": statistics.geometric_mean(wall.values()),
                        }
                    )
    return lines


def _ratios(cost: Mapping, of_versions: str, other: str, when: str) -> dict[str, float]:
    """By model, the median over the rounds that both have."""
    pairs: dict[str, list[float]] = {}
    for (at, model, sampler, occasion, repeat), ours in cost.items():
        theirs = cost.get((at, model, other, occasion, repeat))
        if (at, sampler, occasion) == (of_versions, "mjhmc", when) and theirs is not None:
            pairs.setdefault(model, []).append(ours / theirs)
    return {model: statistics.median(values) for model, values in pairs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="names, separated by commas; those of MODELS if not")
    parser.add_argument("--samplers", default=",".join(SAMPLERS), help="separated by commas")
    parser.add_argument("--when", default=",".join(OCCASIONS), help="separated by commas")
    parser.add_argument("--repeats", type=int, default=1, help="rounds; 0: the tables alone")
    parser.add_argument("--anew", action="store_true", help="what is there is measured again")
    parser.add_argument("--warm", type=Path, help="folder to keep what the models before leave")
    arguments = parser.parse_args()
    samplers = arguments.samplers.split(",")
    chosen = [when for when in OCCASIONS if when in arguments.when.split(",")]
    if chosen == ["again"]:
        parser.error("--when again needs a run before it: first,again or new,again")
    models = arguments.models.split(",") if arguments.models else list(MODELS)
    with tempfile.TemporaryDirectory() as folder:
        warm = arguments.warm or Path(folder)
        warm.mkdir(mode=0o700, exist_ok=True)
        for repeat in range(arguments.repeats):
            for model in models:
                occasions = occasions_of(model, chosen)
                if arguments.anew or not is_measured(model, samplers, occasions, repeat):
                    runs_of(model, samplers, occasions, warm, repeat)
    report("whole_runs", table(kept()))
    report("whole_runs_ratios", ratios(kept()))


if __name__ == "__main__":
    main()
