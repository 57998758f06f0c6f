"""How long a run takes to come back after one press of Ctrl-C, at random moments.

    python presses.py [--presses 50] [--kinds standalone,pymc]

Real signals are sent to a process that compiles, warms up, samples and packages, again and again
(`tests/api/pressed.py`), at moments spread over a whole run. Rows go to results/presses.csv. A
press that came after the end has no time.

How busy the machine was stands beside them. Where others use the processors too, ours waits for its
turn: what Linux says of that (/proc/PID/schedstat, of the main thread alone) is taken off in the
columns "less queue". Waits of other threads, for which the main one waits, are left in; run it with
priority (`nice -n -15 python presses.py`) where there is much of that.
With `--look`, what all threads are doing that many seconds after a press goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import platform
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
    parser.add_argument("--look", type=float)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.api.test_presses import press_at_random

    rows = []
    for kind in arguments.kinds.split(","):
        before = os.getloadavg()[0]
        reports = press_at_random(kind, arguments.presses, None, arguments.seed, arguments.look)
        early = [r for r in reports if r["seconds"] > 0]
        seconds, cpu = np.array([(r["seconds"], r["cpu"]) for r in early]).T
        net = seconds - [r["queued"] for r in early]
        rows.append(
            {
                "kind": f"{kind}, Python {platform.python_version()}",
                "presses": len(reports),
                "before the end": len(seconds),
                "with draws": sum("raised" not in r and r["seconds"] > 0 for r in reports),
                "median s": np.median(seconds),
                "90 % s": np.quantile(seconds, 0.9),
                "longest s": seconds.max(),
                "within 0.5 s": np.mean(seconds <= BAR),
                "longest less queue": net.max(),
                "within, less queue": np.mean(net <= BAR),
                "longest CPU s": cpu.max(),
                "compiling": sum(r["compiles"] for r in early),
                "nice": os.getpriority(os.PRIO_PROCESS, 0),
                "load per core": (before + os.getloadavg()[0]) / 2 / (os.cpu_count() or 1),
                "bar": BAR,
                "verdict": verdict(net.max(), BAR),
            }
        )
    report("presses", rows, by="kind")


if __name__ == "__main__":
    main()
