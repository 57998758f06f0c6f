"""Draws on disk are those that would have been in memory, readable at any time."""

import _thread
import errno
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray

import mjhmc_numba as mj
from mjhmc_numba.stats import COLUMN, Rows
from mjhmc_numba.storage import zarr_store
from mjhmc_numba.storage.checkpoint import ChainFiles
from mjhmc_numba.storage.stream import Thinned
from mjhmc_numba.storage.zarr_store import ChainStore
from mjhmc_numba.stored import groups_of
from tests.api.densities import FIXED, log_gamma
from tests.new_process import report_of
from tests.same_bits import assert_same_stats
from tests.storage.runs import RUN, ridge

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(zarr_store, "NUMBERS_PER_CHUNK", 30 * 64)


@pytest.fixture(scope="module")
def whole():
    return mj.sample(ridge, **RUN)


def assert_stored(path, result):
    data = mj.from_store(path)
    np.testing.assert_array_equal(data["posterior"]["x"], result.draws)
    stats = {name: np.asarray(values) for name, values in data["sample_stats"].data_vars.items()}
    assert set(stats.pop("valid_draws")) == {result.draws.shape[1]}
    assert_same_stats(stats, result.stats)
    for name, values in stats.items():
        assert values.dtype == result.stats[name].dtype


def test_what_is_stored_is_what_would_have_been_returned(whole, tmp_path):
    stored = mj.sample(ridge, store=tmp_path / "s", **RUN)
    assert stored.draws == RUN["draws"]
    assert_stored(tmp_path / "s", whole)
    assert stored.gradients == whole.gradients
    assert stored.warnings == whole.warnings
    assert [t.step_size for t in stored.tuned] == [t.step_size for t in whole.tuned]
    attributes = stored.to_arviz()["posterior"].attrs
    assert attributes["step_size"] == [t.step_size for t in whole.tuned]


def test_with_the_tools_of_the_field_alone(whole, tmp_path):
    mj.sample(ridge, store=tmp_path / "s", **RUN)
    for group in ("posterior", "sample_stats"):
        data = xarray.open_zarr(tmp_path / "s", group=group)
        assert data.sizes["draw"] == RUN["draws"]
        assert list(data.chain) == [0, 1]
    tree = xarray.open_datatree(tmp_path / "s", engine="zarr")
    np.testing.assert_array_equal(tree["posterior"]["x"], whole.draws)


READER = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, xarray
group = xarray.open_zarr(sys.argv[1], group="sample_stats")
x = xarray.open_zarr(sys.argv[1], group="posterior")["x"]
valid = [int(n) for n in group["valid_draws"]]
read = [bool(np.isfinite(x[k, :n]).all() and (group["n_steps"][k, :n] > 0).all())
        for k, n in enumerate(valid)]
