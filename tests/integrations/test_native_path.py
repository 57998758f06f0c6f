"""Whole chains in native code return what `pm.sample` returns, from the same draws."""

import _thread
import dataclasses
import inspect
import threading
import time

import arviz
import numpy as np
import pymc as pm
import pytest
import xarray

import mjhmc_numba.pymc as mp
from mjhmc_numba.errors import MemoryRequestError, SamplingWarning, SettingsError
from mjhmc_numba.kernel.statistics import STATISTICS
from mjhmc_numba.pymc.errors import (
    DiscreteVariableError,
    ModelChangedError,
    ObjectModeWarning,
    StartError,
    UnknownVariableError,
)
from tests.integrations import models
from tests.integrations.chains import FIXED, SMALL
from tests.same_bits import TIMINGS
from tests.statistical.estimates import batch_z

# PyTensor from pip says so when it compiles a matrix product.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")

ENDLESS = SMALL | {"draws": 3_000_000, "chains": 2}


@pytest.fixture(scope="module")
def model():
    return models.regression()


@pytest.fixture(scope="module")
def compiled(model):
    return mp.compile(model)


@pytest.fixture(scope="module")
def native(compiled):
    return compiled.sample(**SMALL, discard_tuned_samples=False)


@pytest.fixture(scope="module")
def stepwise(model):
    with model:
        return pm.sample(step=mp.MJHMC(), cores=1, discard_tuned_samples=False, **SMALL)


# ------------------------------------------------------------ what pm.sample returns


@pytest.mark.parametrize("group", ["posterior", "warmup_posterior"])
def test_draws_are_those_of_the_step_method(native, stepwise, group):
    assert set(native[group].data_vars) == set(stepwise[group].data_vars)
    for name in native[group].data_vars:
        ours, theirs = native[group][name], stepwise[group][name]
        assert ours.dims == theirs.dims
        assert ours.dtype == theirs.dtype
        for dim in ours.dims:
            assert np.array_equal(ours[dim], theirs[dim])
        if name == "beta":  # not transformed
            assert np.array_equal(ours, theirs)
        assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_draws_are_those_of_the_step_method_from_a_start_far_out():
    """Where several starts are tried."""
    with pm.Model() as model:
        pm.Normal("x", [3.0, -3.0], 0.01)
        options = SMALL | {"tune": 220, "discard_tuned_samples": False}
        native = mp.compile(model).sample(**options)
        stepwise = pm.sample(step=mp.MJHMC(), cores=1, **options)
    for group in ("posterior", "warmup_posterior"):
        assert np.array_equal(native[group]["x"], stepwise[group]["x"])
    # Starts begin anew after ten draws and more, and end.
    jumps = np.abs(np.diff(native["warmup_posterior"]["x"].values, axis=1)).max(axis=(0, 2))
    assert np.sum(jumps[9:] > 0.2) >= 2
    assert jumps[120:].max() < 0.2


def test_a_centred_funnel_is_sampled_reparametrised_by_both_paths():
    """And the attributes of the draws say what the scale of others depends on."""
    model = models.funnel()
    options = SMALL | {"tune": 300, "draws": 200}
    native = mp.compile(model).sample(**options)
    with model:
        stepwise = pm.sample(step=mp.MJHMC(), cores=1, **options)
    for name in ("v", "x"):
        assert np.array_equal(native["posterior"][name], stepwise["posterior"][name])
    parents = native["posterior"].attrs["reparametrisation_parents"]
    assert parents == ["v"] * len(parents)
    assert native["posterior"]["v"].std() == pytest.approx(3.0, rel=0.25)


@pytest.mark.parametrize("group", ["sample_stats", "warmup_sample_stats"])
def test_statistics_are_those_of_the_step_method(native, stepwise, group):
    assert set(native[group].data_vars) == set(stepwise[group].data_vars)
    assert set(native[group].data_vars) == {row.name for row in STATISTICS}
    for name in native[group].data_vars:
        ours, theirs = native[group][name], stepwise[group][name]
        assert ours.dtype == theirs.dtype, name
        if name not in TIMINGS:
            assert np.array_equal(ours, theirs), name


