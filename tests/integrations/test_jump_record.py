"""The paper's output on PyMC models: the weighted jump record, and draws and summaries from it."""

import re
import warnings
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm
import pytest

import mjhmc_numba.pymc as mp
from mjhmc_numba import weights
from mjhmc_numba.errors import SamplingWarning, SettingsError
from mjhmc_numba.pymc.diagnosis import PYTHON_MODE
from mjhmc_numba.pymc.errors import UnknownVariableError
from mjhmc_numba.settings import Settings
from tests.integrations import models
from tests.integrations.chains import FIXED, QUIET

# PyTensor from pip says so when it compiles a matrix product.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")

MODELS = (models.gaussian, models.regression, models.constrained)
METHODS = ("systematic", "stratified", "multinomial")
PAPER = {"num_steps": 1, "refresh_rate": 0.3, "draw_interval": 2.0}  # the step size is tuned


# --------------------------------------------------------------- what the group holds


@pytest.fixture(scope="module")
def compiled():
    return mp.compile(models.gaussian())


@pytest.fixture(scope="module")
def short(compiled):
    paper = Settings.paper(**FIXED)
    options = {"draws": 200, "tune": 0, "chains": 3, "random_seed": 4} | QUIET
    return compiled.sample(**options, settings=paper, jumps=["x", "m", "twice"])


def chains_of(record):
    numbers = record["chain"].values
    return [record.isel(jump=np.flatnonzero(numbers == k)) for k in range(numbers.max() + 1)]


def test_draws_are_the_states_of_the_record_at_the_ticks(short):
    for k, chain in enumerate(chains_of(short["jump_record"])):
        left = np.cumsum(chain["holding_time"].values)
        ticks = FIXED["draw_interval"] * np.arange(1, 201)
        ticks = ticks[ticks < left[-1]]
        assert ticks.size > 190
        at_ticks = np.searchsorted(left, ticks)
        for name in ("x", "m", "twice"):
            draws = short["posterior"][name].sel(chain=k).values[: ticks.size]
            assert np.array_equal(draws, chain[name].values[at_ticks])


def test_every_event_is_in_the_record(short):
    for k, chain in enumerate(chains_of(short["jump_record"])):
        for code, name in zip((1, 2, 3), ("n_L", "n_F", "n_R"), strict=True):
            made = short["sample_stats"][name].sel(chain=k).sum()
            assert np.sum(chain["event"].values == code) == made > 0


def test_a_record_has_the_dimensions_and_coordinates_of_the_model(short):
    record = short["jump_record"]
    assert record["x"].dims == ("jump", "side")
    assert record["x"].coords["side"].values.tolist() == ["left", "right"]
    assert record["m"].dims == ("jump", "m_dim_0", "m_dim_1")
    assert np.array_equal(record["twice"], 2 * record["x"])
    assert record["event"].attrs["flag_meanings"] == "L F R"
    assert record.attrs["rates"] == "sqrt"


def test_without_a_request_a_record_has_the_free_variables_or_those_named(compiled):
    options = {"draws": 5, "tune": 0, "chains": 1, "random_seed": 1} | QUIET | FIXED
    own = {"holding_time", "expected_holding_time", "event"}
    assert set(compiled.sample(**options, jumps=True)["jump_record"].data_vars) == {"x", "m"} | own
    some = mp.CompiledModel(compiled.density, ["twice"]).sample(**options, jumps=True)
    assert set(some["jump_record"].data_vars) == {"twice"} | own
    assert "jump_record" not in compiled.sample(**options)


def test_with_a_record_the_chains_are_those_of_the_step_in_poisson_time(short):
    options = {"draws": 200, "tune": 0, "chains": 3, "cores": 1, "random_seed": 4} | QUIET
    with models.gaussian():
        stepwise = pm.sample(step=mp.MJHMC.paper(**FIXED), **options)
    for name in ("x", "m"):
        assert np.array_equal(stepwise["posterior"][name], short["posterior"][name])


def test_files_hold_the_record(short, tmp_path):
    pytest.importorskip("h5netcdf")
    path = tmp_path / "data.nc"
    short.to_netcdf(path, engine="h5netcdf")
    again = az.from_netcdf(path, engine="h5netcdf")
    for name in ("x", "expected_holding_time", "event", "chain"):
        assert np.array_equal(again["jump_record"][name], short["jump_record"][name])
    made = [mp.resample(data, random_seed=1)["posterior"]["x"] for data in (short, again)]
    assert np.array_equal(*made)


