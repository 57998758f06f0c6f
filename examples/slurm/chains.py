"""One chain per task of a batch system, then all of them as one posterior.

    sbatch --array=0-99 examples/slurm/job.sh results    # writes results/chain_000.nc ...
    python examples/slurm/chains.py combine results      # reads them as one

Each task knows its number and the seed; nothing passes between them. A task that failed is
submitted again (`--array=17`) and makes the same draws.
"""

import argparse
import os
from pathlib import Path

import numba
import numpy as np

import mjhmc_numba

SEED = 20240501


@numba.njit
def density(x, grad, counts):
    """Log rates of Poisson counts, with a normal prior."""
    total = 0.0
    for j in range(x.size):
        rate = np.exp(x[j])
        grad[j] = counts[j] - rate - x[j]
        total += counts[j] * x[j] - rate - 0.5 * x[j] ** 2
    return total


COUNTS = np.array([3.0, 0.0, 7.0, 12.0])


def run(k: int, folder: Path, draws: int) -> Path:
    """Chain k, written to a file of its own."""
    result = mjhmc_numba.run_chain(
        k, density, ndim=4, args=(COUNTS,), draws=draws, tune=draws, seed=SEED, progress=False
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"chain_{k:03d}.nc"
    unfinished = path.with_suffix(".part")
    result.to_arviz().to_netcdf(str(unfinished))
    return unfinished.rename(path)  # a task that is killed leaves no half file


def combine(folder: Path):
    """All chains that are there, as one ArviZ object."""
    data = mjhmc_numba.combine(sorted(folder.glob("chain_*.nc")))
    print(f"{data['posterior'].sizes['chain']} chains of {data['posterior'].sizes['draw']} draws")
    print(data["posterior"]["x"].mean(("chain", "draw")).values)
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "combine"])
    parser.add_argument("folder", type=Path)
    task = os.environ.get("SLURM_ARRAY_TASK_ID", "0")
    parser.add_argument("--chain", type=int, default=int(task), help="SLURM_ARRAY_TASK_ID")
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args()
    if given.what == "run":
        print(run(given.chain, given.folder, given.draws))
    else:
        combine(given.folder)


if __name__ == "__main__":
    main()