@pytest.mark.parametrize("group", ["sample_stats", "warmup_sample_stats"])
def test_timings_add_up(native, group):
    stats = native[group]
    seconds, cpu = stats["perf_counter_diff"].values, stats["process_time_diff"].values
    assert (seconds > 0).all()
    assert (cpu >= 0).all()
    begun = stats["perf_counter_start"].values
    # A draw begins where the one before it has ended, or later.
    assert (np.diff(begun, axis=1) >= seconds[:, :-1] - 1e-6).all()
    assert (cpu.sum(axis=1) <= np.ptp(begun, axis=1) + seconds[:, -1] + 0.05).all()


def test_step_and_native_chains_can_be_put_side_by_side(native, stepwise):
    for group in ("posterior", "sample_stats", "warmup_sample_stats"):
        both = [_dataset(data[group]) for data in (native, stepwise)]
        joined = xarray.concat(both, dim="chain", join="exact", data_vars="all")
        assert joined.sizes["chain"] == 6
        for name, values in joined.data_vars.items():
            assert values.dtype == both[0][name].dtype == both[1][name].dtype
            assert not values.isnull().any()
    if hasattr(native, "groups") and hasattr(arviz, "concat"):  # InferenceData
        whole = arviz.concat(native, stepwise, dim="chain", reset_dim=True)
        assert whole["sample_stats"].sizes["chain"] == 6
        assert whole["sample_stats"]["n_steps"].dtype == np.float64


def _dataset(group):
    return group.to_dataset() if hasattr(group, "to_dataset") else group


@pytest.mark.parametrize("group", ["observed_data", "constant_data"])
def test_data_groups_are_those_of_the_step_method(native, stepwise, group):
    assert set(native[group].data_vars) == set(stepwise[group].data_vars)
    for name in native[group].data_vars:
        assert np.array_equal(native[group][name], stepwise[group][name])


def test_attributes_tell_how_the_draws_were_made(native):
    attributes = native["posterior"].attrs
    assert attributes["tuning_steps"] == 40
    assert attributes["sampling_time"] > 0
    assert len(attributes["warmup_gradients"]) == 3
    assert all(n > 40 for n in attributes["warmup_gradients"])
    assert attributes["inference_library"] == "pymc"


def test_the_warm_up_is_left_out_unless_asked_for(compiled, native):
    data = compiled.sample(**SMALL)
    assert "warmup_posterior" not in data
    assert np.array_equal(data["posterior"]["mu"], native["posterior"]["mu"])
    assert data["posterior"].attrs["tuning_steps"] == 40


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_draws_do_not_depend_on_the_number_of_cores(compiled, native, cores):
    data = compiled.sample(**SMALL, cores=cores)
    assert np.array_equal(data["posterior"]["beta"], native["posterior"]["beta"])


def test_chains_do_not_depend_on_how_many_there_are(compiled, native):
    data = compiled.sample(**SMALL | {"chains": 2})
    assert np.array_equal(data["posterior"]["beta"], native["posterior"]["beta"][:2])


def test_chosen_variables_are_kept(model, native):
    data = mp.sample(**SMALL, model=model, var_names=["mu", "sigma"])
    assert set(data["posterior"].data_vars) == {"mu", "sigma"}
    assert np.array_equal(data["posterior"]["mu"], native["posterior"]["mu"])
    with pytest.raises(UnknownVariableError, match="nobody"):
        mp.compile(model, var_names=["nobody"])


def test_words_are_those_of_pymc():
    """And the same, with the same defaults, wherever they are taken."""
    ours = inspect.signature(mp.sample).parameters
    theirs = inspect.signature(pm.sample).parameters
    kwargs = {"settings", "options"}
    # nutpie's, and ours
    own = {"blocking", "chain", "check_gradient", "checkpoint", "every", "executor", "jitter"}
    own |= {
        "jumps",
        "store",
        "store_divergences",
        "store_gradients",
        "until",
        "warm_start",
        "warmup",
    }
    assert set(ours) - set(theirs) - kwargs == own
    for function, extra in (
        (mp.CompiledModel.sample, {"self"}),
        (mp.compile, set()),
        (mp.compare, {"samplers", "quiet"}),
    ):
        parameters = inspect.signature(function).parameters
        assert set(parameters) - extra <= set(ours)
        for name in set(parameters) - extra:
            assert parameters[name].default == ours[name].default, name
    step = inspect.signature(mp.MJHMC).parameters
    assert {"model", "compile_kwargs", "jitter", "tune", "settings", "options"} < set(step)


