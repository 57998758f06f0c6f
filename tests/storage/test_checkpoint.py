"""A run that was killed goes on to the very draws that it would have made."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import mjhmc_numba as mj
from mjhmc_numba.storage import files
from mjhmc_numba.storage.checkpoint import ChainFiles
from tests.api.densities import log_gamma, scaled_normal
from tests.same_bits import assert_same_stats
from tests.storage.runs import FROZEN, RUN, ridge

ROOT = Path(__file__).resolve().parents[2]

# Runs are short here; whether their draws can be trusted is asserted elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")


def assert_same(one, other):
    np.testing.assert_array_equal(one.draws, other.draws)
    assert_same_stats(one.stats, other.stats)
    assert one.gradients == other.gradients
    assert str(one.warmup_windows) == str(other.warmup_windows)  # NaN is NaN
    assert (one.warmup_draws is None) == (other.warmup_draws is None)
    if one.warmup_draws is not None:
        np.testing.assert_array_equal(one.warmup_draws, other.warmup_draws)
        assert_same_stats(one.warmup_stats, other.warmup_stats)
    for mine, others in zip(one.jumps or [], other.jumps or [], strict=True):
        for name, values in mine.items():
            np.testing.assert_array_equal(values, others[name])


@pytest.fixture(scope="module")
def whole():
    return mj.sample(ridge, **RUN)


def kill(folder, share, moment):
    command = [sys.executable, "-m", "tests.storage.killed", str(folder), str(share), moment]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == -9, ended.stderr


def test_killed_four_times_it_ends_with_the_same_bits(whole, tmp_path):
    folder = tmp_path / "run"
    kill(folder, 0.2, "between")  # in the warm-up
    kill(folder, 0.5, "after")
    kill(folder, 0.75, "rename")
    kill(folder, 0.9, "before")
    assert_same(mj.sample(ridge, checkpoint=folder, **RUN), whole)


@pytest.mark.long
@pytest.mark.parametrize("share", [0.2, 0.5, 0.75, 0.9])
@pytest.mark.parametrize("moment", ["before", "between", "rename", "after"])
def test_killed_at_any_moment(whole, tmp_path, share, moment):
    kill(tmp_path / "run", share, moment)
    assert_same(mj.sample(ridge, checkpoint=tmp_path / "run", **RUN), whole)


def states_on_the_way(monkeypatch, folder, into):
    """Copy the folder after each checkpoint of the first chain, as a kill would leave it."""
    save = ChainFiles.save

    def save_and_copy(self, state, part):
        save(self, state, part)
        if self.chain == 0:
            shutil.copytree(folder, into / f"{len(list(into.iterdir())):03d}")

    monkeypatch.setattr(ChainFiles, "save", save_and_copy)


def go_on_from_some(monkeypatch, tmp_path, target, whole, **options):
    """Compare runs from 5 of the checkpoints with the whole run."""
    copies = tmp_path / "copies"
    copies.mkdir()
    with monkeypatch.context() as patch:
        states_on_the_way(patch, tmp_path / "run", copies)
        mj.sample(target, checkpoint=tmp_path / "run", every=0, cores=1, **options)
    made = sorted(copies.iterdir())
    assert len(made) >= 5
    for k in np.linspace(0, len(made) - 2, 5).astype(int):
        assert_same(mj.sample(target, checkpoint=made[k], **options), whole)


def test_the_warmup_and_the_jump_record_are_kept_too(monkeypatch, tmp_path):
    options = {**RUN, "draws": 100, "tune": 200, "keep_warmup": True, "jumps": True}
    go_on_from_some(monkeypatch, tmp_path, ridge, mj.sample(ridge, **options), **options)


def test_given_settings_and_no_warmup(monkeypatch, tmp_path):
    options = {**FROZEN, "draws": 300, "rates": "sqrt", "metric": [1.0, 2.0, 3.0]}
    go_on_from_some(monkeypatch, tmp_path, log_gamma, mj.sample(log_gamma, **options), **options)


def test_a_finished_run_is_read_and_may_go_on_further(whole, tmp_path):
    run = {**RUN, "checkpoint": tmp_path}
    half = mj.sample(ridge, **{**run, "draws": 200})
    np.testing.assert_array_equal(half.draws, whole.draws[:, :200])
    assert_same(mj.sample(ridge, **run), whole)
    assert_same(mj.sample(ridge, **run), whole)
    with pytest.raises(mj.CheckpointError, match="400 draws already"):
        mj.sample(ridge, **{**run, "draws": 200})


def test_without_a_seed_the_run_keeps_the_one_that_it_began_with(tmp_path):
    options = {**FROZEN, "seed": None, "checkpoint": tmp_path}
    first = mj.sample(log_gamma, **options)
    assert_same(mj.sample(log_gamma, **options), first)
    assert first.seed is not None


def test_chains_on_an_executor_write_checkpoints(whole, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        mj.sample(ridge, checkpoint=tmp_path, executor=pool, every=0, **RUN)
    assert_same(mj.sample(ridge, checkpoint=tmp_path, **RUN), whole)


# --- What is refused


@pytest.fixture
def begun(tmp_path):
    mj.sample(log_gamma, checkpoint=tmp_path / "run", **FROZEN)
    return tmp_path / "run"


def refused(folder, match, target=log_gamma, **changes):
    with pytest.raises(mj.CheckpointError, match=match):
        mj.sample(target, checkpoint=folder, **{**FROZEN, **changes})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 6}, "seed"),
        ({"chains": 3}, "chains"),
        ({"step_size": 0.4}, "settings"),
        ({"initial": np.zeros(3)}, "start"),
        ({"names": ["a", "b", "c"]}, "names"),
        ({"keep_warmup": True}, "keep_warmup"),
        ({"tune": 10}, "tune"),
    ],
)
def test_another_call_is_refused_and_told_what_differs(begun, changes, named):
    refused(begun, f"another call; what differs:.*{named}", **changes)


@njit
def other_density(x, grad):
    for j in range(x.size):
        grad[j] = -x[j]
    return -0.5 * np.sum(x * x)


def test_another_density_or_data_is_refused(begun, tmp_path):
    refused(begun, "The density is not the one", target=other_density)
    run = {**FROZEN, "checkpoint": tmp_path / "data"}
    data = np.zeros(3)
    mj.sample(scaled_normal, args=(data, 1.0), **run)
    data[2] = 1e-3
    with pytest.raises(mj.CheckpointError, match="The density is not the one"):
        mj.sample(scaled_normal, args=(data, 1.0), **run)


@pytest.mark.parametrize("name", ["run", "chain-0", "chain-1-000000"])
def test_every_damaged_file_is_refused(begun, name):
    path, rng = begun / name, np.random.default_rng(1)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    refused(begun, f"{name} is damaged")
    for place in [len(content) - 1, *rng.integers(150, len(content), 5)]:
        flipped = bytearray(content)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        refused(begun, f"{name} is damaged")
    path.write_bytes(b"")
    refused(begun, "no checkpoint of mjhmc_numba")
    path.write_bytes(content)
    mj.sample(log_gamma, checkpoint=begun, **FROZEN)


def test_a_missing_file_is_refused(begun):
    (begun / "chain-0-000000").unlink()
    refused(begun, "cannot be read")


def test_an_older_format_and_another_version_are_refused(begun, monkeypatch):
    run = files.read(begun / "run")
    monkeypatch.setattr(files, "VERSION", 0)
    files.write(begun / "run", run)
    monkeypatch.undo()
    refused(begun, "format 0")
    files.write(begun / "run", run | {"mjhmc_numba": "0.0.1"})
    refused(begun, "made by mjhmc_numba 0.0.1")


def test_fields_of_another_version_are_refused(begun):
    saved = files.read(begun / "chain-0")
    del saved["state"]["made"]
    files.write(begun / "chain-0", saved)
    refused(begun, "cannot be gone on from.* made")


def test_files_of_another_run_are_refused(begun, tmp_path):
    mj.sample(log_gamma, checkpoint=tmp_path / "other", **FROZEN)
    for name in ("chain-0", "chain-0-000000"):
        shutil.copy(tmp_path / "other" / name, begun / name)
        refused(begun, "belongs to another run")


def test_foreign_files_and_folders_are_refused_and_left_alone(tmp_path):
    (tmp_path / "notes").write_text("mine")
    refused(tmp_path, "holds other files")
    refused(tmp_path / "notes", "is a file")
    (tmp_path / "run").write_text("mine")
    refused(tmp_path, "no checkpoint of mjhmc_numba")
    assert (tmp_path / "notes").read_text() == (tmp_path / "run").read_text() == "mine"


def test_a_pickle_is_not_executed(begun, tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "executed",))

    for name in ("run", "chain-0"):
        np.save(tmp_path / "evil.npy", np.array([Evil()], dtype=object), allow_pickle=True)
        payload = (tmp_path / "evil.npy").read_bytes()
        (begun / name).write_bytes(payload)
        refused(begun, "no checkpoint of mjhmc_numba")
    # With a right checksum, too.
    archive = tmp_path / "evil.npz"
    np.savez(archive, header=np.array([Evil()], dtype=object))
    files_pack, files._pack = files._pack, lambda value: archive.read_bytes()
    try:
        files.write(begun / "run", {})
    finally:
        files._pack = files_pack
    refused(begun, "run is damaged")
    assert not (tmp_path / "executed").exists()


def test_one_run_at_a_time(begun):
    fcntl = pytest.importorskip("fcntl")
    handle = os.open(begun, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    refused(begun, "Another run is using")
    os.close(handle)
    mj.sample(log_gamma, checkpoint=begun, **FROZEN)


@pytest.mark.parametrize(
    "wrong",
    [{"checkpoint": 3}, {"checkpoint": "x", "every": -1}, {"checkpoint": "x", "every": "1"}],
)
def test_what_is_no_path_or_time_is_refused(wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mj.SettingsError):
        mj.sample(log_gamma, **FROZEN, **wrong)


def test_a_disk_that_is_full_ends_the_run_with_the_draws(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    real, calls = files.os.fsync, []

    def fsync(handle):
        calls.append(handle)
        return full() if len(calls) > 12 else real(handle)

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(mj.CheckpointError, match="No space left"):
        mj.sample(ridge, checkpoint=tmp_path, every=0, **RUN)
    monkeypatch.undo()
    assert not list(tmp_path.glob("*.partial"))
    mj.sample(ridge, checkpoint=tmp_path, **RUN)
