"""Time of the kernel per gradient, as we compile it and as Numba does by itself.

    python compilers.py [--blocks 5] [--rounds 3] [--targets dense]

One process for each way (`MJHMC_NUMBA_DEFER=0` is Numba's own) runs the same chains of
`kernel_overhead.py`: both make the same draws bit for bit. The two are asked in turn, so a slow
spell of the machine hits both. Where a matrix happens to lie in memory changes the time of a
density by up to a quarter, in either process: so each measurement is one of the kernel over one of
bare calls of the same density, and each block makes the target anew, in another place. What is told
is the median over all rounds of the ratio within a round, with its quartiles. CPU time of the
thread. What is measured again takes the place of the same row; the others stay.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from kernel_overhead import CASES, PLANS, count, time_bare, time_kernel, tuned_process
from measure import RESULTS, keep_row, kept_rows, report, verdict

from mjhmc_numba.kernel.layout import STAT_NAMES

SECONDS = 0.1  # of one measurement
BAR = 1.0  # no loss
WAYS = {"ours": "1", "Numba's own": "0"}
CHEAP = "diagonal Gaussian, d = 100"  # its bare call takes less than the clock's noise


def answer() -> None:
    """Measure what is asked for on the standard input, one line of JSON after the other."""
    elsewhere = []  # what is kept: the next target lies in another place
    for line in sys.stdin:
        asked = json.loads(line)
        if asked is not None:
            name, plan = asked
            target = CASES[name][0]()
            elsewhere.append((target, np.ones(1 + 97 * len(elsewhere))))
            process = tuned_process(target, **PLANS[plan][0])
            draws, stats = np.empty((200, target.ndim)), np.empty((200, len(STAT_NAMES)))
            seconds = time_kernel(process, draws, stats) * count(stats, "n_gradients")
            calls = int(SECONDS / time_bare(process, draws, 1000))
            rows = max(int(200 * SECONDS / seconds), 10)
            draws, stats = np.empty((rows, target.ndim)), np.empty((rows, len(STAT_NAMES)))
            time_kernel(process, draws, stats)
        costs = time_kernel(process, draws, stats), time_bare(process, draws[:1000], calls)
        print(json.dumps(costs), flush=True)


class Asked:
    """A process that measures."""

    def __init__(self, defer: str):
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__), "--answer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"MJHMC_NUMBA_DEFER": defer},
        )

    def __call__(self, case: tuple[str, str] | None = None) -> list[float]:
        """Seconds per gradient of the kernel and of bare calls, of a new case or of the last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(case), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Let it end."""
        self._process.communicate()


def measure(asked: dict[str, Asked], name: str, plan: str, blocks: int, rounds: int) -> dict:
    costs: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for _ in range(blocks):
        for one in asked.values():
            one((name, plan))
        for _ in range(rounds):
            for way, one in asked.items():
                costs[way].append(one())
    kernel, bare = (np.array([costs[way] for way in WAYS])[..., k] for k in (0, 1))
    over_bare = kernel / bare
    low, middle, high = np.quantile(over_bare[0] / over_bare[1], (0.25, 0.5, 0.75))
    return {
        "target": name,
        "settings": plan,
        "ours / bare": f"{np.median(over_bare[0]):.3f}",
        "Numba's own / bare": f"{np.median(over_bare[1]):.3f}",
        "ratio": f"{middle:.3f}",
        "quartiles": f"{low:.3f}, {high:.3f}",
        "bar": BAR,
        "verdict": verdict(float(middle), BAR),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=5, help="targets made anew")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each")
    parser.add_argument("--targets", default="", help="what their names begin with; all if not")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        answer()
        return
    asked = {way: Asked(defer) for way, defer in WAYS.items()}
    for name in CASES:
        if name != CHEAP and name.startswith(arguments.targets):
            for plan in PLANS:
                row = measure(asked, name, plan, arguments.blocks, arguments.rounds)
                keep_row(RESULTS / "compilers.csv", row, ("target", "settings"))
    for one in asked.values():
        one.end()
    report("compilers", kept_rows(RESULTS / "compilers.csv"))


if __name__ == "__main__":
    main()
