"""A model is compiled in one go, once: later processes, other data and other names load it."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from numba.core.caching import Cache, IndexDataCacheFile

from mjhmc_numba.kernel import deferred
from mjhmc_numba.kernel.store import UnsafeCacheWarning
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.pymc import native, op_functions
from mjhmc_numba.pymc.density import ModelDensity

ROOT = Path(__file__).resolve().parents[2]

# Sums over observations, which a compiler may order as it likes.
HIERARCHY = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.pymc.density import ModelDensity
from tests.integrations.test_startup import hierarchy

told = []
with watched(lambda what, seconds: what == "machine code" and told.append(what)):
    density = ModelDensity(hierarchy(sys.argv[1], float(sys.argv[2])))
    logp, grad = density.logp_and_grad(np.linspace(-0.7, 0.9, density.ndim))
print(json.dumps({"logp": logp.hex(), "grad": [g.hex() for g in grad.tolist()], "told": told}))
"""


def hierarchy(prefix="", shift=0.0):
    """Groups with a common scale, and many observations."""
    group = np.arange(137) % 7
    data = np.sin(np.arange(137.0)) + shift
    with pm.Model() as model:
        scale = pm.HalfNormal(f"{prefix}scale")
        effect = pm.Normal(f"{prefix}effect", 0.0, scale, shape=7)
        noise = pm.HalfNormal(f"{prefix}noise")
        observed = pm.Data(f"{prefix}data", data)
        pm.StudentT(f"{prefix}y", nu=4, mu=effect[group], sigma=noise, observed=observed)
    return model


def evaluate(folder, prefix="", shift=0.0):
    """In a process of its own, with caches of its own."""
    environment = dict(
        os.environ,
        MJHMC_NUMBA_CACHE_DIR=str(folder / "ours"),
        PYTENSOR_FLAGS=f"base_compiledir={folder / 'pytensor'}",
    )
    done = subprocess.run(
        [sys.executable, "-c", HIERARCHY, prefix, str(shift)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_later_process_computes_the_same_bits_and_compiles_nothing(tmp_path):
    first, second = evaluate(tmp_path), evaluate(tmp_path)
    assert (first["told"], second["told"]) == (["machine code"] * 2, [])
    assert (second["logp"], second["grad"]) == (first["logp"], first["grad"])
    # Nor does a model with other names and other data.
    third = evaluate(tmp_path, "another_", 0.25)
    assert third["told"] == []
    assert third["logp"] != first["logp"]


def test_machine_code_is_made_for_the_c_function_alone_and_pytensors_cache_is_left_alone(
    tmp_path, monkeypatch
):
    emitted, files = [], []
    usual = deferred.DeferredLibrary._finalize_final_module

    def emit(self):
        emitted.append(self)
        usual(self)

    density = ModelDensity(hierarchy(shift=0.5))

    def compile_now(what, seconds):
        if what == "machine code" and seconds is None:
            monkeypatch.setattr(deferred.DeferredLibrary, "_finalize_final_module", emit)
            for name in ("load", "save"):
                monkeypatch.setattr(IndexDataCacheFile, name, lambda *args: files.append(args))

    edited = tmp_path / "edited.py"
    edited.write_text("# so that nothing is in the cache\n")
    monkeypatch.setattr(native, "SOURCES", (*native.SOURCES, edited))
    with watched(compile_now):
        density.logp_and_grad(np.zeros(density.ndim))
    assert len(emitted) == 1
    assert files == []


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_nothing_is_read_from_a_cache_of_pytensor_that_others_can_write(
    tmp_path, monkeypatch, mode
):
    """Where libraries cannot be put off, PyTensor's cache is used if it is safe."""
    tmp_path.chmod(mode)
    monkeypatch.setattr(op_functions, "can_defer", lambda: False)
    monkeypatch.setattr(op_functions, "NUMBA_CACHE_PATH", tmp_path)
    usual = Cache.load_overload
    unsafe = pytest.warns(UnsafeCacheWarning, match="PyTensor's cache")
    with nullcontext() if mode == 0o700 else unsafe, op_functions.compiled_in_one_go():
        assert (Cache.load_overload is usual) == (mode == 0o700)
    assert Cache.load_overload is usual