# ------------------------------------------------------------------------ resampling


@pytest.mark.parametrize("method", METHODS)
def test_resampling_gives_an_ordinary_posterior(short, method):
    made = mp.resample(short, 50, method=method, random_seed=2)
    assert type(made) is type(short)
    posterior = made["posterior"]
    assert dict(posterior.sizes) == {"chain": 3, "draw": 50, "side": 2, "m_dim_0": 2, "m_dim_1": 2}
    assert set(posterior.data_vars) == {"x", "m", "twice"}
    assert posterior.attrs["resampled"] == method
    assert len(az.summary(made, var_names=["x"])) == 2
    again = mp.resample(short, 50, method=method, random_seed=2)
    assert np.array_equal(again["posterior"]["x"], posterior["x"])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("which", ["expected", "sampled"])
def test_states_are_taken_in_their_order_as_often_as_time_was_spent_in_them(short, method, which):
    draws = 40_000
    made = mp.resample(short, draws, method=method, weights=which, var_names="x", random_seed=3)[
        "posterior"
    ]["x"]
    time = {"expected": "expected_holding_time", "sampled": "holding_time"}[which]
    for k, chain in enumerate(chains_of(short["jump_record"])):
        visited, place = np.unique(chain["x"].values[:, 0], return_inverse=True)
        share = np.bincount(place, chain[time].values) / chain[time].values.sum()
        taken = made.sel(chain=k).values[:, 0]
        count = np.bincount(np.searchsorted(visited, taken), minlength=visited.size)
        assert np.all(np.abs(count - draws * share) < 6 * np.sqrt(draws * share) + 2)
        # Runs of one state: as many as there are visits at most, so order was kept.
        assert np.count_nonzero(np.diff(taken)) < len(chain["event"])


def test_by_default_there_are_as_many_draws_as_the_clock_made(short):
    assert mp.resample(short)["posterior"].sizes["draw"] == 200


def test_a_resampled_posterior_keeps_the_data_and_predicts():
    model = models.regression()
    options = {"draws": 50, "tune": 0, "chains": 2, "random_seed": 1} | QUIET
    data = mp.sample(model=model, **options, **(FIXED | {"step_size": 0.1}), jumps=True)
    made = mp.resample(data, 20, random_seed=1)
    assert set(made["constant_data"].data_vars) == set(data["constant_data"].data_vars)
    assert np.array_equal(made["observed_data"]["y"], data["observed_data"]["y"])
    with model:
        predicted = pm.sample_posterior_predictive(
            made, progressbar=False, random_seed=1, compile_kwargs={"mode": PYTHON_MODE}
        )
    assert predicted["posterior_predictive"]["y"].shape == (2, 20, 40)


# ------------------------------------------------------- three outputs, one posterior


@pytest.fixture(scope="module", params=MODELS, ids=lambda make: make.__name__)
def long(request):
    model = request.param()
    options = {"draws": 3000, "tune": 200, "chains": 4, "random_seed": 8} | QUIET
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)  # leapfrog and a short warm-up
        data = mp.sample(model=model, **options, settings=Settings.paper(**PAPER), jumps=True)
    return model, data


def flat(arrays):
    """Values of all variables, one row each."""
    return np.concatenate([a.values.reshape(len(a), -1) for a in arrays], axis=1)


def draws_of(data, names):
    return [flat([data["posterior"][n].sel(chain=k) for n in names]) for k in range(4)]


def moments(chains, times, centre):
    """Of all variables about the centre, and of their squares."""
    return weights.summary([np.hstack([x - centre, (x - centre) ** 2]) for x in chains], times)


def largest_difference(one, other):
    """In units of the sum of both errors: 3.5 are five standard deviations if they are equal."""
    return np.max(np.abs(one["mean"] - other["mean"]) / (one["mcse_mean"] + other["mcse_mean"]))


def unweighted_z(visited, record, centre, pieces=25):
    """How much the weights change the moments, in standard errors over pieces of the chains."""
    differences = []
    for x, chain in zip(visited, record, strict=True):
        values = np.hstack([x - centre, (x - centre) ** 2])
        for part in np.array_split(np.arange(len(values)), pieces):
            weighted = weights.mean(values[part], chain["expected_holding_time"].values[part])
            differences.append(values[part].mean(axis=0) - weighted)
    return np.mean(differences, axis=0) / np.std(differences, axis=0) * np.sqrt(len(differences))


