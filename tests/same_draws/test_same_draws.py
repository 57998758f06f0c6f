"""Code that is moved must not move the draws."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_draws_are_those_that_were_recorded():
    """In a process of its own, as PyTensor's flags are read once."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.same_draws.record"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    if not report["known"]:
        pytest.skip(
            f"Nobody has recorded draws for {report['machine']}: on a commit that you trust, run "
            "python -m tests.same_draws.record --write"
        )
    assert report["different"] == []
