"""The kernel is compiled once per machine, never stale, and never loaded from an unsafe place."""

import errno
import hashlib
import os
import shutil
import stat
from types import SimpleNamespace

import llvmlite
import numba
import pytest

from mjhmc_numba.kernel import deferred, store
from mjhmc_numba.kernel.compilation import kernel_jit
from tests.new_process import ROOT, report_of

# Calls a kernel function of one file that calls one of another, and says whether it was compiled.
CALL = """
import json, warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from mjhmc_numba.kernel import deferred, jump, layout
    emitted = []
    emit = deferred.DeferredLibrary._finalize_final_module
    deferred.DeferredLibrary._finalize_final_module = lambda self: emitted.append(0) or emit(self)
    state = np.zeros(1, layout.STATE)
    words = np.arange(1, 5, dtype=np.uint64)
    state["rng"], state["clock"], state["g_max"] = words.ctypes.data, layout.CLOCK_POISSON, 1.0
    gap = jump.ring_gap(state[0])
stats = jump.ring_gap.stats
print(json.dumps({"gap": gap, "hits": sum(stats.cache_hits.values()),
                  "misses": sum(stats.cache_misses.values()), "emitted": len(emitted),
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
modules = [str(entry.data["dispatcher"].py_func.__module__) for _, entry in recorder.buffer]
print(json.dumps(sorted(set(modules))))
"""