def test_clock_draws_resampled_draws_and_weighted_moments_agree(long):
    model, data = long
    names = [rv.name for rv in model.free_RVs]
    clock = draws_of(data, names)
    centre, ones = np.mean(clock, axis=(0, 1)), [np.ones(3000)] * 4
    at_ticks = moments(clock, ones, centre)
    record = chains_of(data["jump_record"])
    visited = [flat([chain[n] for n in names]) for chain in record]
    sampled, expected = (
        moments(visited, [chain[time].values for chain in record], centre)
        for time in ("holding_time", "expected_holding_time")
    )
    assert largest_difference(at_ticks, expected) < 3.5
    assert largest_difference(at_ticks, sampled) < 3.5
    for method in METHODS:
        resampled = draws_of(mp.resample(data, method=method, random_seed=1), names)
        assert largest_difference(moments(resampled, ones, centre), expected) < 3.5
    # Without their weights the states have another law.
    assert np.max(np.abs(unweighted_z(visited, record, centre))) > 8


def test_a_weighted_summary_has_the_moments_of_the_model(long):
    model, data = long
    table = mp.weighted_summary(data)
    assert (table["r_hat"] < 1.02).all()
    assert (table["ess"] > 300).all()
    assert (table["5%"] < table["50%"]).all()
    assert (table["50%"] < table["95%"]).all()
    if "side" not in model.coords:
        return
    exact = {"x[left]": (1.0, 1.0), "x[right]": (-2.0, 0.5), "m[1, 0]": (1.0, np.sqrt(2.0))}
    assert set(exact) <= set(table.index)
    for row, (mean, sd) in exact.items():
        assert abs(table["mean"][row] - mean) < 5 * table["mcse_mean"][row]
        assert table["sd"][row] == pytest.approx(sd, rel=5 * np.sqrt(1 / table["ess"][row]))


# -------------------------------------------------------------------------- refusals


def test_a_record_needs_poisson_time_and_known_variables(compiled):
    with pytest.raises(SettingsError, match="use clock='poisson'"):
        compiled.sample(jumps=True, clock="regular")
    with pytest.raises(UnknownVariableError, match="no variable y"):
        compiled.sample(jumps=["x", "y"])


@pytest.mark.parametrize("jumps", [3, None, [], [1], {"x": 1}])
def test_what_names_no_variable_is_refused_before_sampling(compiled, jumps):
    with pytest.raises(SettingsError, match="jumps is True, False, or names of variables"):
        compiled.sample(jumps=jumps)


@pytest.mark.parametrize("name", ["event", "holding_time", "jump"])
def test_a_variable_with_a_name_of_the_record_is_refused_before_sampling(name):
    with pm.Model(coords={name: [0, 1]} if name == "jump" else None) as model:
        pm.Normal("y" if name == "jump" else name, dims=name if name == "jump" else None, shape=2)
        pm.Normal("x")
    compiled = mp.compile(model)
    with pytest.raises(SettingsError, match=f"has {name} of its own"):
        compiled.sample(jumps=True)
    options = {"draws": 5, "tune": 0, "chains": 1} | QUIET | FIXED
    assert "x" in compiled.sample(**options, jumps=["x"])["jump_record"]


def test_resampling_says_what_is_wrong(short, compiled):
    bare = compiled.sample(draws=5, tune=0, chains=1, **QUIET, **FIXED)
    with pytest.raises(SettingsError, match=r"sample\(jumps=True\)"):
        mp.resample(bare)
    with pytest.raises(SettingsError, match="'sampled', 'expected'"):
        mp.resample(short, weights="mean")
    with pytest.raises(UnknownVariableError, match="has no z"):
        mp.weighted_summary(short, "z")
    with pytest.raises(SettingsError, match="draws is a whole number"):
        mp.resample(short, 0)
    with pytest.raises(ValueError, match="method must be one of"):
        mp.resample(short, method="none")


def test_the_page_about_weighted_draws_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "weighted_draws.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    names = {"__name__": "page"}
    exec(compile(block, page.name, "exec"), names)
    assert names["draws"]["posterior"].sizes["draw"] == 500
    assert "r_hat" in capsys.readouterr().out