def test_transformed_variables_are_kept_on_request(compiled):
    data = compiled.sample(**SMALL, idata_kwargs={"include_transformed": True})
    posterior = data["posterior"]
    assert np.allclose(np.exp(posterior["sigma_log__"]), posterior["sigma"])


def test_the_log_likelihood_is_computed_on_request(compiled):
    data = compiled.sample(**SMALL, idata_kwargs={"log_likelihood": True})
    posterior, seen = data["posterior"], data["observed_data"]["y"].values
    off = (seen - posterior["mu"].values) / posterior["sigma"].values[..., None]
    logp = -0.5 * off**2 - 0.5 * np.log(2 * np.pi) - np.log(posterior["sigma"].values)[..., None]
    assert np.allclose(data["log_likelihood"]["y"], logp)


@pytest.mark.parametrize("is_list", [False, True])
def test_chains_start_at_their_initial_values(compiled, is_list):
    values = [{"beta": np.full(3, 10.0 * k), "sigma": 3.0} for k in range(3)]
    options = FIXED | {"step_size": 1e-9, "metric": np.ones(4)}
    data = compiled.sample(
        **SMALL | {"tune": 0}, initvals=values if is_list else values[1], **options
    )
    wanted = np.array([0.0, 10.0, 20.0]) if is_list else np.full(3, 10.0)
    assert np.allclose(data["posterior"]["beta"][:, 0], wanted[:, None], atol=1e-5)


def test_moments_are_those_of_the_model(seeds):
    with pm.Model():
        x = pm.Normal("x", [1.0, -2.0], [1.0, 0.5], shape=2)
        pm.Exponential("rate", 2.0)
        pm.Deterministic("twice", 2 * x)
        seed = int(seeds(101).generate_state(1)[0])
        data = mp.sample(4000, 300, 2, random_seed=seed, progressbar=False)
    posterior = data["posterior"]
    x, rate = posterior["x"].values, posterior["rate"].values
    for values, truth in (
        (x[..., 0], 1.0),
        ((x[..., 1] + 2) ** 2, 0.25),
        (rate, 0.5),
        (rate**2, 0.5),
        (posterior["twice"].values[..., 1], -4.0),
    ):
        assert abs(batch_z(values, truth)) < 5


# ------------------------------------------------------------------------ other data


def test_other_data_needs_no_compilation_and_leaves_the_model_alone(compiled, model, native):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 3))
    seen = x @ [5.0, -4.0, 3.0] + 0.01 * rng.normal(size=60)
    other = compiled.with_data(x=x, seen=seen, width=10.0)
    data = other.sample(**SMALL | {"tune": 200}, idata_kwargs={"log_likelihood": True})
    assert other.density.address == compiled.density.address
    assert np.allclose(data["posterior"]["beta"].mean(("chain", "draw")), [5, -4, 3], atol=0.02)
    assert data["posterior"]["mu"].shape == (3, 25, 60)
    assert np.array_equal(data["constant_data"]["x"], x)
    assert np.array_equal(data["observed_data"]["y"], seen)
    assert data["log_likelihood"]["y"].shape == (3, 25, 60)
    again = compiled.sample(**SMALL)
    assert np.array_equal(again["posterior"]["beta"], native["posterior"]["beta"])
    assert model["x"].get_value().shape == (40, 3)


def test_data_that_changed_in_the_model_is_taken_over():
    with pm.Model() as model:
        centre = pm.Data("centre", 0.0)
        pm.Normal("x", centre, 0.1)
    compiled = mp.compile(model)
    with model:
        pm.set_data({"centre": 7.0})
    data = compiled.sample(**SMALL)
    assert abs(float(data["posterior"]["x"].mean()) - 7.0) < 0.2
    assert data["constant_data"]["centre"] == 7.0


def test_a_named_dimension_may_change_its_length():
    with pm.Model(coords={"row": ["a", "b"]}) as model:
        seen = pm.Data("seen", np.zeros(3), dims="item")
        mu = pm.Normal("mu", 0, 10, dims="row")
        pm.Deterministic("residual", seen - mu[0], dims="item")
        pm.Normal("y", mu[0], 1, observed=seen, dims="item")
    data = mp.compile(model).with_data(seen=np.full(5, 2.0)).sample(**SMALL)
    assert data["posterior"]["residual"].shape == (3, 25, 5)
    assert data["observed_data"]["y"].values.tolist() == [2.0] * 5


