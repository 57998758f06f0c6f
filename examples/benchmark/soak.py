"""Hours of mixed calls in one process: does memory grow, does anything leak, do bits change?

    python soak.py [--minutes 45] [--out results/soak.csv]

Both ways to sample, with interrupts, threads, executors, changes of data and errors, in random
order (`soak_calls.py`). After each round are written down: resident memory, what of it is in use,
threads, open files, child processes, and whether three runs have the same bits as at the beginning.
The exit code is 1 if anything was found; the last lines say what.

Every tenth round compiles something that is new to the process, and Numba keeps what it has
compiled. So what C's allocator has given out and the objects of Python must not grow in the other
rounds; and what else is resident and of no file (memory by other ways, and gaps) in none. Linux is
asked for small pages, as a large one counts 2 MB for each byte in it; and glibc to give back what
is free at the end of a thread's heap, of which it would keep up to 64 MB per heap.

    python soak.py --compiled [--out results/soak_compiled.csv]

This measures how much of what compilations leave is left when the same is compiled without us.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import soak_calls
from measure import RESULTS

COLUMNS = ["minutes", "round", "calls", "resident_mb", "own_mb", "in_use_mb", "python_blocks"]
COLUMNS += ["code_mb", "threads", "files", "children", "same_bits"]
SELDOM = 10  # rounds between two calls that cost seconds
SETTLE = 0.2  # of the time, in which caches fill
GROWTH = 0.03  # of memory that is called flat, from the second fifth to the last
PR_SET_THP_DISABLE = 41  # of Linux
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, THRESHOLD = -1, -3, 1 << 17  # of glibc, and their first value
COMPILED = 4  # calls of each kind that compile


def resident_mb() -> float:
    """After what can be given back has been."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def own_mb() -> float:
    """Resident memory that is of no file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024 / 1e6


def keep_little() -> None:
    """Let what is resident be what is in use, as far as that can be asked for."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
        for what in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):  # else they follow what is freed
            library.mallopt(what, THRESHOLD)


class MallInfo(ctypes.Structure):
    """What glibc says of its allocator (mallinfo2), in bytes."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("hblkhd", "usmblks", "fsmblks", "used")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("free", "keepcost")]


def in_use_mb() -> float:
    """What C's allocator has given out, NumPy's arrays among it; Python's objects lie elsewhere."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except AttributeError:  # another C library
        return 0.0
    mallinfo.restype = MallInfo
    told = mallinfo()
    return (told.used + told.hblkhd) / 1e6


def code_mb() -> float:
    """Machine code that was made in this process: memory that may be run and is of no file."""
    pages = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, *_, inode = line.split()[:5]
        if "x" in rights and inode == "0" and "[" not in line:
            first, end = (int(address, 16) for address in span.split("-"))
            pages += end - first
    return pages / 1e6


def children() -> int:
    return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def one_round(number: int, rng: np.random.Generator, calls: Counter, failed: list[str]) -> None:
    """Every call once, in random order."""
    chosen = list(soak_calls.OFTEN)
    if number % SELDOM == 0:
        chosen += soak_calls.SELDOM
    for k in rng.permutation(len(chosen)):
        call = chosen[k]
        try:
            call(rng)
        except Exception:
            failed.append(f"{call.__name__} in round {number}:\n{traceback.format_exc()}")
            print(failed[-1], flush=True)
        calls[call.__name__] += 1


def state(began: float, number: int, calls: Counter, first: str) -> dict:
    same = soak_calls.digest() == first
    time.sleep(0.3)  # threads that are told to end do
    return {
        "minutes": round((time.monotonic() - began) / 60, 2),
        "round": number,
        "calls": calls.total(),
        "resident_mb": round(resident_mb(), 1),
        "own_mb": round(own_mb(), 1),
        "in_use_mb": round(in_use_mb(), 2),
        "python_blocks": sys.getallocatedblocks(),
        "code_mb": round(code_mb(), 2),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "children": children(),
        "same_bits": same,
    }


def compiled(path: Path) -> int:
    """What calls that compile leave behind, ours beside those of Numba and PyTensor alone."""
    rng = np.random.default_rng(1)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["call", "times", "in_use_mb", "python_blocks"])
        for call in soak_calls.COMPILE:
            call(rng)  # what the first one loads
            before = kept()
            for _ in range(COMPILED):
                call(rng)
            grown = [(b - a) / COMPILED for a, b in zip(before, kept(), strict=True)]
            writer.writerow([call.__name__, COMPILED, round(grown[0], 3), round(grown[1])])
            file.flush()
            print(call.__name__, *grown, flush=True)
    return 0


def kept() -> tuple[float, int]:
    gc.collect()
    return in_use_mb(), sys.getallocatedblocks()


def quiet_growth(rows: list[dict], name: str) -> float:
    """Sum of the changes in rounds that compile nothing new."""
    return sum(row[name] - before[name] for before, row in pairwise(rows) if row["round"] % SELDOM)


def findings(rows: list[dict], failed: list[str]) -> list[str]:
    """What is not as it should be."""
    settled = [row for row in rows if row["minutes"] >= SETTLE * rows[-1]["minutes"]]
    fifth = max(len(settled) // 4, 1)
    found = [f"a call failed: {text.splitlines()[0]}" for text in failed]
    for name in ("in_use_mb", "python_blocks"):
        grown = quiet_growth(settled, name) / settled[0][name]
        if grown > GROWTH:
            found.append(f"{name} grew by {grown:.1%} where nothing was compiled")
    before, after = (
        float(np.median([row["own_mb"] - row["in_use_mb"] for row in part]))
        for part in (settled[:fifth], settled[-fifth:])
    )
    if after - before > GROWTH * settled[0]["own_mb"]:
        found.append(f"memory beside what is in use grew from {before:.0f} to {after:.0f} MB")
    for name in ("threads", "files", "children"):
        if settled[-1][name] > settled[0][name]:
            found.append(f"{name} grew from {settled[0][name]} to {settled[-1][name]}")
    if not all(row["same_bits"] for row in rows):
        found.append("the same seeds gave other draws")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=45.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "soak.csv")
    parser.add_argument("--compiled", action="store_true")
    arguments = parser.parse_args()
    keep_little()
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    if arguments.compiled:
        return compiled(arguments.out)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    rng, calls, failed, rows = np.random.default_rng(1), Counter(), [], []
    began, first = time.monotonic(), soak_calls.digest()
    with open(arguments.out, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        while time.monotonic() - began < 60 * arguments.minutes:
            one_round(len(rows), rng, calls, failed)
            rows.append(state(began, len(rows), calls, first))
            writer.writerow(rows[-1])
            file.flush()
            print(*rows[-1].values(), flush=True)
    found = findings(rows, failed)
    print(f"{calls.total()} calls in {rows[-1]['minutes']:.0f} minutes; found:", found or "nothing")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
