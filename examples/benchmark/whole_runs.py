"""Whole runs: from a PyMC model to its ArviZ object, beside nutpie and PyMC's NUTS.

    python whole_runs.py [--models a,b] [--samplers mjhmc,nutpie] [--when new] [--repeats 1]

Each run is a fresh process with cache folders of its own. "first" finds them empty, as on a
machine that has never seen the sampler; "new" finds our kernel there and nothing else, so that it
is the first time too for the others, who have none; "again" finds what the same script has left.
What other models leave in PyTensor's cache helps the others, by as much as they have in common
with this one, and not us. Seconds count from the model, built and imported, to the
ArviZ object: 4 chains of 1000 + 1000 draws on all cores. CPU seconds are those of all threads and
child processes. "compiled" is the part until the chains begin.

All measurements are kept in results/whole_runs_single.csv; the table has the medians of each
version of PyMC. Remove the file for a new beginning.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import problems
from measure import RESULTS, in_new_process, report, verdict

MEAN_BAR, WORST_BAR = 0.4, 0.7  # of CPU seconds until the chains begin, ours over nutpie's
FEWEST_MODELS = 12  # in the mean that the bar is for
SAMPLERS, OCCASIONS = ("mjhmc", "nutpie", "nuts"), ("first", "new", "again")
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
sampler, size = sys.argv[4], {"draws": 1000, "tune": 1000, "chains": 4, "cores": os.cpu_count()}
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
assert data["posterior"].sizes["draw"] == 1000
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


def runs_of(
    folder: str, model: str, samplers: Sequence[str], occasions: Sequence[str], warm: Path
) -> list[dict]:
    """One round of all samplers on a model, in turn."""
    rows = []
    for sampler in samplers:
        with tempfile.TemporaryDirectory() as name:
            places = {"first": Path(name) / "empty", "new": Path(name) / "warm"}
            places["again"] = places["new" if "new" in occasions else "first"]
            places["first"].mkdir(mode=0o700)
            shutil.copytree(warm, places["new"])
            for when in occasions:
                if when == "first" and sampler != "mjhmc" and "new" in occasions:
                    continue  # the same
                here, caches = str(problems.HERE), environment(places[when])
                row = in_new_process(RUN, here, folder, model, sampler, environment=caches)
                rows.append({"model": model, "sampler": sampler, "when": when, **row})
                print(rows[-1], flush=True)
    return rows


def versions() -> str:
    import nutpie
    import pymc

    return f"PyMC {pymc.__version__}, nutpie {nutpie.__version__}"


def keep(rows: Sequence[Mapping]) -> list[dict]:
    """Add measurements to those of earlier rounds; returns all."""
    path = RESULTS / "whole_runs_single.csv"
    kept: list[dict] = []
    if path.exists():
        with open(path, newline="") as file:
            kept = list(csv.DictReader(file))
    kept += [{"versions": versions(), **row} for row in rows]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(kept[-1]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    return kept


def table(rows: Sequence[Mapping]) -> list[dict]:
    """A row per generation of PyMC and model, and one of their means."""
    found: dict[tuple[str, str], dict[tuple[str, str], list[Mapping]]] = {}
    for row in rows:
        of_model = found.setdefault((row["versions"], row["model"]), {})
        when = row["when"] if row["sampler"] == "mjhmc" or row["when"] == "again" else "new"
        of_model.setdefault((row["sampler"], when), []).append(row)
    lines = [_line(*key, of_model) for key, of_model in sorted(found.items())]
    for of_versions in dict.fromkeys(key[0] for key in sorted(found)):
        ratios = [
            line["new, compiled: mjhmc / nutpie"]
            for line in lines
            if line["versions"] == of_versions and line["new, compiled: mjhmc / nutpie"]
        ]
        if len(ratios) > 1:
            lines.append(_mean(of_versions, lines[0], ratios))
    return lines


def _median(of_model: Mapping, sampler: str, when: str, column: str) -> float | None:
    rows = of_model.get((sampler, when))
    return statistics.median(float(row[column]) for row in rows) if rows else None


def _line(of_versions: str, model: str, of_model: Mapping) -> dict:
    line: dict = {"versions": of_versions, "model": model}
    for sampler in SAMPLERS:
        for when in OCCASIONS if sampler == "mjhmc" else OCCASIONS[1:]:
            seconds = _median(of_model, sampler, when, "seconds")
            cpu = _median(of_model, sampler, when, "CPU seconds")
            text = "" if seconds is None or cpu is None else f"{seconds:.1f} / {cpu:.1f}"
            line[f"{sampler} {when}"] = text
    ours, theirs = (
        _median(of_model, sampler, "new", "CPU seconds compiled") for sampler in SAMPLERS[:2]
    )
    ratio = ours / theirs if ours and theirs else None
    line["new, compiled: mjhmc / nutpie"] = ratio
    line["bar"] = WORST_BAR if ratio else None
    line["verdict"] = verdict(ratio, WORST_BAR) if ratio else ""
    return line


def _mean(of_versions: str, like: Mapping, ratios: Sequence[float]) -> dict:
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    line = dict.fromkeys(like, "") | {"versions": of_versions}
    bar = MEAN_BAR if len(ratios) >= FEWEST_MODELS else None
    return line | {
        "model": f"geometric mean of {len(ratios)}",
        "new, compiled: mjhmc / nutpie": mean,
        "bar": bar,
        "verdict": verdict(mean, bar),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="names, separated by commas; those of SPEED.md if not")
    parser.add_argument("--samplers", default=",".join(SAMPLERS), help="separated by commas")
    parser.add_argument("--when", default=",".join(OCCASIONS), help="separated by commas")
    parser.add_argument("--repeats", type=int, default=1, help="rounds of measurements")
    arguments = parser.parse_args()
    samplers = arguments.samplers.split(",")
    occasions = [when for when in OCCASIONS if when in arguments.when.split(",")]
    chosen = arguments.models.split(",") if arguments.models else None
    with tempfile.TemporaryDirectory() as folder:
        in_new_process(WARM, environment=environment(Path(folder)))
        for _ in range(arguments.repeats):
            for place, names in MODELS.items():
                for model in names:
                    if chosen is None or model in chosen:
                        rows = keep(runs_of(place, model, samplers, occasions, Path(folder)))
    report("whole_runs", table(rows))


if __name__ == "__main__":
    main()