# ------------------------------------------------------------------------- background


@pytest.fixture
def running(compiled):
    handle = compiled.sample(**ENDLESS, blocking=False)
    yield handle
    handle.abort()


def wait_for_draws(handle):
    for _ in range(600):
        data = handle.inspect()
        if data is not None:
            return data
        time.sleep(0.05)
    raise AssertionError("no draws after 30 seconds")


def test_a_background_run_gives_the_same_draws(compiled, native):
    handle = compiled.sample(**SMALL, blocking=False)
    data = handle.wait(timeout=60)
    assert handle.is_finished
    assert np.array_equal(data["posterior"]["beta"], native["posterior"]["beta"])
    assert handle.inspect() is data
    assert handle.abort() is data


def test_chains_keep_their_numbers_where_others_are_missing(compiled, native):
    handle = compiled.sample(**SMALL, blocking=False, idata_kwargs={"log_likelihood": True})
    handle.wait(timeout=60)
    result, kept = handle._result, [0, 2]
    stats = {name: values[kept] for name, values in result.stats.items()}
    some = dataclasses.replace(result, draws=result.draws[kept], stats=stats, chains=kept)
    data = handle._delivery.of_result(some, seconds=1.0)
    for group in ("posterior", "sample_stats", "log_likelihood"):
        assert data[group]["chain"].values.tolist() == kept
    for k in kept:
        beta = data["posterior"]["beta"].sel(chain=k)
        assert np.array_equal(beta, native["posterior"]["beta"].sel(chain=k))


# How many draws there are by then hangs on the machine, and with it what is to be said of them.
@pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")
def test_a_running_chain_shows_its_draws(compiled, running):
    first = wait_for_draws(running)["posterior"]["beta"]
    assert not running.is_finished
    assert np.isfinite(first).all()
    n = min(first.sizes["draw"], 25)
    short = compiled.sample(**SMALL)["posterior"]["beta"].sel(chain=first.chain)
    assert np.array_equal(first[:, :n], short[:, :n])
    second = wait_for_draws(running)["posterior"]["beta"]
    assert second.size >= first.size  # of more chains, it may be, and fewer draws of each


def test_a_chain_that_ends_while_it_is_given_up_keeps_its_draws(compiled):
    """Its own thread lets go of the process when others are about to look at it."""
    handle = compiled.sample(**SMALL, blocking=False)
    handle.wait(timeout=60)
    for run, draws in zip(handle._runs, handle.result.draws, strict=True):
        output = run.unfinished()
        assert np.array_equal(output.rows.draws, draws)
        assert output.tuned is not None


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")
def test_an_aborted_run_keeps_its_draws(running):
    seen = wait_for_draws(running)["posterior"].sizes["draw"]
    began = time.perf_counter()
    with pytest.warns(SamplingWarning, match="Interrupted"):
        data = running.abort()
    assert time.perf_counter() - began < 20
    assert running.is_finished
    assert seen <= data["posterior"].sizes["draw"] < 3_000_000
    assert np.isfinite(data["posterior"]["mu"]).all()


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")
def test_waiting_has_a_limit(running):
    with pytest.raises(TimeoutError, match="still running"):
        running.wait(timeout=0.01)
    wait_for_draws(running)
    with pytest.warns(SamplingWarning, match="Interrupted"):
        running.abort()


def test_a_run_that_is_aborted_before_its_first_draw_returns_nothing(compiled):
    for _ in range(5):
        handle = compiled.sample(**ENDLESS | {"tune": 1_000_000}, blocking=False)
        assert handle.abort() is None
        assert handle.is_finished
        assert handle.abort() is None


def test_a_run_that_still_warms_up_has_no_draws_to_show(compiled):
    handle = compiled.sample(**ENDLESS | {"tune": 1_000_000}, blocking=False)
    assert handle.inspect() is None
    with pytest.raises(RuntimeError, match="have not ended"):
        handle.gradients  # noqa: B018
    assert handle.abort() is None


