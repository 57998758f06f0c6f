"""Time of the kernel per gradient in this version over that in another one.

    python kernel_versions.py FOLDER [--name TEXT] [--repeats 15]

FOLDER has another version of the package `mjhmc_numba`. Both run with the same settings, which a
warm-up of this version has found, so the two make the same number of gradients; the program stops
if they do not. A process for each version measures when it is asked, in turn. CPU time of the
thread, so that other programs on the machine matter little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from kernel_cases import TARGETS
from kernel_overhead import PLANS as OPTIONS
from kernel_overhead import SECONDS, STAT_NAMES, count, time_kernel, tuned_process
from measure import interleaved, ratio, report

ROOT = Path(__file__).resolve().parents[2]
FIXED = (
    "step_size",
    "num_steps",
    "refresh_rate",
    "draw_interval",
    "integrator",
    "refresh_alpha",
)
CASES = ("dense Gaussian, d = 100", "logistic regression, d = 10")
PLANS = ("leapfrog, 5 steps per rung", "all tuned, diagonal metric", "all tuned, low-rank metric")

# A process that prints [seconds per gradient, gradients] whenever it reads a line.
WORKER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
sys.path.append(sys.argv[1])
import numpy as np
import mjhmc_numba as mj
from kernel_cases import TARGETS
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.process import Process, random_words

target = TARGETS[sys.argv[2]]()
options = json.loads(sys.argv[3])
options["metric"] = np.array(options["metric"])
run = {"seed": 3, "chains": 1, "progress": False, "tune": 20, "draws": 10}
tuned = mj.sample(target, **run, **options).tuned[0]
process = Process(target, mj.Settings(**options), tuned, random_words(np.random.SeedSequence(4)))
process.start(np.zeros(target.ndim))
draws, stats = (np.empty((int(sys.argv[4]), n)) for n in (target.ndim, len(STAT_NAMES)))
print(mj.__file__, flush=True)
for _ in sys.stdin:
    began = time.thread_time()
    process.run(draws, stats)
    seconds = time.thread_time() - began
    gradients = stats[:, STAT_NAMES.index("n_gradients")].sum()
    print(json.dumps([seconds / gradients, gradients]), flush=True)
"""


def settings_of(case: str, plan: str) -> tuple[dict[str, Any], int]:
    """What both versions run with, and the draws that take long enough to be timed."""
    options, _ = OPTIONS[plan]
    target = TARGETS[case]()
    process = tuned_process(target, **options)
    fixed = {name: getattr(process.tuned, name) for name in FIXED}
    metric = process.tuned.metric
    fixed["metric"] = (metric.covariance() if metric.rank else metric.scale**2).tolist()
    draws, stats = np.empty((200, target.ndim)), np.empty((200, len(STAT_NAMES)))
    seconds = time_kernel(process, draws, stats) * count(stats, "n_gradients")
    return fixed, max(int(200 * SECONDS / seconds), 10)


class Version:
    """A version of the package in a process of its own."""

    def __init__(self, folder: Path, case: str, fixed: dict[str, Any], draws: int, cache: str):
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-c", WORKER, str(Path(__file__).parent), case]
        self.process = subprocess.Popen(
            [*command, json.dumps(fixed), str(draws)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path, "MJHMC_NUMBA_CACHE_DIR": cache},
        )
        self.gradients: list[float] = []
        if not self._line().startswith(str(folder)):
            raise RuntimeError(f"Another mjhmc_numba was imported than that of {folder}.")

    def _line(self) -> str:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RuntimeError(f"The process ended with code {self.process.wait()}.")
        return line

    def seconds(self) -> float:
        """Seconds of CPU time per gradient."""
        self.process.stdin.write("\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        seconds, gradients = json.loads(self._line())
        self.gradients.append(gradients)
        return seconds

    def end(self) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()


def measure(case: str, plan: str, other: Path, name: str, repeats: int, caches: str) -> dict:
    """A row of the table."""
    fixed, draws = settings_of(case, plan)
    folders = {"this": ROOT, "other": other}
    versions = {
        which: Version(folder, case, fixed, draws, os.path.join(caches, which))
        for which, folder in folders.items()
    }
    costs = interleaved({which: v.seconds for which, v in versions.items()}, repeats)
    for version in versions.values():
        version.end()
    if versions["this"].gradients != versions["other"].gradients:
        raise RuntimeError("The two versions do not make the same draws.")
    row: dict[str, Any] = {"target": case, "settings": plan, "integrator": fixed["integrator"]}
    row |= {f"{which} us": 1e6 * statistics.median(costs[which]) for which in ("other", "this")}
    row |= {"ratio": ratio(costs, "this", "other")}
    pairs = sorted(a / b for a, b in zip(costs["this"], costs["other"], strict=True))
    quarter = len(pairs) // 4
    row["middle half"] = f"{pairs[quarter]:.3f} to {pairs[-1 - quarter]:.3f}"
    return row | {"other version": name, "load": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with another version of the package")
    parser.add_argument("--name", default="", help="of that version")
    parser.add_argument("--repeats", type=int, default=15, help="rounds of measurements")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as caches:
        rows = [
            measure(
                case, plan, arguments.folder.resolve(), arguments.name, arguments.repeats, caches
            )
            for case in CASES
            for plan in PLANS
        ]
    report("kernel_versions", rows)


if __name__ == "__main__":
    main()
