"""The speed benchmarks, one after the other, and SPEED.md from the CSV files that they wrote."""

import argparse
import csv
import os
import platform
import subprocess
import sys
from pathlib import Path

import llvmlite
import numba
import numpy as np
from measure import RESULTS

import mjhmc_numba

HERE = Path(__file__).resolve().parent
INTRODUCTION = """Written by `make benchmark` from the CSV files in `results/`. Ratios are medians
of interleaved runs; a bar that is not met stands here with its measured value. `load` is the
machine's load average: where it exceeds the number of cores, wall times say little."""
PROGRAMS = {
    "kernel_overhead": """## The kernel beside the density

Time of the kernel per gradient over that of the bare call of the density through the same
address, at draws of the same chain. The kernel runs with what a warm-up found. Where a refresh
comes after a few gradients, they share its cost; a metric of rank k adds about 2 k d
multiplications to a gradient (4 k d where paths rotate) and 4 k d to a refresh, in exchange for
fewer gradients.""",
    "compilers": """The same chains with the kernel as we compile it, in one piece, and as
Numba does by itself (`MJHMC_NUMBA_DEFER=0`), each over the bare call of the density in the same
process: two processes, asked in turn. Ratio of ours to Numba's: median over the rounds, and its
quartiles; at a load of 15 to 20.""",
    "threads": """## Two chains on two cores

Wall time of two chains on two cores over that of the two in sequence, and the same for two bare
loops that call the density: what the machine had to give at the time.""",
    "startup": """## The start of a process

Fresh processes, the kernel in its cache, a density that no process has seen before. Numba takes
seconds longer to compile `grad[:] = ...` with an array on the right than a loop.""",
    "memory": """## Memory

Peak memory of the process, above what it had after importing and compiling, over the size of the
output (draws and statistics).""",
}

# Of `pymc_speed.py`, `first_draw.py` and `whole_runs.py`, which take longer than all the others:
# they are run where they are asked for.
OF_MODELS = {
    "pymc_gradients": """## PyMC models: time per gradient beside nutpie

Of one chain on one thread: the time of 2000 more draws after the same warm-up, over the gradients
that they take, with all that is done between gradients. Ratios of ours to nutpie's. At the defaults
ours has a low-rank metric and nutpie a diagonal one. The bar is for each of the three ratios, on
models whose gradient takes nutpie 10 microseconds or more. What a direction costs in time it must
bring back in effective samples per gradient: see RESULTS.md.""",
    "first_draw": """## A new PyMC model: CPU seconds to its first draw

On a machine that has compiled other models before: the models go one after the other through caches
of each sampler, in one order and (the second number) in reverse. nutpie finds in PyTensor's
cache what the models before have in common with the new one; our kernel is in its cache. Fresh
processes, from the model to the end of a run of one draw. The rows that stand here were taken one
sampler after the other and not in turn, at loads of 7 to 15.""",
    "whole_runs": """## Whole runs: from a PyMC model to its ArviZ object

Wall / CPU seconds of 4 chains of 1000 + 1000 draws on all cores, and the CPU seconds of it until
the chains begin (NUTS does not tell), in fresh processes with caches of their own. "first":
nothing was ever compiled; "new": the sampler has compiled two other models before; "again": the
same script has run before. The samplers take turns at each occasion. Where the load exceeds the
number of cores, wall seconds are longer by as much. A run ends with as many draws of each sampler,
not with as many effective ones. The rows of best, golf_angle_distance and rugby are older: one
sampler after the other and without NUTS.

In a first run the kernel takes 5 to 6 CPU seconds. It was tried to leave out the passes over single
functions by which Numba prepares the optimisation of the whole: 5.1 instead of 5.6 CPU seconds
(medians of four), but the last bits of a model's density change, so they stay.""",
    "whole_runs_ratios": """Ours over each of the others, of runs of the same round: geometric means
over the models, and the largest of CPU seconds.""",
}


def processor() -> str:
    """The processor's name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def table(path: Path) -> str:
    """A CSV file as a Markdown table."""
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def write_page() -> None:
    versions = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, Numba "
        f"{numba.__version__}, llvmlite {llvmlite.__version__}, mjhmc_numba "
        f"{mjhmc_numba.__version__}"
    )
    parts = ["# Speed", INTRODUCTION, f"{processor()}, {os.cpu_count()} cores; {versions}."]
    for name, text in (PROGRAMS | OF_MODELS).items():
        path = RESULTS / f"{name}.csv"
        if path.exists():
            parts += [text, table(path)]
    (HERE / "SPEED.md").write_text("\n\n".join(parts) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    known = [*PROGRAMS, "pymc_speed", "first_draw", "whole_runs"]
    parser.add_argument("programs", nargs="*", metavar="program", help=", ".join(known))
    chosen = parser.parse_args().programs or list(PROGRAMS)
    unknown = set(chosen) - set(known)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    for name in chosen:
        print(f"\n{name}", flush=True)
        subprocess.run([sys.executable, HERE / f"{name}.py"], check=True)
    write_page()


if __name__ == "__main__":
    main()
