"""Whole chains on a model go on where they were, on the same data alone."""

import numpy as np
import pymc as pm
import pytest

import mjhmc_numba.pymc as mp
from mjhmc_numba.errors import CheckpointError, SettingsError
from mjhmc_numba.storage.checkpoint import ChainFiles
from tests.integrations import models
from tests.same_bits import TIMINGS

pytestmark = pytest.mark.filterwarnings(
    "ignore:PyTensor could not link to a BLAS:UserWarning", "ignore::mjhmc_numba.SamplingWarning"
)

RUN = {
    "draws": 60,
    "tune": 200,
    "chains": 2,
    "random_seed": 4,
    "progressbar": False,
    "compute_convergence_checks": False,
}


@pytest.fixture(scope="module")
def compiled():
    return mp.compile(models.regression())


@pytest.fixture(scope="module")
def whole(compiled):
    return compiled.sample(**RUN)


def assert_same(one, other):
    for group in ("posterior", "sample_stats"):
        assert set(one[group].data_vars) == set(other[group].data_vars)
        for name in set(one[group].data_vars) - TIMINGS:
            np.testing.assert_array_equal(one[group][name], other[group][name], err_msg=name)


class Killed(BaseException):
    """Ends a chain as a kill would: nothing is written any more."""


def stop_after(monkeypatch, share):
    save, total = ChainFiles.save, RUN["tune"] + RUN["draws"]

    def save_or_stop(self, state, part):
        if state["warmup_made"] + state["made"] >= share * total:
            raise Killed
        save(self, state, part)

    monkeypatch.setattr(ChainFiles, "save", save_or_stop)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.75, 0.9])
def test_stopped_anywhere_it_goes_on_to_the_same_draws(
    compiled, whole, share, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        stop_after(patch, share)
        with pytest.raises(Killed):
            compiled.sample(checkpoint=tmp_path, every=0, **RUN)
    assert_same(compiled.sample(checkpoint=tmp_path, **RUN), whole)


def test_other_data_are_refused(compiled, whole, tmp_path):
    assert_same(compiled.sample(checkpoint=tmp_path, **RUN), whole)
    other = compiled.with_data(width=1.9)
    with pytest.raises(CheckpointError, match="The density is not the one"):
        other.sample(checkpoint=tmp_path, **RUN)
    with pytest.raises(CheckpointError, match="another call; what differs: seed"):
        compiled.sample(checkpoint=tmp_path, **{**RUN, "random_seed": 5, "jitter": False})


def test_another_model_is_refused(compiled, tmp_path):
    compiled.sample(checkpoint=tmp_path, **RUN)
    with pytest.raises(CheckpointError, match="another call; what differs: dimensions, names"):
        mp.sample(model=models.gaussian(), checkpoint=tmp_path, **RUN)


def test_extended_is_the_longer_run(compiled, whole):
    sampling = compiled.sample(blocking=False, **{**RUN, "draws": 25})
    data = sampling.extend(35)
    assert_same(data, whole)
    assert sampling.wait() is data


def test_a_warm_start_on_other_data(compiled):
    sampling = compiled.sample(blocking=False, **{**RUN, "draws": 20})
    sampling.wait()
    other = compiled.with_data(width=1.5)
    run = {**RUN, "tune": 20, "blocking": False}
    again = other.sample(warm_start=sampling, **run)
    again.wait()
    before, now = sampling.result.tuned, again.result.tuned
    assert [t.step_size for t in now] == [t.step_size for t in before]
    assert again.gradients["warmup"] < sampling.gradients["warmup"]
    with pytest.raises(SettingsError, match="warm_start is a Result"):
        other.sample(warm_start=pm, **run)
