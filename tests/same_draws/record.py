"""Record the draws of all cases on this machine, or compare with those that were recorded.

    python -m tests.same_draws.record           compare, and say what differs
    python -m tests.same_draws.record --write   record

Machine code differs between processors and versions, and with it the last bits. So there is a
record for each set of them that were recorded.
"""

import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from llvmlite import binding

from tests.same_draws.cases import CASES, SEEDS, run

FILE = Path(__file__).parent / "recorded.json"


def machine() -> str:
    """All that the bits of a draw depend on, beside our own code."""
    features = hashlib.sha256(binding.get_host_cpu_features().flatten().encode()).hexdigest()[:8]
    python = "python {}.{}".format(*sys.version_info[:2])
    others = [f"{p} {version(p)}" for p in ("numba", "llvmlite", "numpy", "pymc", "pytensor")]
    return f"{binding.get_host_cpu_name()} {features}, {', '.join([python, *others])}"


def digest(arrays: dict[str, np.ndarray]) -> str:
    """A short hash of names, shapes and bits."""
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        array = np.ascontiguousarray(array)
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()[:16]


def digests() -> dict[str, str]:
    """Of all cases on this machine, now."""
    return {f"{name}, seed {seed}": digest(run(name, seed)) for name in CASES for seed in SEEDS}


def recorded() -> dict[str, dict[str, str]]:
    """What was recorded, by machine."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def main() -> int:
    """Record or compare."""
    now, before = digests(), recorded()
    if "--write" in sys.argv:
        before[machine()] = now
        FILE.write_text(json.dumps(before, indent=1, sort_keys=True) + "\n")
        print(f"{len(now)} runs recorded for {machine()}")
        return 0
    known = before.get(machine())
    if known is None:
        print(json.dumps({"machine": machine(), "known": False}))
        return 0
    different = sorted(
        name for name in known.keys() | now.keys() if known.get(name) != now.get(name)
    )
    print(json.dumps({"machine": machine(), "known": True, "different": different}))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
