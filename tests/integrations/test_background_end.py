"""A process that ends while chains run in the background ends."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import warnings
import pymc as pm
import mjhmc_numba.pymc
warnings.simplefilter("ignore")
with pm.Model():
    pm.Normal("x", shape=20)
    sampling = mjhmc_numba.pymc.sample(
        draws=2_000_000, chains=3, progressbar={progressbar}, blocking=False, random_seed=1
    )
while sampling.inspect() is None:
    pass
{last}
print("end", flush=True)
"""


@pytest.mark.parametrize(("last", "code"), [("", 0), ("raise SystemExit(3)", 3), ("1 / 0", 1)])
def test_a_script_that_returns_ends_its_chains(last, code):
    script = SCRIPT.format(last=last, progressbar=not last)
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        began = time.monotonic()
        if not last:
            while process.stdout.readline() not in ("end\n", ""):
                pass
            began = time.monotonic()
        _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    if not last:
        assert time.monotonic() - began < 10  # half a second on a machine without other work
    assert "Fatal" not in err
