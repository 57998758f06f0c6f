"""What sampling returns, and what ArviZ makes of it."""

import dataclasses
import math

import arviz
import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba import weights
from tests.api.densities import FIXED, LOG_GAMMA_MEAN, LOG_GAMMA_VARIANCE, SHORT, log_gamma
from tests.api.monte_carlo import z_score

# Runs are short here; whether their draws can be trusted is asserted elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")

PER_DRAW = {
    "n_steps",
    "energy",
    "energy_error",
    "acceptance_rate",
    "diverging",
    "step_size",
    "refresh_rate",
    "n_jumps",
    "n_L",
    "n_F",
    "n_R",
    "lp",
}


@pytest.fixture(scope="module")
def result():
    return mj.sample(log_gamma, ndim=6, seed=1, keep_warmup=True, **SHORT)


# --- Draws and statistics


def test_shapes_are_chain_draw_dimension(result):
    assert result.draws.shape == (2, 60, 6)
    assert result.warmup_draws.shape == (2, 60, 6)
    assert set(result.stats) >= PER_DRAW
    assert {values.shape for values in result.stats.values()} == {(2, 60)}
    assert {values.shape for values in result.warmup_stats.values()} == {(2, 60)}
    assert len(result.tuned) == 2


def test_statistics_belong_to_their_draws(seeds):
    result = mj.sample(log_gamma, ndim=6, seed=seeds(137), draws=400, tune=200, progress=False)
    target = mj.as_target(log_gamma, 6)
    lp = [[target.logp_and_grad(x)[0] for x in chain] for chain in result.draws]
    np.testing.assert_allclose(result.stats["lp"], lp, rtol=1e-12)
    kinetic = result.stats["energy"] + result.stats["lp"]
    assert (kinetic >= 0).all()
    assert abs(z_score(kinetic, 3.0)) < 5  # half the number of dimensions


def test_jumps_are_the_sum_of_their_kinds(result):
    stats = result.stats
    np.testing.assert_array_equal(stats["n_jumps"], stats["n_L"] + stats["n_F"] + stats["n_R"])


def test_gradients_are_counted_one_by_one():
    calls = [0]

    def density(x):
        calls[0] += 1
        return -0.5 * x @ x, -x

    with pytest.warns(mj.SlowDensityWarning):
        counted = mj.sample(density, ndim=2, seed=3, draws=30, tune=30, chains=1, progress=False)
    assert sum(counted.gradients.values()) <= calls[0] <= sum(counted.gradients.values()) + 16


def test_the_warm_up_is_kept_only_on_request(result):
    without = mj.sample(log_gamma, ndim=6, seed=1, **SHORT)
    assert without.warmup_draws is None
    assert without.warmup_stats is None
    assert not np.isnan(result.warmup_draws).any()
    assert (result.warmup_draws[:, 0] != result.draws[:, 0]).all()


def test_a_result_says_what_it_is(result):
    assert "2 chains x 60 draws x 6 dimensions" in repr(result)
    assert result.chains == [0, 1]
    assert result.tune == 60
    assert result.interrupted is False


# --- ArviZ


def names_in(dataset):
    return sorted(str(name) for name in dataset.data_vars)


def test_by_default_there_is_one_variable(result):
    data = result.to_arviz()
    assert names_in(data["posterior"]) == ["x"]
    np.testing.assert_array_equal(data["posterior"]["x"].values, result.draws)


def test_names_for_each_dimension(result):
    data = result.to_arviz(list("abcdef"))
    assert names_in(data["posterior"]) == list("abcdef")
    np.testing.assert_array_equal(data["posterior"]["c"].values, result.draws[..., 2])


def test_names_with_shapes_share_out_the_dimensions(result):
    data = result.to_arviz({"level": (), "table": (2, 2), "last": (1,)})
    assert names_in(data["posterior"]) == ["last", "level", "table"]
    table = data["posterior"]["table"].values
    assert table.shape == (2, 60, 2, 2)
    np.testing.assert_array_equal(table[..., 1, 0], result.draws[..., 3])


@pytest.mark.parametrize("names", [["a"], list("abcdeff"), list("abcdee"), {"a": (7,)}])
def test_names_that_do_not_fit_are_refused(result, names):
    with pytest.raises(ValueError, match="there are 6"):
        result.to_arviz(names)


def test_chains_keep_their_numbers_where_others_are_missing(result):
    data = dataclasses.replace(result, chains=[0, 2]).to_arviz()
    for group in ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats"):
        assert data[group]["chain"].values.tolist() == [0, 2]
    np.testing.assert_array_equal(data["posterior"]["x"].sel(chain=2), result.draws[1])


def test_statistics_have_arviz_names(result):
    stats = result.to_arviz()["sample_stats"]
    assert set(names_in(stats)) >= PER_DRAW
    assert stats["diverging"].dtype == bool
    assert stats["n_steps"].dtype == np.float64  # as of PyMC's NUTS
    assert stats["n_jumps"].dtype == np.int64
    np.testing.assert_array_equal(stats["lp"].values, result.stats["lp"])