def test_ctrl_c_keeps_the_draws_of_all_chains(compiled):
    threading.Timer(1.5, _thread.interrupt_main).start()
    with pytest.warns(SamplingWarning, match="Interrupted"):
        data = compiled.sample(**ENDLESS, cores=1)
    assert 0 < data["posterior"].sizes["draw"] < 3_000_000


# ----------------------------------------------------------------------- what fails


def test_a_discrete_variable_is_named():
    with models.mixed(), pytest.raises(DiscreteVariableError, match=r"k, z.*step=MJHMC"):
        mp.sample(**SMALL)


def test_a_bad_request_is_refused_before_compilation(model, monkeypatch):
    monkeypatch.setattr(mp.ModelDensity, "target", None)
    with model:
        with pytest.raises(SettingsError, match="Did you mean 'step_size'"):
            mp.sample(**SMALL, stepsize=0.1)
        with pytest.raises(SettingsError, match="draws is a whole number"):
            mp.sample(draws=-1)
        with pytest.raises(SettingsError, match="tune is a whole number"):
            mp.sample(tune=-1)


def test_more_than_the_memory_is_refused(compiled):
    with pytest.raises(MemoryRequestError, match="GB"):
        compiled.sample(draws=10**12)


def test_what_is_computed_of_the_draws_is_counted_too():
    """Draws of one number are few; what is made of each is a million."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Deterministic("y", x + np.zeros(10**6))
    compiled = mp.compile(model, progressbar=False)
    with pytest.raises(MemoryRequestError, match="GB"):
        compiled.sample(draws=10**6, progressbar=False)


def test_a_start_outside_the_support_names_the_term():
    with pm.Model() as broken:
        pm.Normal("x", 0, 1)
        pm.Potential("never", pm.math.log(-1.0 - broken["x"] ** 2))
        with pytest.raises(StartError, match="term of never"):
            mp.sample(**SMALL)


def test_a_model_that_changed_is_refused():
    with pm.Model() as changed:
        pm.Normal("x", 0, 1)
        compiled = mp.compile()
        pm.Normal("z", 0, 1)
    with pytest.raises(ModelChangedError, match="z"):
        compiled.sample(**SMALL)
    assert changed["z"].name == "z"


def test_what_a_density_raises_is_raised_with_the_draws_so_far():
    with pytest.warns(ObjectModeWarning, match="Halved"):
        compiled = mp.compile(models.in_python())
    with pytest.raises(ArithmeticError, match="more than five") as caught:
        compiled.with_data(scale=4.0).sample(**SMALL | {"draws": 10**6, "tune": 0}, **FIXED)
    assert any("Raised in chain" in note for note in caught.value.__notes__)
    kept = caught.value.result
    assert kept["posterior"].sizes["draw"] > 1
    assert (kept["posterior"]["x"] <= 5).all()


@pytest.mark.filterwarnings("ignore::mjhmc_numba.pymc.errors.ObjectModeWarning")
def test_a_density_in_python_is_sampled_on_one_core(monkeypatch):
    """PyTensor's functions keep their arguments in one place: two threads would mix them up."""
    seen = []
    original = mp.sampling.run_with_warmup
    monkeypatch.setattr(
        mp.sampling, "run_with_warmup", lambda *a, **k: seen.append(k["cores"]) or original(*a, **k)
    )
    mp.compile(models.in_python()).sample(**SMALL | {"tune": 0}, cores=4, **FIXED)
    assert seen == [1]


def test_a_flat_direction_is_reported():
    with pm.Model():
        pm.Flat("flat")
        pm.Normal("x", 0, 1)
        with pytest.warns(SamplingWarning, match="does not depend on flat"):
            mp.sample(**SMALL)


@pytest.mark.filterwarnings("ignore")  # what Bambi and pandas have to say to each other
def test_a_bambi_model_is_sampled_through_its_backend():
    bambi = pytest.importorskip("bambi")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    data = pandas.DataFrame({"x": rng.normal(size=60), "g": np.repeat(list("abc"), 20)})
    data["y"] = 1.0 + 2.0 * data["x"] + rng.normal(size=60)
    model = bambi.Model("y ~ x + (1 | g)", data)
    model.build()
    trace = mp.sample(model=model.backend.model, **SMALL | {"tune": 300, "draws": 300})
    slope = trace.posterior["x"].values
    assert slope.shape == (3, 300)
    assert abs(slope.mean() - 2.0) < 1.0