print(json.dumps({"valid": valid, "finite": read, "length": x.sizes["draw"]}))
"""


def test_another_process_reads_it_while_it_grows(tmp_path, monkeypatch):
    write, seen = ChainStore.write, []

    def write_and_read(self, first, draws, stats):
        write(self, first, draws, stats)
        if first >= 100 and not seen:
            seen.append(None)
            command = [sys.executable, "-c", READER, str(tmp_path / "s")]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stderr
            seen[0] = json.loads(ended.stdout)
            part = groups_of(mj.from_store(tmp_path / "s"))["posterior"]["x"]
            seen.append((part.shape, bool(np.isfinite(part).all())))

    monkeypatch.setattr(ChainStore, "write", write_and_read)
    mj.sample(ridge, store=tmp_path / "s", cores=1, **RUN)
    report, (shape, is_finite) = seen
    assert report["length"] == RUN["draws"]
    assert report["finite"] == [True, True]
    assert 100 <= report["valid"][0] < RUN["draws"]
    assert report["valid"][1] == 0
    assert shape == (1, report["valid"][0], RUN["ndim"])
    assert is_finite


def test_a_full_disk_is_a_typed_error_and_leaves_what_was_written(whole, tmp_path, monkeypatch):
    write = ChainStore.write

    def fill_up(self, first, draws, stats):
        if first >= 200:
            with zarr_store._typed(self.path):
                raise OSError(errno.ENOSPC, "No space left on device")
        write(self, first, draws, stats)

    monkeypatch.setattr(ChainStore, "write", fill_up)
    with pytest.raises(mj.StorageError, match="No space left") as caught:
        mj.sample(ridge, store=tmp_path / "s", cores=1, **RUN)
    x = mj.from_store(tmp_path / "s")["posterior"]["x"]
    made = x.sizes["draw"]
    assert 0 < made < RUN["draws"]
    np.testing.assert_array_equal(x, whole.draws[:1, :made])
    assert caught.value.result.draws == made


def test_stopped_it_goes_on_with_a_checkpoint(whole, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    save = ChainFiles.save

    def save_or_stop(self, state, part):
        if state["made"] >= 150:
            raise Killed
        save(self, state, part)

    places = {"store": tmp_path / "s", "checkpoint": tmp_path / "c"}
    with monkeypatch.context() as patch:
        patch.setattr(ChainFiles, "save", save_or_stop)
        with pytest.raises(Killed):
            mj.sample(ridge, every=0, **places, **RUN)
    stored = mj.sample(ridge, **places, **RUN)
    assert_stored(tmp_path / "s", whole)
    assert stored.gradients == whole.gradients
    with pytest.raises(mj.CheckpointError, match="what differs: store"):
        mj.sample(ridge, checkpoint=tmp_path / "c", **RUN)


def test_interrupted_it_has_the_draws_so_far(tmp_path, monkeypatch):
    write, sent = ChainStore.write, []

    def write_and_interrupt(self, first, draws, stats):
        write(self, first, draws, stats)
        if self.chain == 1 and not sent:
            sent.append(first)
            _thread.interrupt_main()

    monkeypatch.setattr(ChainStore, "write", write_and_interrupt)
    run = {**FIXED, "ndim": 3, "seed": 5, "chains": 2, "draws": 10_000, "cores": 2}
    stored = mj.sample(log_gamma, store=tmp_path / "s", **run)
    assert stored.interrupted
    x = stored.to_arviz()["posterior"]["x"]
    assert 0 < stored.draws < 10_000
    assert list(x.chain) == stored.chains
    assert x.shape == (len(stored.chains), stored.draws, 3)
    assert np.isfinite(x).all()
    if len(stored.chains) == 2:  # then nothing else is kept
        whole = xarray.open_zarr(tmp_path / "s", group="posterior")["x"]
        assert whole.shape == x.shape


@pytest.mark.parametrize("other", [{"keep_warmup": True}, {"jumps": True}, {"executor": "any"}])
def test_what_does_not_go_with_a_store_is_refused(other, tmp_path):
    with pytest.raises(mj.SettingsError):
        mj.sample(ridge, store=tmp_path / "s", **RUN, **other)


def test_a_path_that_is_there_is_refused(tmp_path):
    with pytest.raises(mj.StorageError, match="exists already"):
        mj.sample(ridge, store=tmp_path, **RUN)
    with pytest.raises(mj.StorageError, match="path of a folder"):
        mj.sample(ridge, store=3, **RUN)
    with pytest.raises(mj.StorageError, match="no store"):
        mj.from_store(tmp_path / "nothing")


def test_a_store_is_not_extended(tmp_path):
    stored = mj.sample(ridge, store=tmp_path / "s", **RUN)
    with pytest.raises(mj.SettingsError, match="not extended"):
        stored.thinned.extend(10)


# --- Thinned


def rows_of(rng, n, d=2):
    rows = Rows.empty(n, d)
    for array in rows:
        array[...] = rng.normal(size=array.shape)
    rows.stats[:, COLUMN["n_gradients"]] = rng.integers(1, 9, n)
    rows.stats[:, COLUMN["longest_stay"]] = rng.integers(1, 50, n)
    return rows


@pytest.mark.parametrize("parts", [[9000], [1, 4000, 3, 4996], [500] * 18])
def test_thinned_draws_are_every_kth_with_the_counts_of_all(parts):
    rows = rows_of(np.random.default_rng(1), 9000)
    thinned, first = Thinned(2), 0
    for n in parts:
        thinned.add(Rows(*(array[first : first + n] for array in rows)))
        first += n
    kept, k = thinned.rows(), thinned.stride
    assert 2000 <= len(kept.draws) <= 4000
    np.testing.assert_array_equal(kept.draws, rows.draws[k - 1 :: k])
    counted = COLUMN["n_gradients"]
    assert kept.stats[:, counted].sum() == rows.stats[:, counted].sum()
    sums = rows.stats[: 9000 // k * k, counted].reshape(-1, k).sum(1)
    np.testing.assert_array_equal(kept.stats[:-1, counted], sums[:-1])
    stay = COLUMN["longest_stay"]
    assert kept.stats[:, stay].max() == rows.stats[:, stay].max()


# --- many short chains

MANY = {"ndim": 3, "draws": 40, "tune": 40, "chains": 70, "seed": 1, "progress": False}


@pytest.fixture
def small_batches(monkeypatch):
    """Chunks of about 8 chains, and so several batches and a last one that is not full."""
    monkeypatch.setattr(zarr_store, "NUMBERS_PER_CHUNK", 8 * 40 * 32)


@pytest.mark.parametrize("warmup", ["separate", "pooled"])
def test_many_chains_share_files_and_are_those_of_memory(tmp_path, small_batches, warmup):
    stored = mj.sample(log_gamma, store=tmp_path / "s", warmup=warmup, **MANY)
    memory = mj.sample(log_gamma, warmup=warmup, **MANY)
    data = stored.to_arviz()
    np.testing.assert_array_equal(data["posterior"]["x"].values, memory.draws)
    for name in ("lp", "n_steps", "divergences", "acceptance_rate"):
        np.testing.assert_array_equal(data["sample_stats"][name].values, memory.stats[name])
    files = list((tmp_path / "s" / "sample_stats" / "lp").glob("*.0"))
    assert 1 < len(files) < 20
    if warmup == "pooled":
        np.testing.assert_allclose(stored.nested_r_hat(), memory.nested_r_hat(), rtol=1e-12)
        assert list(data["posterior"].attrs["superchains"]) == memory.superchains


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")
def test_a_chain_that_fails_costs_no_draws_of_those_that_ended(tmp_path, small_batches):
    calls = []

    def failing(x):
        calls.append(0)
        if len(calls) > 3000:
            raise ZeroDivisionError
        return -0.5 * x @ x, -x

    with pytest.raises(ZeroDivisionError) as raised:
        mj.sample(failing, store=tmp_path / "s", **MANY | FIXED | {"cores": 1})
    made = raised.value.result.thinned.chains
    assert 2 < len(made) < 70
    data = mj.from_store(tmp_path / "s")
    memory = mj.sample(lambda x: (-0.5 * x @ x, -x), **MANY | FIXED)
    kept = data["posterior"]["chain"].values
    assert set(made) <= set(kept)
    np.testing.assert_array_equal(data["posterior"]["x"].values, memory.draws[kept])


def test_the_draws_in_memory_do_not_grow_with_the_chains():
    rows = rows_of(np.random.default_rng(1), 1000)
    thinned = [Thinned(2, chains) for chains in (4, 100, 1000)]
    for each in thinned:
        each.add(rows)
    lengths = [len(each.rows().draws) for each in thinned]
    assert lengths[0] == 1000
    assert 320 <= lengths[1] <= 640
    assert 32 <= lengths[2] <= 64


MANY_MEMORY = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
import mjhmc_numba as mj
from tests.api.densities import log_gamma
run = dict(ndim=10, seed=1, progress=False, tune=50, cores=2, warmup="pooled")
mj.sample(log_gamma, draws=20, chains=20, store=sys.argv[1] + "w", **run)
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = resident()
stored = mj.sample(log_gamma, draws=2000, chains=400, store=sys.argv[1], **run)
print(json.dumps([resident() - before, float(stored.nested_r_hat().max())]))
"""


@pytest.mark.long
def test_hundreds_of_chains_take_less_memory_than_their_draws(tmp_path):
    """240 MB are written; what is kept of 400 chains is about 20 MB."""
    more, r_hat = report_of(MANY_MEMORY, str(tmp_path / "s"))
    assert more < 80e6
    assert r_hat < 1.05


MEMORY = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import mjhmc_numba as mj
from tests.api.densities import log_gamma
mj.sample(log_gamma, ndim=10, seed=1, progress=False, draws=2_500_000, chains=4, store=sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.long
def test_ten_million_draws_take_less_than_300_megabytes(tmp_path):
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "s")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(ended.stdout) * 1024 < 300e6
