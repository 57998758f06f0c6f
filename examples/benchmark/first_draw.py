"""A new PyMC model: CPU seconds from the model to its first draw, beside nutpie.

    python first_draw.py [--models a,b] [--samplers mjhmc,nutpie] [--rounds 0,1]

A new model meets a machine that has compiled other models before. So each sampler has cache folders
of its own, which the models go through one after the other: the first models find little there and
the last find much, and a second round goes through them in reverse, with folders that are empty
again. What PyTensor has cached of other models helps nutpie; it does not help us, who read nothing
of it, and our kernel is in its cache from the beginning. Each measurement is a fresh process, the
samplers in turn. Seconds are those of the process with all its threads, from the model, built and
imported, to the end of a run of one draw.

Measurements are kept in results/first_draw_single.csv; those that are made again take the place of
the old ones.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import problems
from measure import RESULTS, in_new_process, keep_row, kept_rows, report, verdict
from whole_runs import MODELS, WARM, environment, versions

MEAN_BAR, WORST_BAR = 0.4, 0.7  # ours over nutpie's
FEWEST_MODELS = 12  # in the mean that the bar is for
SAMPLERS = ("mjhmc", "nutpie")
KEY = ("versions", "model", "sampler", "round")

RUN = """
import json, os, resource, sys, warnings
sys.path.insert(0, sys.argv[1])
import problems
warnings.simplefilter("ignore")
import pymc as pm
sampler, size = sys.argv[4], {"draws": 1, "tune": 10, "chains": 1}
if sampler == "mjhmc":
    import mjhmc_numba.pymc as mp
else:
    import nutpie
model = problems.bench_models(problems.folder(sys.argv[2]))[sys.argv[3]]()

def seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)

began = seconds()
if sampler == "mjhmc":
    data = mp.compile(model, progressbar=False).sample(**size, random_seed=1, progressbar=False)
else:
    ready = nutpie.compile_pymc_model(model, backend="numba")
    data = nutpie.sample(ready, **size, seed=1, progress_bar=False)
print(json.dumps({"CPU seconds": seconds() - began, "load": os.getloadavg()[0]}))
"""


def one_round(number: int, models: Mapping[str, str], samplers: Sequence[str]) -> None:
    """All models one after the other, in reverse in every other round."""
    order = list(models) if number % 2 == 0 else list(models)[::-1]
    with tempfile.TemporaryDirectory() as name:
        caches = {sampler: environment(Path(name) / sampler) for sampler in samplers}
        for sampler in samplers:
            (Path(name) / sampler).mkdir(mode=0o700)
            in_new_process(WARM, environment=caches[sampler])
        for model in order:
            for sampler in samplers:
                here = str(problems.HERE)
                row = in_new_process(
                    RUN, here, models[model], model, sampler, environment=caches[sampler]
                )
                row = {"model": model, "sampler": sampler, "round": str(number), **row}
                print(row, flush=True)
                keep(row)


def kept() -> list[dict]:
    """All measurements that are there."""
    return kept_rows(RESULTS / "first_draw_single.csv")


def keep(row: Mapping) -> None:
    """Add a measurement, in the place of the same one of earlier."""
    keep_row(RESULTS / "first_draw_single.csv", {"versions": versions(), **row}, KEY)


def table(rows: Sequence[Mapping]) -> list[dict]:
    """A line per version of PyMC and model: means over the rounds that both samplers have."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for row in rows:
        of_model = found.setdefault((row["versions"], row["model"]), {})
        of_model.setdefault(row["sampler"], {})[row["round"]] = float(row["CPU seconds"])
    lines, ratios = [], []
    for (of_versions, model), of_model in sorted(found.items()):
        rounds = sorted(set(of_model.get("mjhmc", ())) & set(of_model.get("nutpie", ())))
        if not rounds:
            continue
        ours, theirs = ([of_model[s][number] for number in rounds] for s in SAMPLERS)
        ratio = _mean([a / b for a, b in zip(ours, theirs, strict=True)])
        ratios.append(ratio)
        lines.append(
            {
                "versions": of_versions,
                "model": model,
                "mjhmc CPU s": ", ".join(f"{s:.1f}" for s in ours),
                "nutpie CPU s": ", ".join(f"{s:.1f}" for s in theirs),
                "ratio": ratio,
                "bar": WORST_BAR,
                "verdict": verdict(ratio, WORST_BAR),
            }
        )
    bar = MEAN_BAR if len(ratios) >= FEWEST_MODELS else None
    mean = {"model": f"geometric mean of {len(ratios)}", "ratio": _mean(ratios), "bar": bar}
    return [*lines, dict.fromkeys(lines[0], "") | mean | {"verdict": verdict(mean["ratio"], bar)}]


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="names, separated by commas; all by default")
    parser.add_argument("--samplers", default=",".join(SAMPLERS), help="separated by commas")
    parser.add_argument("--rounds", default="0,1", help="odd ones go in reverse; '': the table")
    arguments = parser.parse_args()
    names = arguments.models.split(",") if arguments.models else list(MODELS)
    for number in filter(None, arguments.rounds.split(",")):
        chosen = {name: MODELS[name] for name in names}
        one_round(int(number), chosen, arguments.samplers.split(","))
    report("first_draw", table(kept()))


if __name__ == "__main__":
    main()
