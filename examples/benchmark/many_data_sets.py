"""One model on many data sets: `compile(model).map` and a loop over nutpie's `with_data`."""

import argparse
import time
import warnings

import arviz
import numpy as np
import pymc as pm
from measure import report

import mjhmc_numba.pymc as mp

POINTS = 50


def regression() -> pm.Model:
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(POINTS))
        y = pm.Data("y", np.zeros(POINTS))
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        s = pm.HalfNormal("s", 2)
        pm.Normal("seen", a + b * x, s, observed=y)
    return model


def simulated(count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    sets = []
    for _ in range(count):
        x = rng.normal(size=POINTS)
        sets.append({"x": x, "y": 1 + rng.normal() * x + rng.normal(size=POINTS)})
    return sets


def least_ess(posterior) -> float:
    return float(min(values.min() for values in arviz.ess(posterior).data_vars.values()))


def by_map(compiled, sets, draws: int, warm_start: bool) -> list:
    mapped = compiled.map(
        sets, draws, draws, 2, random_seed=1, progressbar=False, warm_start=warm_start
    )
    return [mapped.posterior.sel(dataset=k) for k in range(len(sets))]


def by_nutpie(compiled, sets, draws: int) -> list:
    import nutpie

    found = []
    for k, data in enumerate(sets):
        run = nutpie.sample(
            compiled.with_data(**data),
            draws=draws,
            tune=draws,
            chains=2,
            seed=k,
            progress_bar=False,
        )
        found.append(run["posterior"])
    return [p.to_dataset() if hasattr(p, "to_dataset") else p for p in found]


def main() -> None:
    import nutpie

    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--draws", type=int, default=300)
    given = parser.parse_args()
    model, sets = regression(), simulated(given.sets)
    ours, theirs = mp.compile(model), nutpie.compile_pymc_model(model)
    ways = {
        "map": lambda part: by_map(ours, part, given.draws, True),
        "map, each its own warm-up": lambda part: by_map(ours, part, given.draws, False),
        "loop over nutpie": lambda part: by_nutpie(theirs, part, given.draws),
    }
    rows = []
    for name, run in ways.items():
        run(sets[:2])  # what is compiled on first use
        began, cpu = time.perf_counter(), time.process_time()
        posteriors = run(sets)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        ess = np.array([least_ess(posterior) for posterior in posteriors])
        rows.append(
            {
                "way": name,
                "sets": len(sets),
                "seconds_per_set": seconds / len(sets),
                "cpu_ms_per_set": 1e3 * cpu / len(sets),
                "median_ess": float(np.median(ess)),
                "least_ess": float(ess.min()),
            }
        )
    report("many_data_sets", rows)


if __name__ == "__main__":
    main()
