"""A large result needs little more memory than it has itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BAR = 1.5  # peak above what there was before the run, over the output; PyMC 2.2-2.7, nutpie 3.2-6.3

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the peak")

CODE = """
import json, sys, warnings
from pathlib import Path
import pymc as pm
import mjhmc_numba.pymc as mp
from mjhmc_numba.stored import groups_of
warnings.simplefilter("ignore")

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])

kind, tune, keep = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "keep"
with pm.Model() as model:
    n = 10_000
    if kind == "plain":
        pm.Normal("x", 0, 1, shape=n)
    elif kind == "transformed":
        pm.HalfNormal("x", 1, shape=n)
    else:
        x = pm.Normal("x", 0, 1, shape=n // 2)
        pm.Deterministic("y", 2 * x)
compiled = mp.compile(model, progressbar=False)
fixed = {"num_steps": 1, "refresh_rate": 0.3, "draw_interval": 1.0, "metric": "diag"}
fixed |= {} if tune else {"step_size": 0.1}

def run(draws, tune):
    return compiled.sample(draws, tune, 4, random_seed=1, cores=2, progressbar=False,
                           compute_convergence_checks=False, discard_tuned_samples=not keep,
                           **fixed)

run(10, min(tune, 10))
Path("/proc/self/clear_refs").write_text("5")  # the peak is that from here on
before = status("VmRSS")
data = run(500, tune)
peak = status("VmHWM") - before
groups = groups_of(data)
made = [name for name in groups if name.endswith(("posterior", "sample_stats"))]
print(json.dumps([peak, sum(groups[name].nbytes for name in made), sorted(made)]))
"""


@pytest.mark.parametrize(
    ("kind", "tune", "keep"),
    [
        ("plain", 0, ""),
        ("plain", 150, ""),
        ("plain", 150, "keep"),
        ("transformed", 150, ""),
        ("computed", 150, ""),
    ],
)
def test_the_peak_is_little_more_than_the_output(kind, tune, keep):
    done = subprocess.run(
        [sys.executable, "-c", CODE, kind, str(tune), keep],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    peak, output, groups = json.loads(done.stdout.splitlines()[-1])
    assert ("warmup_posterior" in groups) == bool(keep)
    assert output > 1.5e8
    assert peak <= BAR * output
