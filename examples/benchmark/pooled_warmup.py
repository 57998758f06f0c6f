"""Four chains of one PyMC model: a warm-up for each against one for all, over seeds.

python examples/benchmark/pooled_warmup.py [--model garch11] [--seeds 10]
"""

import argparse
import warnings

import arviz
import numpy as np
import problems
from measure import report

import mjhmc_numba.pymc as mp

FIRST_SEED = 301


def least_ess(posterior) -> float:
    """Of all variables, in the bulk or the tail."""
    sizes = [arviz.ess(posterior, method=method) for method in ("bulk", "tail")]
    datasets = [s.to_dataset() if hasattr(s, "to_dataset") else s for s in sizes]
    return float(min(values.min() for d in datasets for values in d.data_vars.values()))


def one_run(compiled, warmup: str, seed: int) -> dict[str, float]:
    """Effective draws of the worst variable per 1,000 gradients, after the warm-up and in all."""
    run = compiled.sample(
        1000,
        tune=1000,
        chains=4,
        warmup=warmup,
        random_seed=seed,
        progressbar=False,
        blocking=False,
    )
    ess, spent = least_ess(run.wait()["posterior"]), run.gradients
    return {
        "after": 1000 * ess / spent["draws"],
        "in_all": 1000 * ess / sum(spent.values()),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="garch11")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    compiled = mp.compile(problems.bench_models(problems.POSTERIORS)[given.model]())
    seeds = range(FIRST_SEED, FIRST_SEED + given.seeds)
    rows = []
    for warmup in ("separate", "pooled"):
        runs = [one_run(compiled, warmup, seed) for seed in seeds]
        row: dict = {"model": given.model, "warmup": warmup, "seeds": len(runs)}
        for name in ("after", "in_all"):
            values = np.array([run[name] for run in runs])
            row |= {name: float(np.median(values)), f"least_{name}": values.min()}
            row[f"most_{name}"] = values.max()
        rows.append(row)
    report("pooled_warmup", rows)


if __name__ == "__main__":
    main()