def test_the_warm_up_has_groups_of_its_own(result):
    data = result.to_arviz()
    np.testing.assert_array_equal(data["warmup_posterior"]["x"].values, result.warmup_draws)
    assert "energy" in names_in(data["warmup_sample_stats"])


@pytest.mark.parametrize("group", ["posterior", "sample_stats"])
def test_attributes_tell_how_the_draws_were_made(result, group):
    attributes = result.to_arviz()[group].attrs
    assert attributes["inference_library"] == "mjhmc_numba"
    assert attributes["inference_library_version"] == mj.__version__
    assert attributes["tuning_steps"] == 60
    assert attributes["rates"] == "metropolis"
    assert attributes["seed"] == "1"
    np.testing.assert_allclose(attributes["step_size"], [tuned.step_size for tuned in result.tuned])


def test_draws_and_attributes_survive_a_file(result, tmp_path):
    pytest.importorskip("h5netcdf")
    path = tmp_path / "draws.nc"
    data = result.to_arviz()
    data.to_netcdf(str(path), engine="h5netcdf")
    again = arviz.from_netcdf(str(path), engine="h5netcdf")
    np.testing.assert_array_equal(again["posterior"]["x"].values, result.draws)
    attributes = again["sample_stats"].attrs
    assert attributes["tuning_steps"] == 60
    assert attributes["inference_library_version"] == mj.__version__
    np.testing.assert_allclose(
        attributes["refresh_rate"], [tuned.refresh_rate for tuned in result.tuned]
    )


def test_the_summary_is_arviz_table_of_the_draws(result):
    table = result.summary(names=list("abcdef"))
    assert list(table.index) == list("abcdef")
    assert {"mean", "sd", "ess_bulk", "r_hat"} <= set(table.columns)
    means = table["mean"].astype(float)
    np.testing.assert_allclose(means, result.draws.mean(axis=(0, 1)), atol=0.01)


# --- The jump record


@pytest.fixture(scope="module", params=["sqrt", "metropolis"])
def recorded(request, seeds):
    options = {**FIXED, "num_steps": 3, "rates": request.param, "clock": "poisson"}
    return mj.sample(
        log_gamma, ndim=2, seed=seeds(135), draws=4000, chains=4, jumps=True, **options
    )


def test_there_is_no_record_unless_it_is_asked_for(result):
    assert result.jumps is None


def test_the_record_covers_the_time_of_the_draws(recorded):
    for jumps in recorded.jumps:
        assert jumps["x"].shape == (jumps["event"].size, 2)
        total = jumps["holding_time"].sum()
        assert 0 <= 4000 * FIXED["draw_interval"] - total < 100  # the last visit has not ended


def test_the_record_holds_every_event(recorded):
    for k, jumps in enumerate(recorded.jumps):
        counts = np.bincount(jumps["event"], minlength=4)
        expected = [0, *(recorded.stats[name][k].sum() for name in ("n_L", "n_F", "n_R"))]
        np.testing.assert_array_equal(counts, expected)


def test_sampled_holding_times_have_their_expected_mean(recorded):
    for jumps in recorded.jumps:
        ratio = jumps["holding_time"] / jumps["expected_holding_time"]  # standard exponential
        assert abs(ratio.mean() - 1) * math.sqrt(ratio.size) < 5
        assert abs((ratio > 1).mean() - math.exp(-1)) * math.sqrt(ratio.size) < 2.5


@pytest.mark.parametrize("times", ["holding_time", "expected_holding_time"])
def test_the_weighted_record_agrees_with_the_truth_and_the_draws(recorded, times):
    for power, truth in ((1, LOG_GAMMA_MEAN), (2, LOG_GAMMA_VARIANCE + LOG_GAMMA_MEAN**2)):
        means = [weights.mean(j["x"][:, 0] ** power, j[times]) for j in recorded.jumps]
        errors = [weights.mcse(j["x"][:, 0] ** power, j[times]) for j in recorded.jumps]
        pooled = np.sqrt(np.sum(np.square(errors))) / len(errors)
        assert abs(np.mean(means) - truth) / pooled < 5
        assert abs(z_score(recorded.draws[..., 0] ** power, truth)) < 5


def test_an_average_without_weights_is_not_the_mean(seeds):
    options = {**FIXED, "step_size": 1.2, "num_steps": 1, "rates": "sqrt"}
    options |= {"draws": 10_000, "chains": 4, "jumps": True, "seed": seeds(136)}
    result = mj.sample(log_gamma, ndim=2, **options)
    x = np.concatenate([jumps["x"][:, 0] for jumps in result.jumps])
    times = np.concatenate([jumps["expected_holding_time"] for jumps in result.jumps])
    second_moment = np.exp(2 * x)  # of a standard exponential number, so 2
    error = weights.mcse(second_moment, times)
    assert abs(weights.mean(second_moment, times) - 2) / error < 5
    assert second_moment.mean() > 2.1
