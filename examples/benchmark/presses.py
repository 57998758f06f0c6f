"""How long a run takes to come back after one press of Ctrl-C, at random moments.

    python presses.py [--presses 50] [--kinds standalone,pymc]

Real signals are sent to a process that compiles, warms up, samples and packages, again and again
(`tests/api/pressed.py`), at moments spread over a whole run. Rows go to results/presses.csv. How
busy the machine was stands beside them, and the CPU seconds that the process took from the press to
the end: where others use the processors too, that is what ours waited for. A press that came after
the end has no time.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from measure import report, verdict

ROOT = Path(__file__).resolve().parents[2]
BAR = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presses", type=int, default=50)
    parser.add_argument("--kinds", default="standalone,pymc")
    parser.add_argument("--seed", type=int, default=12)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.api.test_presses import press_at_random

    rows = []
    for kind in arguments.kinds.split(","):
        before = os.getloadavg()[0]
        reports = press_at_random(kind, arguments.presses, None, arguments.seed)
        seconds, cpu = np.array([(r["seconds"], r["cpu"]) for r in reports if r["seconds"] > 0]).T
        rows.append(
            {
                "kind": kind,
                "presses": len(reports),
                "before the end": len(seconds),
                "with draws": sum("raised" not in r and r["seconds"] > 0 for r in reports),
                "median s": np.median(seconds),
                "90 % s": np.quantile(seconds, 0.9),
                "longest s": seconds.max(),
                "within 0.5 s": np.mean(seconds <= BAR),
                "longest CPU s": cpu.max(),
                "run s": reports[0]["longest"],
                "load per core": (before + os.getloadavg()[0]) / 2 / (os.cpu_count() or 1),
                "bar": BAR,
                "verdict": verdict(seconds.max(), BAR),
            }
        )
    report("presses", rows, by="kind")


if __name__ == "__main__":
    main()
