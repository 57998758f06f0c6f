"""How many chains end in a minor mode, over many seeds, against nutpie.

    python modes.py [--bench DIR] [--models lotka_volterra]

Short runs: where a chain ends is decided in the first hundred gradients. A row per run is appended
to results/modes.csv; rows that are there are not run again. `efficiency.py report` reads them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import problems
from effective import score
from efficiency import SAMPLERS, append_row, known_rows
from measure import RESULTS

COLUMNS = ["model", "sampler", "seed", "chains", "minor_chains", "gradients_warmup"]
MODELS = ["lotka_volterra"]
DRAWS = 100
# Nutpie's own number; ours is that of the other benchmarks.
TUNE = {"mjhmc": 1000, "nutpie": 400}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_folder(parser)
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas")
    parser.add_argument("--samplers", default=",".join(TUNE))
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--out", type=Path, default=RESULTS / "modes.csv")
    arguments = parser.parse_args()
    done = known_rows(arguments.out)
    for name in arguments.models.split(","):
        problem = problems.load(name, arguments.bench)
        for sampler in arguments.samplers.split(","):
            for seed in range(701, 701 + arguments.seeds):
                if (name, sampler, seed) in done:
                    continue
                if sampler == "nutpie":
                    run = problem.nutpie(seed, DRAWS, TUNE[sampler], **SAMPLERS[sampler])
                else:
                    run = problem.mjhmc(seed, DRAWS, TUNE[sampler])[0]
                row = score(run) | {"model": name, "sampler": sampler, "seed": seed}
                row |= {"chains": len(run.draws)}
                append_row(arguments.out, COLUMNS, row)
                print(name, sampler, seed, row["minor_chains"], flush=True)


if __name__ == "__main__":
    main()
