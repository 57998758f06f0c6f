"""A model is compiled in one go, once: later processes, other data and other names load it."""

import os
import shutil
import uuid
from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytest
from numba.core.caching import Cache, IndexDataCacheFile
from numba.core.errors import TypingError
from numba.core.untyped_passes import InlineInlinables

from mjhmc_numba.kernel import deferred
from mjhmc_numba.kernel.store import UnsafeCacheWarning, sources_stamp
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.pymc import native, op_functions
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.graph import density_graph
from tests.new_process import report_of, seconds_to_interrupt

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")

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


def caches_in(folder):
    """Where a new process finds nothing compiled."""
    return {
        "cache": folder / "ours",
        "PYTENSOR_FLAGS": f"base_compiledir={folder / 'pytensor'}",
    }


def test_a_later_process_computes_the_same_bits_and_compiles_nothing(tmp_path):
    caches = caches_in(tmp_path)
    first, second = (report_of(HIERARCHY, "", "0.0", **caches) for _ in range(2))
    assert (first["told"], second["told"]) == (["machine code"] * 2, [])
    assert (second["logp"], second["grad"]) == (first["logp"], first["grad"])
    # Nor does a model with other names and other data.
    third = report_of(HIERARCHY, "another_", "0.25", **caches)
    assert third["told"] == []
    assert third["logp"] != first["logp"]


DRAWS = """
import json, warnings
warnings.simplefilter("ignore")
import mjhmc_numba.pymc as mp
from tests.integrations.test_startup import hierarchy

drawn = mp.sample(100, 200, 2, hierarchy(), random_seed=3, quiet=True)["posterior"]
values = {name: drawn[name].values.ravel().tolist() for name in ("scale", "effect", "noise")}
print(json.dumps({name: [x.hex() for x in array] for name, array in values.items()}))
"""


@pytest.mark.long  # the sampler itself is compiled from nothing
def test_a_seed_makes_the_same_draws_with_a_cold_cache_and_with_a_warm_one(tmp_path):
    cold, warm = (report_of(DRAWS, **caches_in(tmp_path)) for _ in range(2))
    assert len(set(warm["noise"])) > 100
    assert warm == cold


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
    edited.write_text(f"# {uuid.uuid4()}: nothing like it is in the cache\n")
    monkeypatch.setattr(native, "SOURCES", (*native.SOURCES, edited))
    with watched(compile_now):
        density.logp_and_grad(np.zeros(density.ndim))
    assert len(emitted) == 1
    assert files == []


INTERRUPTED = """
import time, warnings
warnings.simplefilter("ignore")
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.pymc.density import ModelDensity
from tests.integrations.test_startup import hierarchy

density = ModelDensity(hierarchy())

def tell(what, seconds):
    if what == "machine code" and seconds is None:
        print("ready", flush=True)

try:
    with watched(tell):
        density.target()
    print("finished")
except KeyboardInterrupt:
    print(time.time(), flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_the_first_press_ends_the_compilation_of_a_model(tmp_path):
    seconds = seconds_to_interrupt(INTERRUPTED, 0.5, **caches_in(tmp_path))
    assert seconds is not None
    assert seconds < 1.0


def test_an_edit_of_what_surrounds_the_graph_makes_an_entry_stale(tmp_path, monkeypatch):
    copies = []
    for source in native.SOURCES:
        copies.append(tmp_path / source.name)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, copies[-1])
    monkeypatch.setattr(native, "SOURCES", tuple(copies))
    model = hierarchy()
    density = ModelDensity(model)
    graph = density_graph(model, density.value_vars, density.layout)
    fgraph = graph.compile(model).maker.fgraph
    keys = []
    for edited in (None, "density/table.py", "density/wrapper.py", "native.py"):
        if edited is not None:
            with open(tmp_path / edited, "a") as file:
                file.write("# edited\n")
        sources_stamp.cache_clear()
        keys.append(native.density_code(fgraph).key)
    sources_stamp.cache_clear()
    assert len(set(keys)) == len(keys)


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


def test_what_has_types_only_where_it_is_inlined_is_compiled_again_with_inlining():
    compiled = []

    class NeedsInlining:
        """A C function."""

        def compile(self):
            compiled.append(InlineInlinables.run_pass is usual)
            if not compiled[-1]:
                raise TypingError("no type")

    usual = InlineInlinables.run_pass
    native._compile(NeedsInlining())
    assert compiled == [False, True]
