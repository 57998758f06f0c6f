"""Python code in a process of its own, with caches of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _environment(folder, cache, variables):
    """Of a process that imports from `folder`; machine code goes to `cache`."""
    environment = dict(os.environ, PYTHONPATH=str(folder)) | variables
    if cache is not None:
        environment["MJHMC_NUMBA_CACHE_DIR"] = str(cache)
    return environment


def run(code, *arguments, folder=ROOT, cache=None, **variables):
    """Run code to its end; returns what `subprocess.run` does."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=_environment(folder, cache, variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def report_of(code, *arguments, **how):
    """What code prints, as JSON; it must not fail. See `run`."""
    done = run(code, *arguments, **how)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def seconds_to_interrupt(code, delay, *, cache, **variables):
    """Press Ctrl-C some seconds after code has printed "ready"; it prints the time when it ends.

    Returns the seconds between the two, or None if it had finished and said so.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=_environment(ROOT, cache, variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    time.sleep(delay)
    pressed = time.time()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return None if "finished" in out else float(out) - pressed
