"""Chains that run apart are those of one run, and are put together again."""

import numpy as np
import pytest

import mjhmc_numba as mj
from tests.api.densities import SHORT, log_gamma
from tests.same_bits import assert_same_stats

pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")

RUN = SHORT | {"ndim": 2, "seed": 4, "keep_warmup": True, "jumps": True}


@pytest.fixture(scope="module")
def whole():
    return mj.sample(log_gamma, **RUN | {"chains": 3})


@pytest.fixture(scope="module")
def apart():
    options = {name: value for name, value in RUN.items() if name != "chains"}
    return [mj.run_chain(k, log_gamma, **options) for k in (2, 0, 1)]


def test_chains_that_ran_apart_make_the_same_result(whole, apart):
    assert [part.chains for part in apart] == [[2], [0], [1]]
    result = mj.combine(apart)
    np.testing.assert_array_equal(result.draws, whole.draws)
    np.testing.assert_array_equal(result.warmup_draws, whole.warmup_draws)
    np.testing.assert_array_equal(result.warmup_gradients, whole.warmup_gradients)
    assert_same_stats(result.stats, whole.stats)
    assert result.chains == whole.chains == [0, 1, 2]
    assert result.seed == whole.seed
    assert result.warnings == whole.warnings
    assert [t.step_size for t in result.tuned] == [t.step_size for t in whole.tuned]
    for one, other in zip(result.jumps, whole.jumps, strict=True):
        np.testing.assert_array_equal(one["x"], other["x"])
    one, other = (dict(r.to_arviz()["posterior"].attrs) for r in (result, whole))
    assert one.pop("created_at") != other.pop("created_at")
    assert one == other


def write(data, path):
    if path.suffix == ".nc":
        data.to_netcdf(str(path))
    else:
        tree = data.to_datatree() if hasattr(data, "to_datatree") else data
        tree.to_zarr(str(path), consolidated=False)


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_what_many_machines_wrote_is_read_as_one(whole, apart, tmp_path, suffix):
    for part in apart:
        write(part.to_arviz(), tmp_path / f"chain_{part.chains[0]}.{suffix}")
    data = mj.combine(sorted(tmp_path.iterdir()))
    expected = whole.to_arviz()
    assert type(data) is type(expected)
    for group in ("posterior", "sample_stats", "warmup_posterior"):
        assert data[group]["chain"].values.tolist() == [0, 1, 2]
        for name, values in expected[group].data_vars.items():
            if name not in ("process_time_diff", "perf_counter_diff", "perf_counter_start"):
                np.testing.assert_array_equal(data[group][name], values, name)
    attributes = data["posterior"].attrs
    for name in ("step_size", "integrator", "warmup_gradients", "warmup_windows", "seed"):
        given = expected["posterior"].attrs.get(name)
        np.testing.assert_array_equal(attributes.get(name), given, name)


def test_what_is_not_one_run_is_refused(apart):
    with pytest.raises(mj.SettingsError, match="nothing to combine"):
        mj.combine([])
    with pytest.raises(mj.SettingsError, match=r"there twice: 2\."):
        mj.combine([*apart, apart[0]])
    with pytest.raises(mj.SettingsError, match="twice"):
        mj.combine([part.to_arviz() for part in (apart[0], apart[0])])
    with pytest.raises(mj.SettingsError, match="Results are combined with results"):
        mj.combine([apart[0], apart[1].to_arviz()])
    options = RUN | {"chains": 4}
    other = mj.run_chain(3, log_gamma, **options | {"seed": 5})
    with pytest.raises(mj.SettingsError, match="their seed differ"):
        mj.combine([*apart, other])
    shorter = mj.run_chain(3, log_gamma, **options | {"draws": 10})
    with pytest.raises(mj.SettingsError, match="different numbers of draws"):
        mj.combine([*apart, shorter])


@pytest.mark.parametrize(("k", "options"), [(-1, {}), (4, {"chains": 4}), (1.5, {}), (True, {})])
def test_a_chain_that_is_none_of_them_is_refused(k, options):
    with pytest.raises(mj.SettingsError, match="A chain is a whole number from 0 to"):
        mj.run_chain(k, log_gamma, ndim=2, seed=1, **options)


def test_chains_that_run_apart_need_a_seed():
    with pytest.raises(mj.SettingsError, match="need the same seed"):
        mj.run_chain(0, log_gamma, ndim=2)
