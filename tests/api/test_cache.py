"""The kernel is compiled once per machine, never stale, and never loaded from an unsafe place."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Calls a kernel function of one file that calls one of another, and says whether it was compiled.
CALL = """
import json, warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from mjhmc_numba.kernel import jump, layout
state = np.zeros(1, layout.STATE)
words = np.arange(1, 5, dtype=np.uint64)
state["rng"], state["clock"], state["g_max"] = words.ctypes.data, layout.CLOCK_POISSON, 1.0
gap = jump.ring_gap(state[0])
stats = jump.ring_gap.stats
print(json.dumps({"gap": gap, "hits": sum(stats.cache_hits.values()),
                  "misses": sum(stats.cache_misses.values()),
                  "warnings": [str(w.message) for w in caught]}))
"""

SAMPLE = """
import json, warnings
warnings.simplefilter("ignore")
import mjhmc_numba as mj
from mjhmc_numba.kernel import chain
from tests.api.densities import log_gamma
result = mj.sample(log_gamma, ndim=2, draws=20, tune=20, chains=2, seed=1, progress=False)
stats = chain.run_ticks.stats
print(json.dumps({"hits": sum(stats.cache_hits.values()),
                  "misses": sum(stats.cache_misses.values()), "draws": result.draws.tolist()}))
"""

KERNEL_COMPILATIONS = """
import json, numba
from numba.core import event
import mjhmc_numba as mj

@numba.njit
def density(x, grad):
    grad[:] = -x
    return -0.5 * (x @ x)

with event.install_recorder("numba:compile") as recorder:
    mj.sample(density, ndim=2, draws=20, tune=20, chains=2, seed=1, progress=False)
modules = [entry.data["dispatcher"].py_func.__module__ for _, entry in recorder.buffer]
print(json.dumps(sorted(set(modules))))
"""


def run_python(code, folder=ROOT, cache=None):
    environment = dict(os.environ, PYTHONPATH=str(folder))
    if cache is not None:
        environment["MJHMC_NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def copy(tmp_path):
    """A copy of the package, to be edited."""
    shutil.copytree(
        ROOT / "mjhmc_numba", tmp_path / "mjhmc_numba", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def test_a_second_process_loads_what_the_first_compiled(copy):
    cache = copy / "cache"
    first, second = (run_python(CALL, copy, cache) for _ in range(2))
    assert (first["hits"], first["misses"]) == (0, 1)
    assert (second["hits"], second["misses"]) == (1, 0)
    assert second["gap"] == first["gap"]


def test_an_edit_of_another_kernel_file_makes_an_entry_stale(copy):
    cache = copy / "cache"
    before = run_python(CALL, copy, cache)
    edited = copy / "mjhmc_numba" / "kernel" / "random.py"
    source = edited.read_text()
    line = "return -math.log(uniform(rng))\n"
    assert source.count(line) == 1
    edited.write_text(source.replace(line, "return -2.0 * math.log(uniform(rng))\n"))
    after = run_python(CALL, copy, cache)
    assert after["misses"] == 1
    assert after["gap"] == 2 * before["gap"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "mjhmc_numba" / "kernel").glob("*.py")), ids=lambda path: path.name
)
def test_the_stamp_changes_with_every_file_of_the_kernel(path, tmp_path, monkeypatch):
    from mjhmc_numba.kernel import compilation

    folder = tmp_path / "kernel"
    shutil.copytree(path.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(compilation, "__file__", str(folder / "compilation.py"))
    before = compilation.sources_stamp.__wrapped__()
    (folder / path.name).write_text(path.read_text() + "# edited\n")
    assert compilation.sources_stamp.__wrapped__() != before


def test_a_new_cache_folder_belongs_to_its_owner_alone(copy):
    cache = copy / "parent" / "cache"
    run_python(CALL, copy, cache)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert any(cache.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_cache_folder_that_others_can_write_is_refused_with_a_warning(copy, mode):
    cache = copy / "cache"
    cache.mkdir()
    cache.chmod(mode)
    report = run_python(CALL, copy, cache)
    assert report["hits"] == 0
    assert any("can be written by other users" in message for message in report["warnings"])
    assert list(cache.iterdir()) == []


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_sampling_works_without_a_cache(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    refused, usual = run_python(SAMPLE, cache=cache), run_python(SAMPLE)
    assert refused["draws"] == usual["draws"]
    assert list(cache.iterdir()) == []


def test_a_process_with_a_warm_cache_compiles_nothing_of_the_kernel():
    run_python(SAMPLE)
    second = run_python(SAMPLE)
    assert second["misses"] == 0
    assert second["hits"] > 0
    modules = run_python(KERNEL_COMPILATIONS)
    assert modules  # the density
    assert not any(name.startswith("mjhmc_numba.kernel") for name in modules)