@pytest.fixture
def copy(tmp_path):
    """A copy of the package, to be edited."""
    shutil.copytree(
        ROOT / "mjhmc_numba", tmp_path / "mjhmc_numba", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def test_a_second_process_loads_what_the_first_compiled(copy):
    cache = copy / "cache"
    first, second = (report_of(CALL, folder=copy, cache=cache) for _ in range(2))
    assert (first["hits"], first["misses"]) == (0, 1)
    assert (second["hits"], second["misses"]) == (1, 0)
    assert second["gap"] == first["gap"]


def test_an_edit_of_another_kernel_file_makes_an_entry_stale(copy):
    cache = copy / "cache"
    before = report_of(CALL, folder=copy, cache=cache)
    edited = copy / "mjhmc_numba" / "kernel" / "random.py"
    source = edited.read_text()
    line = "return -math.log(uniform(rng))\n"
    assert source.count(line) == 1
    edited.write_text(source.replace(line, "return -2.0 * math.log(uniform(rng))\n"))
    after = report_of(CALL, folder=copy, cache=cache)
    assert after["misses"] == 1
    assert after["gap"] == 2 * before["gap"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "mjhmc_numba" / "kernel").glob("*.py")), ids=lambda path: path.name
)
def test_the_stamp_changes_with_every_file_of_the_kernel(path, tmp_path, monkeypatch):
    folder = tmp_path / "kernel"
    shutil.copytree(path.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(store, "__file__", str(folder / "store.py"))
    before = store.sources_stamp.__wrapped__()
    (folder / path.name).write_text(path.read_text() + "# edited\n")
    assert store.sources_stamp.__wrapped__() != before


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_new_cache_folder_and_its_parents_belong_to_their_owner_alone(copy):
    cache = copy / "grandparent" / "parent" / "cache"
    report_of("import os; os.umask(0)\n" + CALL, folder=copy, cache=cache)
    for folder in (cache, cache.parent, cache.parent.parent, *cache.iterdir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(cache.glob("*/*.bin"))


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_cache_folder_that_others_can_write_is_refused_with_a_warning(copy, mode):
    cache = copy / "cache"
    cache.mkdir()
    cache.chmod(mode)
    report = report_of(CALL, folder=copy, cache=cache)
    assert report["hits"] == 0
    assert any("can be written by other users" in message for message in report["warnings"])
    assert list(cache.iterdir()) == []


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_sampling_works_without_a_cache(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    refused, usual = report_of(SAMPLE, cache=cache), report_of(SAMPLE)
    assert refused["draws"] == usual["draws"]
    assert list(cache.iterdir()) == []


def test_a_process_with_a_warm_cache_compiles_nothing_of_the_kernel():
    report_of(SAMPLE)
    second = report_of(SAMPLE)
    assert second["misses"] == 0
    assert second["hits"] > 0
    modules = report_of(KERNEL_COMPILATIONS)
    assert modules  # the density
    assert not any(name.startswith("mjhmc_numba.kernel") for name in modules)


# ------------------------------------------------------------------ libraries that are put off


def test_the_inside_of_this_numba_is_as_expected():
    assert deferred.can_defer.__wrapped__()


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (numba.core.codegen.JITCodeLibrary, "_optimize_final_module"),
        (numba.core.codegen.JITCPUCodegen, "_function_pass_manager"),
        (numba.core.codegen.JITCPUCodegen, "set_env"),
        (numba.core.codegen.JitEngine, "is_symbol_defined"),
    ],
)
def test_another_inside_of_numba_is_noticed(where, name, monkeypatch):
    owner = next(one for one in where.__mro__ if name in vars(one))
    monkeypatch.delattr(owner, name)
    assert not deferred.can_defer.__wrapped__()


def test_only_what_python_calls_is_emitted_and_numbas_own_way_gives_the_same(copy):
    ours = report_of(CALL, folder=copy, cache=copy / "cache")
    plain = report_of(CALL, folder=copy, cache=copy / "cache", MJHMC_NUMBA_DEFER="0")
    assert (ours["misses"], ours["emitted"]) == (1, 1)
    assert (plain["misses"], plain["emitted"]) == (1, 0)
    assert plain["gap"] == ours["gap"]


@pytest.mark.long
def test_draws_are_the_same_in_numbas_own_way(tmp_path):
    plain = report_of(SAMPLE, cache=tmp_path / "cache", MJHMC_NUMBA_DEFER="0")
    assert plain["draws"] == report_of(SAMPLE)["draws"]


def test_functions_that_one_definition_makes_are_told_apart(root):
    def add(number):
        @kernel_jit
        def added(x):
            return x + number

        return added

    assert add(1.0)(1.0) == 2.0
    assert add(2.0)(1.0) == 3.0
    again = add(1.0)
    assert again(1.0) == 2.0
    assert sum(again.stats.cache_hits.values()) == 1


# ------------------------------------------------------------------------------- the store


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A store of its own, which has warned of nothing yet."""
    monkeypatch.setenv("MJHMC_NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_told", [])
    forget()
    yield tmp_path / "cache"
    forget()


def forget():
    store.cache_folder.cache_clear()
    store.environment_folder.cache_clear()


def only_file():
    (path,) = store.environment_folder().glob("*.bin")
    return path


def truncate():
    only_file().write_bytes(only_file().read_bytes()[:40])


def flip_a_bit():
    content = bytearray(only_file().read_bytes())
    content[-3] ^= 1
    only_file().write_bytes(content)


def hold_no_pickle():
    only_file().write_bytes(hashlib.sha256(b"garbage").digest() + b"garbage")


def be_empty():
    only_file().write_bytes(b"")


def be_unreadable():  # even for root
    path = only_file()
    path.unlink()
    path.mkdir()


def test_what_was_saved_is_loaded(root):
    store.save("name", {"a": 1})
    assert store.holds("name")
    assert store.load("name") == {"a": 1}
    assert store.load("another name") is None
    assert not store.holds("another name")


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, hold_no_pickle, be_empty, be_unreadable])
def test_a_damaged_file_is_not_loaded_and_one_warning_says_so(root, damage):
    store.save("name", "value")
    damage()
    with pytest.warns(store.CacheWarning, match="cannot be read"):
        assert store.load("name") is None
    assert store.load("name") is None  # a second warning would be an error


def test_a_damaged_file_is_replaced(root):
    store.save("name", "value")
    flip_a_bit()
    with pytest.warns(store.CacheWarning):
        store.load("name")
    store.save("name", "new value")
    assert store.load("name") == "new value"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EACCES])
def test_a_full_or_read_only_disk_costs_one_warning(root, monkeypatch, code):
    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(store.os, "replace", fail)
    with pytest.warns(store.CacheWarning, match="cannot be written"):
        store.save("name", "value")
    store.save("name", "value")  # a second warning would be an error
    assert list(store.environment_folder().iterdir()) == []
    assert store.load("name") is None


def test_a_cache_for_reading_only_is_read(root, monkeypatch):
    """As that of an image, compiled ahead when it was built."""

    def fail(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    store.save("name", "value")
    forget()
    monkeypatch.setattr(store.os, "utime", fail)
    monkeypatch.setattr(store.tempfile, "mkstemp", fail)
    assert store.load("name") == "value"
    with pytest.warns(store.CacheWarning, match="cannot be written"):
        store.save("another name", "value")
    assert store.load("name") == "value"


@pytest.mark.skipif(os.name != "posix", reason="owners are those of POSIX")
@pytest.mark.parametrize(
    ("owner", "mode", "unsafe"),
    [
        (1000, 0o700, False),
        (0, 0o755, False),  # of an image that the superuser built
        (0, 0o775, True),
        (1001, 0o700, True),
        (1001, 0o755, True),
    ],
)
def test_only_the_owner_and_the_superuser_are_trusted(monkeypatch, owner, mode, unsafe):
    monkeypatch.setattr(store.os, "getuid", lambda: 1000)
    folder = SimpleNamespace(stat=lambda: SimpleNamespace(st_uid=owner, st_mode=mode))
    assert store.others_can_write(folder) == unsafe


def test_a_folder_that_cannot_be_made_costs_one_warning(root, monkeypatch):
    root.write_text("a file is in the way")
    with pytest.warns(store.CacheWarning, match="cannot be made"):
        store.save("name", "value")
    assert store.load("name") is None  # a second warning would be an error


def test_no_home_costs_one_warning(root, monkeypatch):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("MJHMC_NUMBA_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(store.Path, "home", fail)
    with pytest.warns(store.CacheWarning, match="home directory"):
        store.save("name", "value")
    assert store.load("name") is None  # a second warning would be an error


@pytest.mark.skipif(os.name != "posix", reason="limits are those of POSIX")
def test_a_limit_on_the_size_of_files_stops_nobody(copy):
    limit = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
"""
    reports = [report_of(limit + CALL, folder=copy, cache=copy / "cache") for _ in range(2)]
    for report in reports:
        assert report["misses"] == 1
        assert sum("cannot be written" in message for message in report["warnings"]) == 1


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [(numba, "__version__", "0.1"), (llvmlite, "__version__", "0.1"), (numba.config, "OPT", 1)],
)
def test_environments_live_side_by_side(root, monkeypatch, owner, name, value):
    store.save("name", "ours")
    with monkeypatch.context() as other:
        other.setattr(owner, name, value)
        forget()
        assert store.load("name") is None
        store.save("name", "theirs")
        assert store.load("name") == "theirs"
    forget()
    assert store.load("name") == "ours"


def test_the_processor_is_part_of_the_environment(root, monkeypatch):
    generator = numba.core.registry.cpu_target.target_context.codegen()
    assert generator.magic_tuple() in store.environment()
    assert generator._get_host_cpu_name() in generator.magic_tuple()


def test_old_environments_and_files_are_removed_and_nothing_else(root, monkeypatch):
    monkeypatch.setattr(store, "MOST_ENVIRONMENTS", 3)
    monkeypatch.setattr(store, "MOST_FILES", 4)
    root.mkdir(mode=0o700)
    (root / "of somebody else").mkdir()
    (root / "notes.txt").write_text("not ours")
    for k in range(6):
        monkeypatch.setattr(store.numba, "__version__", str(k))
        forget()
        for n in range(7):
            store.save(f"name{n}", n)
            os.utime(store.environment_folder() / f"name{n}.bin", (n, n))
        assert len(list(store.environment_folder().iterdir())) <= 5
        os.utime(store.environment_folder(), (k, k))
    left = {path.name for path in root.iterdir()}
    assert {"of somebody else", "notes.txt"} < left
    assert len(left) <= 2 + 4
    assert store.load("name6") == 6
    assert store.load("name0") is None
