"""A model is compiled in one go, once: later processes, other data and other names load it."""

import errno
import importlib
import os
import pickle
import shutil
import sys
import uuid
from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numba.core.caching import Cache, IndexDataCacheFile
from numba.core.errors import TypingError
from numba.core.untyped_passes import InlineInlinables

from mjhmc_numba.kernel import deferred
from mjhmc_numba.kernel.store import CacheWarning, UnsafeCacheWarning, sources_stamp
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.pymc import native, op_functions, python_machine
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


@pytest.fixture(scope="module")
def triple():
    """A function of PyTensor's that Numba compiles in its first call, and anew for each test."""
    x = pt.vector("x")
    return lambda: pytensor.function([x], 3.0 * x, mode="NUMBA")


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_nothing_is_read_from_a_cache_of_pytensor_that_others_can_write(
    tmp_path, monkeypatch, mode, triple
):
    """Neither for PyTensor's own functions, nor where libraries cannot be put off."""
    asked = []
    tmp_path.chmod(mode)
    monkeypatch.setattr(op_functions, "NUMBA_CACHE_PATH", tmp_path)
    monkeypatch.setattr(Cache, "load_overload", lambda *args: asked.append("read"))
    monkeypatch.setattr(Cache, "save_overload", lambda *args: asked.append("written"))
    usual = Cache.load_overload
    unsafe = pytest.warns(UnsafeCacheWarning, match="PyTensor's cache")
    with nullcontext() if mode == 0o700 else unsafe:
        function = op_functions.with_safe_cache(triple())
        assert function(np.ones(2)).tolist() == [3.0, 3.0]
        assert function(np.ones(2)).tolist() == [3.0, 3.0]
    assert set(asked) == ({"read", "written"} if mode == 0o700 else set())
    monkeypatch.setattr(op_functions, "can_defer", lambda: False)
    with nullcontext() if mode == 0o700 else unsafe, op_functions.compiled_in_one_go():
        asked.clear()
        Cache.load_overload(None, None, None)
        assert asked == (["read"] if mode == 0o700 else [])
    assert Cache.load_overload is usual


@pytest.mark.parametrize(
    "error",
    [
        EOFError("Ran out of input"),
        pickle.UnpicklingError("invalid load key"),
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EFBIG, os.strerror(errno.EFBIG)),
        OSError(errno.EROFS, os.strerror(errno.EROFS)),
        PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
    ],
    ids=lambda error: f"{type(error).__name__} {error}",
)
@pytest.mark.parametrize("doing", ["load_overload", "save_overload"])
def test_no_trouble_with_pytensors_cache_stops_pytensors_functions(
    monkeypatch, tmp_path, error, doing, triple
):
    def fail(*args):
        raise error

    tmp_path.chmod(0o700)
    monkeypatch.setattr(op_functions, "NUMBA_CACHE_PATH", tmp_path)
    monkeypatch.setattr(Cache, "load_overload", lambda *args: None)
    monkeypatch.setattr(Cache, "save_overload", lambda *args: None)
    monkeypatch.setattr(Cache, doing, fail)
    function = op_functions.with_safe_cache(triple())
    with pytest.warns(CacheWarning, match="PyTensor's cache") as caught:
        assert function(np.ones(2)).tolist() == [3.0, 3.0]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert function(np.ones(2)).tolist() == [3.0, 3.0]  # a second warning would be an error


DAMAGED = """
import json, sys, warnings
from pathlib import Path
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import pymc as pm
    import pytensor.tensor as pt
    from pytensor.graph import Apply, Op
    import mjhmc_numba.pymc as mp

    class Square(Op):
        def make_node(self, x):
            return Apply(self, [x], [x.type()])

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.asarray(inputs[0] ** 2)

        def grad(self, inputs, slopes):
            return [2 * inputs[0] * slopes[0]]

        pullback = lambda self, inputs, outputs, slopes: self.grad(inputs, slopes)

    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("more", -Square()(x))
    logp, grad = mp.ModelDensity(model).logp_and_grad(np.full(1, 0.5))
files = [path for path in Path(sys.argv[1]).rglob("*") if path.suffix in (".nbi", ".nbc")]
told = [w.category.__name__ for w in caught if "acheWarning" in w.category.__name__]
print(json.dumps({"logp": logp, "grad": grad.tolist(), "files": len(files), "told": told}))
for path in files:
    path.write_bytes(b"garbage" if len(sys.argv) < 3 else b"")
"""


@pytest.mark.parametrize("damage", [[], ["empty"]])
def test_a_damaged_cache_of_pytensor_stops_no_model_that_runs_through_python(tmp_path, damage):
    caches = caches_in(tmp_path)
    sound, broken = (report_of(DAMAGED, str(tmp_path), *damage, **caches) for _ in range(2))
    assert sound["files"] > 0
    assert (sound["told"], broken["told"]) == ([], ["CacheWarning"])
    assert (broken["logp"], broken["grad"]) == (sound["logp"], sound["grad"])
    assert sound["grad"] == [-3 * 0.5]


FIRST_RUN = """
import json, sys, warnings
from pathlib import Path
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import mjhmc_numba.pymc as mp
from tests.integrations.test_startup import hierarchy
from pytensor.compile.mode import FAST_COMPILE

assert not FAST_COMPILE.linker.use_cloop
logp, grad = mp.ModelDensity(hierarchy()).logp_and_grad(np.zeros(9))
print(json.dumps({
    "logp": logp, "c": any("lazylinker" in path.name for path in Path(sys.argv[1]).rglob("*")),
    "in C": [name for name in sys.modules if name.startswith("pytensor.link.c.cvm")],
    "told": [str(w.message) for w in caught if "acheWarning" in w.category.__name__],
}))
"""


def test_the_first_run_of_a_model_on_a_machine_calls_no_c_compiler(tmp_path):
    report = report_of(FIRST_RUN, str(tmp_path), **caches_in(tmp_path))
    assert (report["c"], report["in C"], report["told"]) == (False, [], [])
    assert np.isfinite(report["logp"])


def test_a_folder_of_pytensor_that_cannot_be_made_costs_one_warning(tmp_path):
    caches = caches_in(tmp_path)
    usual = report_of(FIRST_RUN, str(tmp_path), **caches)
    (tmp_path / "file").write_text("in the way")
    caches["PYTENSOR_FLAGS"] = f"base_compiledir={tmp_path / 'file' / 'pytensor'}"
    report = report_of(FIRST_RUN, str(tmp_path), **caches)
    assert len(report["told"]) == 1
    assert "PyTensor's folder of compiled code cannot be made" in report["told"][0]
    assert report["logp"] == usual["logp"]


def test_the_machine_in_c_can_be_imported_after_initial_points_were_compiled():
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, python_machine.MACHINE_IN_C, raising=False)
        with python_machine.in_python_machine(), pytest.raises(ImportError):
            importlib.import_module(python_machine.MACHINE_IN_C)
        assert python_machine.MACHINE_IN_C not in sys.modules
        patch.setitem(sys.modules, python_machine.MACHINE_IN_C, sys)
        with python_machine.in_python_machine():
            assert sys.modules[python_machine.MACHINE_IN_C] is sys
        assert sys.modules[python_machine.MACHINE_IN_C] is sys


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
