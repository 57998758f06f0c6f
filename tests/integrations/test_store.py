"""A model's draws on disk are those that would have been returned."""

import numpy as np
import pytest

import mjhmc_numba as mj
import mjhmc_numba.pymc as mp
from mjhmc_numba.storage import zarr_store
from tests.integrations import models
from tests.same_bits import TIMINGS

pytestmark = pytest.mark.filterwarnings(
    "ignore:PyTensor could not link to a BLAS:UserWarning", "ignore::mjhmc_numba.SamplingWarning"
)

RUN = {"draws": 80, "tune": 100, "chains": 2, "random_seed": 4, "progressbar": False}


@pytest.fixture(scope="module")
def compiled():
    return mp.compile(models.regression())


def groups(data):
    return data.groups() if callable(getattr(data, "groups", None)) else list(data.children)


def assert_same(one, other):
    assert set(groups(one)) == set(groups(other))
    for group in groups(one):
        assert set(one[group].data_vars) - {"valid_draws"} == set(other[group].data_vars)
        assert set(one[group].coords) == set(other[group].coords)
        for name in set(other[group].data_vars) - TIMINGS:
            stored, whole = one[group][name], other[group][name]
            assert stored.dims == whole.dims
            assert stored.dtype == whole.dtype
            # Of other numbers of draws at a time, NumPy rounds differently.
            np.testing.assert_allclose(stored.values, whole.values, rtol=1e-12, err_msg=name)


def test_what_is_stored_is_what_is_returned_otherwise(compiled, tmp_path, monkeypatch):
    monkeypatch.setattr(zarr_store, "NUMBERS_PER_CHUNK", 70 * 32)
    whole = compiled.sample(**RUN)
    stored = compiled.sample(store=tmp_path / "s", **RUN)
    assert_same(stored, whole)
    assert_same(mj.from_store(tmp_path / "s"), whole)
    assert stored["posterior"].attrs["step_size"] == whole["posterior"].attrs["step_size"]


def test_it_can_be_looked_into_and_goes_on_with_a_checkpoint(compiled, tmp_path, monkeypatch):
    places = {"store": tmp_path / "s", "checkpoint": tmp_path / "c"}
    sampling = compiled.sample(blocking=False, **places, **RUN)
    data = sampling.wait()
    again = compiled.sample(**places, **RUN)
    assert_same(again, compiled.sample(**RUN))
    assert_same(data, compiled.sample(**RUN))
    assert sampling.inspect() is data


def test_what_is_not_stored_is_refused(compiled, tmp_path):
    with pytest.raises(mj.SettingsError, match="log_likelihood is not stored"):
        compiled.sample(store=tmp_path / "s", idata_kwargs={"log_likelihood": True}, **RUN)
    with pytest.raises(mj.SettingsError, match="warm-up"):
        compiled.sample(store=tmp_path / "s", discard_tuned_samples=False, **RUN)
