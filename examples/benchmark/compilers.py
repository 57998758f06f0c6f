"""Time of the kernel per gradient, as we compile it and as Numba does by itself.

    python compilers.py [--rounds 15]

One process for each way (`MJHMC_NUMBA_DEFER=0` is Numba's own) runs the same chains of
`kernel_overhead.py`: both make the same draws bit for bit. The two are asked in turn, so a slow
spell of the machine hits both, and what is told is the median over the rounds of the ratio within a
round, with its quartiles. CPU time of the thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from kernel_overhead import CASES, PLANS, SECONDS, count, time_kernel, tuned_process
from measure import interleaved, report, verdict

from mjhmc_numba.kernel.layout import STAT_NAMES

BAR = 1.0  # no loss
WAYS = {"ours": "1", "Numba's own": "0"}


def answer() -> None:
    """Measure what is asked for on the standard input, one line of JSON after the other."""
    process, draws, stats = None, None, None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked is not None:
            name, plan = asked
            target = CASES[name][0]()
            process = tuned_process(target, **PLANS[plan][0])
            draws, stats = np.empty((200, target.ndim)), np.empty((200, len(STAT_NAMES)))
            seconds = time_kernel(process, draws, stats) * count(stats, "n_gradients")
            rows = max(int(200 * SECONDS / seconds), 10)
            draws, stats = np.empty((rows, target.ndim)), np.empty((rows, len(STAT_NAMES)))
        assert process is not None
        print(json.dumps(time_kernel(process, draws, stats)), flush=True)


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

    def __call__(self, case: tuple[str, str] | None = None) -> float:
        """Seconds per gradient of a case, of the one before by default."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(case), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Let it end."""
        self._process.communicate()


def measure(asked: dict[str, Asked], name: str, plan: str, rounds: int) -> dict:
    for one in asked.values():
        one((name, plan))
    costs = interleaved(dict(asked), rounds)
    ours, numbas = (np.array(costs[way]) for way in WAYS)
    low, middle, high = np.quantile(ours / numbas, (0.25, 0.5, 0.75))
    return {
        "target": name,
        "settings": plan,
        "ours us": 1e6 * float(np.median(ours)),
        "Numba's own us": 1e6 * float(np.median(numbas)),
        "ratio": float(middle),
        "quartiles": f"{low:.3f}, {high:.3f}",
        "bar": BAR,
        "verdict": verdict(float(middle), BAR),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="measurements of each case")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        answer()
        return
    asked = {way: Asked(defer) for way, defer in WAYS.items()}
    rows = [measure(asked, name, plan, arguments.rounds) for name in CASES for plan in PLANS]
    for one in asked.values():
        one.end()
    report("compilers", rows)


if __name__ == "__main__":
    main()
