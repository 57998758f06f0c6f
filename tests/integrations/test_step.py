"""MJHMC as a step method: what `pm.sample` asks of it, and what it says of its draws."""

import logging
import math
import os
import signal
import threading

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.stats.convergence import WarningType
from pymc.step_methods.compound import CompoundStep
from pymc.step_methods.hmc import NUTS
from pymc.step_methods.state import equal_dataclass_values

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.pymc import MJHMC
from mjhmc_numba.pymc.errors import (
    DataError,
    DiscreteVariableError,
    NoVariableError,
    StartError,
    UnknownVariableError,
)
from mjhmc_numba.pymc.stats import COLUMN
from mjhmc_numba.pymc.step import ACCEPTANCE_DRAWS, LOW_ACCEPTANCE, STUCK_STAY
from mjhmc_numba.warmup.tuner import first_guess
from tests.integrations import models
from tests.integrations.chains import FIXED, begin, chain, run, vectors
from tests.statistical.estimates import batch_z

pytestmark = [
    # PyTensor from pip says so when it compiles a matrix product.
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
    # Python 3.12 on a fork in a process with threads, such as those of the progress bars.
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]

QUIET = {"progressbar": False, "compute_convergence_checks": False}


def gaussian():
    """A correlated pair and a scale, beside a matrix: (x, s) with known moments."""
    with pm.Model(coords={"side": ["left", "right"]}) as model:
        x = pm.Normal("x", [1.0, -2.0], [1.0, 0.5], dims="side")
        pm.Normal("m", x[0], 1.0, shape=(2, 2))
        pm.Deterministic("twice", 2 * x, dims="side")
    return model


@pytest.fixture(scope="module")
def model():
    return gaussian()


def sample(model, step=None, **options):
    options = {"draws": 20, "tune": 30, "chains": 2, "cores": 1, "random_seed": 5} | QUIET | options
    with model:
        return pm.sample(step=MJHMC() if step is None else step, **options)


def assert_same_draws(a, b):
    for name in a["posterior"].data_vars:
        assert np.array_equal(a["posterior"][name], b["posterior"][name])


@pytest.fixture(scope="module")
def sequential(model):
    return sample(model, discard_tuned_samples=False)


# ----------------------------------------------------------------------- pm.sample


def test_draws_do_not_depend_on_the_number_of_cores(model, sequential):
    assert_same_draws(sequential, sample(model, cores=2, mp_ctx="fork"))


@pytest.mark.long
@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_draws_do_not_depend_on_how_processes_start(model, sequential, context):
    assert_same_draws(sequential, sample(model, cores=2, mp_ctx=context))


def test_a_step_that_was_used_starts_again(model, sequential):
    with model:
        step = MJHMC()
    for _ in range(2):
        assert_same_draws(sequential, sample(model, step))


def test_chains_start_at_different_points(sequential):
    first = sequential["warmup_posterior"]["x"].values[:, 0]
    assert not np.isclose(first[0], first[1]).any()


def test_other_seeds_give_other_draws(model, sequential):
    other = sample(model, random_seed=6)
    assert not np.isclose(other["posterior"]["x"], sequential["posterior"]["x"]).all(axis=1).any()


def test_warm_up_groups_and_coordinates_are_those_of_pymc(sequential):
    assert sequential["warmup_posterior"]["x"].shape == (2, 30, 2)
    assert sequential["posterior"]["twice"].dims == ("chain", "draw", "side")
    assert sequential["posterior"]["x"].coords["side"].values.tolist() == ["left", "right"]
    assert "tune" not in sequential["sample_stats"]


def test_the_schedule_is_made_for_the_tuning_draws_of_pm_sample(model):
    seen = []
    with model:
        step = MJHMC()
        compound = CompoundStep([step])

    def note(trace, draw):
        seen.append((draw.tuning, step._tuner.is_done, step.planned_tune))

    sample(model, compound, tune=17, draws=2, chains=1, callback=note)
    assert [is_done for _, is_done, _ in seen] == [False] * 16 + [True] * 3
    assert {planned for _, _, planned in seen} == {17}


def test_a_schedule_that_was_asked_for_is_kept(model):
    with model:
        step = MJHMC(tune=40)
    begin(step, 1, 17)
    assert step.planned_tune == 40


def test_settings_freeze_when_tuning_is_stopped_early(model):
    with model:
        step = MJHMC(tune=400)
    begin(step, 1, 400)
    _, stats = run(step, model.initial_point(), draws=30, tune=45)
    for name in ("step_size_bar", "refresh_rate", "draw_interval", "num_steps"):
        assert len({s[0][name] for s in stats}) == 1
    assert not any(s[0]["tune"] for s in stats)


def test_without_tuning_the_given_settings_are_used(model):
    with model:
        data = sample(model, MJHMC(**FIXED, integrator="leapfrog"), tune=0)
    stats = data["sample_stats"]
    for name, value in FIXED.items():
        assert np.all(stats["step_size_bar" if name == "step_size" else name] == value)
    assert np.all(stats["step_size"] == FIXED["step_size"])


def test_without_tuning_and_settings_it_says_what_is_missing(model):
    with model, pytest.raises(SettingsError, match=r"tune=0.*num_steps, refresh_rate"):
        sample(model, MJHMC(step_size=0.1), tune=0)


@pytest.mark.parametrize("tune", [0, 5])
def test_a_chain_starts_at_its_initial_values(model, tune):
    """With steps so short that the first draw is where the chain has started."""
    start = {"x": np.array([30.0, -40.0])}
    options = FIXED | {"step_size": 1e-9, "metric": np.ones(6)}
    with model:
        step = MJHMC(jitter=tune == 0, **options)  # tune=0 never jitters
    data = sample(model, step, tune=tune, draws=5, initvals=start, discard_tuned_samples=False)
    group = "warmup_posterior" if tune else "posterior"
    assert np.allclose(data[group]["x"].values[:, 0], start["x"], atol=1e-6)


def test_a_callback_sees_every_draw_and_can_stop(model, sequential):
    def stop(trace, draw):
        if draw.chain == 1 and draw.draw_idx == 44:
            raise KeyboardInterrupt

    data = sample(model, callback=stop)
    made = data["posterior"].sizes["draw"]
    assert 14 <= made <= 20
    for name in ("x", "m"):
        kept = sequential["posterior"][name].values[:, :made]
        assert np.array_equal(data["posterior"][name].values, kept[: len(data["posterior"].chain)])


@pytest.mark.long
@pytest.mark.parametrize("cores", [1, 2])
def test_ctrl_c_keeps_the_draws(model, cores):
    """On one core PyMC goes on with the next chain, so there is one chain for each core."""
    interrupt = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    started = []

    def note(trace, draw):
        if not started and draw.draw_idx > 40:
            started.append(interrupt.start())

    data = sample(model, draws=1_000_000, chains=cores, cores=cores, callback=note)
    assert 0 < data["posterior"].sizes["draw"] < 1_000_000
    assert np.isfinite(data["posterior"]["x"]).all()


@pytest.mark.filterwarnings("ignore:.*return_inferencedata=False:FutureWarning")
@pytest.mark.parametrize("cores", [1, 2])
def test_a_zarr_trace_holds_draws_statistics_and_state(
    model, sequential, tmp_path, monkeypatch, cores
):
    backend = pytest.importorskip("pymc.backends.zarr")
    if not backend._zarr_available:
        pytest.skip("PyMC's backend works with zarr 2 alone; what else is installed wants zarr 3")
    import numcodecs.pickles
    from zarr.storage import DirectoryStore

    # PyMC pickles the state of a step; newer versions of numcodecs ask before they read it.
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    trace = backend.ZarrTrace(store=DirectoryStore(tmp_path / "trace.zarr"))
    # Not to InferenceData: what xarray reads depends on its version.
    sample(model, trace=trace, cores=cores, mp_ctx="fork", return_inferencedata=False)
    for name in ("x", "m", "twice"):
        assert np.array_equal(trace.posterior[name][:], sequential["posterior"][name])
    steps = trace.sample_stats["sampler_0__tree_size"][:]
    assert np.array_equal(steps, sequential["sample_stats"]["n_steps"])
    for saved in trace._sampling_state.sampling_state[:]:
        saved = saved.item() if hasattr(saved, "item") else saved
        assert saved.iter_count == 50
        assert saved.chain["process"]["arrays"]["rng"].dtype == np.uint64


@pytest.mark.parametrize("beside", [False, True])
def test_the_progress_bar_has_live_columns(model, beside):
    """The manager that `pm.sample` uses, with a step alone and beside NUTS."""
    from pymc.progress_bar import MCMCProgressBarManager

    with model:
        step = CompoundStep([MJHMC(["x"]), NUTS([model["m"]])]) if beside else MJHMC()
    begin(step, 1, 20)
    manager = MCMCProgressBarManager(step_method=step, chains=1, draws=3, tune=20)
    table = manager._backend._progress
    point = model.initial_point()
    with manager:
        for draw in range(3):
            point, stats = step.step(point)
            manager.update(chain_idx=0, is_last=False, draw=draw, stats=stats, tuning=True)
            (task,) = table.tasks
            assert task.fields["step_size"] == stats[0]["step_size"]
            assert task.fields["tree_size"] == stats[0]["tree_size"]
    headers = [column.get_table_column().header for column in table.columns]
    for header in ("Divergences", "Step size", "Grad evals"):
        assert headers.count(header) == 1


def test_data_that_changes_between_runs_is_taken_over():
    with pm.Model() as model:
        seen = pm.Data("seen", np.zeros(3))
        x = pm.Normal("x", 0, 100)
        pm.Normal("y", x, 0.1, observed=seen)
        step = MJHMC()
        means = []
        for value in (1.0, 50.0):
            pm.set_data({"seen": np.full(5, value)})
            data = sample(model, step, tune=200, draws=200, chains=1)
            means.append(float(data["posterior"]["x"].mean()))
    assert np.allclose(means, [1.0, 50.0], atol=0.05)


def test_data_that_changes_between_draws_is_taken_over(model):
    with pm.Model() as changing:
        centre = pm.Data("centre", 0.0)
        pm.Normal("x", centre, 1e-3)
        step = MJHMC(tune=60)
    begin(step, 1, 60)
    points, _ = run(step, changing.initial_point(), draws=20, tune=60)
    with changing:
        pm.set_data({"centre": 1.0})
    points, _ = run(step, points[-1], draws=2000)
    assert abs(points[-1]["x"] - 1.0) < 0.01


# ---------------------------------------------------------------------- the draws


def test_moments_are_those_of_the_model(model, seeds):
    with model:
        step = MJHMC(tune=200)
    chains = [chain(step, model.initial_point(), seeds(81, k), 4000, 200) for k in range(2)]
    x = np.stack([c["x"] for c in chains])
    m = np.stack([c["m"] for c in chains])
    for values, truth in (
        (x[..., 0], 1.0),
        (x[..., 1], -2.0),
        ((x[..., 0] - 1) ** 2, 1.0),
        ((x[..., 1] + 2) ** 2, 0.25),
        (m[..., 1, 0], 1.0),
        ((m[..., 1, 0] - 1) ** 2, 2.0),
        ((m[..., 0, 1] - 1) * (x[..., 0] - 1), 1.0),
        ((m[..., 0, 1] - 1) * (m[..., 1, 1] - 1), 1.0),
    ):
        assert abs(batch_z(values, truth)) < 5


def test_the_papers_sampler_has_the_same_moments(model, seeds):
    fixed = FIXED | {"rates": "sqrt", "clock": "poisson", "integrator": "leapfrog"}
    with model:
        step = MJHMC(**fixed)
    draws = chain(step, model.initial_point(), seeds(82), 20_000, 0)["x"][100:]
    assert abs(batch_z(draws[:, 0], 1.0)) < 5
    assert abs(batch_z((draws[:, 1] + 2) ** 2, 0.25)) < 5


def test_a_float32_model_is_sampled_in_double_precision(monkeypatch):
    """Rounding what is handed out must not look like a move by someone else."""
    monkeypatch.setattr(MJHMC, "_follow", None)
    with pm.Model() as model:
        pm.Normal("x", 0, 1, dtype="float32", shape=(2, 2))
        step = MJHMC(tune=50)
    begin(step, 1, 50)
    points, _ = run(step, model.initial_point(), draws=20, tune=50)
    assert points[0]["x"].dtype == model.initial_point()["x"].dtype == np.float32
    assert np.std([p["x"] for p in points]) > 0.1


def test_a_point_keeps_its_order_and_types(model):
    with model:
        step = MJHMC(["m"], **FIXED)
    begin(step, 1, 0)
    step.stop_tuning()
    point = model.initial_point()
    new, _ = step.step(point)
    assert list(new) == list(point)
    for name, value in point.items():
        assert isinstance(new[name], np.ndarray)
        assert new[name].shape == value.shape
        assert new[name].dtype == value.dtype
    assert new["x"] is point["x"]


def test_a_draw_is_not_overwritten_by_the_next(model):
    with model:
        step = MJHMC(**FIXED)
    begin(step, 1, 0)
    points, _ = run(step, model.initial_point(), draws=5)
    kept = vectors(points)
    points += run(step, points[-1], draws=5)[0]
    assert np.array_equal(kept, vectors(points[:5]))
    assert len(np.unique(kept, axis=0)) > 1


# ------------------------------------------------------------------ saved and resumed


@pytest.mark.parametrize("pause", [0, 7, 60, 90])
def test_a_restored_state_gives_the_same_next_draws(model, pause):
    with model:
        step, other = MJHMC(tune=70), MJHMC(tune=70)
    begin(step, 3, 70)
    points = [model.initial_point()]
    for k in range(pause):
        if k == 70:
            step.stop_tuning()
        points.append(step.step(points[-1])[0])
    state = step.sampling_state
    other.sampling_state = state
    assert equal_dataclass_values(other.sampling_state, state)
    continued = [run(s, points[-1], draws=10, tune=max(70 - pause, 0)) for s in (step, other)]
    assert np.array_equal(vectors(continued[0][0]), vectors(continued[1][0]))
    assert continued[0][1][-1][0]["energy"] == continued[1][1][-1][0]["energy"]
    assert equal_dataclass_values(step.sampling_state, other.sampling_state)


def test_a_state_of_other_variables_is_refused(model):
    with model:
        step, other = MJHMC(["x"]), MJHMC(["m"])
    with pytest.raises(ValueError, match="frozen"):
        other.sampling_state = step.sampling_state


def test_a_pickle_goes_on_with_the_same_draws(model):
    with model:
        step = MJHMC(tune=30)
    begin(step, 4, 30)
    points, _ = run(step, model.initial_point(), draws=5, tune=30)
    copy = cloudpickle.loads(cloudpickle.dumps(step))
    ours, theirs = run(step, points[-1], draws=10)[0], run(copy, points[-1], draws=10)[0]
    assert np.array_equal(vectors(ours), vectors(theirs))


# ---------------------------------------------------------------------- statistics


def test_statistics_are_those_that_are_declared(model):
    with model:
        step = MJHMC(tune=20)
    begin(step, 1, 20)
    _, stats = run(step, model.initial_point(), draws=5, tune=20)
    for made in stats:
        (made,) = made
        assert set(made) == set(step.stats_dtypes_shapes)
        for name, (dtype, shape) in step.stats_dtypes_shapes.items():
            if name == "warning":
                assert made[name] is None
                continue
            assert np.shape(made[name]) == tuple(shape)
            assert np.can_cast(np.asarray(made[name]).dtype, dtype, "same_kind")


def test_statistics_agree_with_each_other(sequential):
    for group in ("sample_stats", "warmup_sample_stats"):
        stats = sequential[group]
        assert np.all(stats["n_jumps"] == stats["n_L"] + stats["n_F"] + stats["n_R"])
        held = stats["draw_interval"] / np.maximum(stats["n_jumps"], 1)
        assert np.allclose(stats["holding_time"], held)
        assert np.all((stats["acceptance_rate"] >= 0) & (stats["acceptance_rate"] <= 1))
        assert np.all(stats["n_steps"] >= 0)
    x = sequential["posterior"]["x"].values
    m = sequential["posterior"]["m"].values
    residual = np.concatenate(
        [
            (x - [1.0, -2.0]) / [1.0, 0.5],
            (m - x[..., :1, None]).reshape(*m.shape[:2], 4),
        ],
        axis=-1,
    )
    lp = -0.5 * (residual**2).sum(-1) - 3 * np.log(2 * np.pi) - np.log(0.5)
    assert np.allclose(sequential["sample_stats"]["lp"], lp)


def test_shared_statistics_have_the_types_of_nuts():
    for name, (dtype, _) in NUTS.stats_dtypes_shapes.items():
        if name in MJHMC.stats_dtypes_shapes:
            assert MJHMC.stats_dtypes_shapes[name][0] is dtype


def wall():
    """A normal distribution cut off where its density is largest: steps leave the support."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, initval=1.0)
        pm.Potential("wall", pm.math.switch(x > 0, 0.0, -np.inf))
    return model


def test_divergences_are_counted_and_marked():
    model = wall()
    with model:
        step = MJHMC(step_size=0.3, num_steps=1, refresh_rate=0.25, draw_interval=2.0)
    begin(step, 1, 0)
    _, stats = run(step, model.initial_point(), draws=300)
    diverging = np.array([s[0]["diverging"] for s in stats])
    assert 10 < diverging.sum() < 290
    assert stats[-1][0]["divergences"] == diverging.sum()
    for made, is_diverging in zip(stats, diverging, strict=True):
        assert (made[0]["warning"] is not None) == is_diverging


def test_a_stuck_chain_is_told_once_with_advice(caplog):
    with pm.Model() as model:
        pm.Normal("x", 0, 1, shape=20)
        step = MJHMC(step_size=4.0, num_steps=1, refresh_rate=0.001, draw_interval=40.0)
    with caplog.at_level(logging.WARNING, "pymc.stats.convergence"):
        sample(model, step, tune=0, draws=300, chains=1)
    told = [r.message for r in caplog.records if "stuck" in r.message]
    assert len(told) == 1
    assert "target_accept" in told[0]


def test_a_capped_draw_is_told_once_with_advice(caplog):
    with pm.Model() as model:
        pm.Normal("x", 0, 1, shape=2)
        step = MJHMC(**FIXED, max_gradients=1)
    with caplog.at_level(logging.WARNING, "pymc.stats.convergence"):
        sample(model, step, tune=0, draws=50, chains=1)
    assert [
        r.message.count("max_gradients") for r in caplog.records if "cut short" in r.message
    ] == [1]


def told_of_acceptance(step, acceptances, tune=0, **columns):
    """Draws at which a chain with these acceptance rates is told of them, and the messages.

    The first `tune` draws are tuning ones; `columns` are other statistics: {draw: value}.
    """
    begin(step, 1, tune)
    tuned = first_guess(step.settings, step.density.ndim)
    told = {}
    for draw, acceptance in enumerate(acceptances):
        if draw == tune:
            step.stop_tuning()
        row = [0.0] * len(STAT_NAMES)
        row[COLUMN["acceptance_rate"]] = acceptance
        for name, values in columns.items():
            row[COLUMN[name]] = values.get(draw, 0.0)
        warning = step._stats(row, tuned)["warning"]
        if warning is not None and "mean acceptance" in warning.message:
            assert warning.kind is WarningType.BAD_ACCEPTANCE
            assert warning.level == "warn"
            told[draw] = warning.message
    return told


@pytest.fixture
def fixed_step(model):
    with model:
        return MJHMC(**FIXED)


def test_a_low_acceptance_is_told_once_when_enough_draws_are_made(fixed_step):
    told = told_of_acceptance(fixed_step, [0.2, 0.6] * ACCEPTANCE_DRAWS)
    assert list(told) == [ACCEPTANCE_DRAWS - 1]
    (message,) = told.values()
    assert "is 0.40:" in message
    assert "target_accept" in message


def test_the_acceptance_that_is_told_is_that_of_the_first_draws_after_tuning(fixed_step):
    limit, few = LOW_ACCEPTANCE, 30
    good, bad = [limit + 0.01] * ACCEPTANCE_DRAWS, [limit - 0.01] * ACCEPTANCE_DRAWS
    assert told_of_acceptance(fixed_step, good + [0.0] * few) == {}
    assert told_of_acceptance(fixed_step, [0.0] * few + good, tune=few) == {}
    assert list(told_of_acceptance(fixed_step, [1.0] * few + bad, tune=few)) == [few + len(bad) - 1]
    assert told_of_acceptance(fixed_step, bad[1:]) == {}


def test_where_a_draw_tried_nothing_the_acceptance_before_it_counts(fixed_step):
    rare = [0.9] + [math.nan] * 9
    assert told_of_acceptance(fixed_step, rare * ACCEPTANCE_DRAWS) == {}
    low = [0.1] + [math.nan] * 9
    (message,) = told_of_acceptance(fixed_step, low * ACCEPTANCE_DRAWS).values()
    assert "is 0.10:" in message


def test_draws_before_the_first_try_do_not_lower_the_acceptance(fixed_step):
    nothing = [math.nan] * (2 * ACCEPTANCE_DRAWS)
    assert told_of_acceptance(fixed_step, nothing) == {}
    assert told_of_acceptance(fixed_step, nothing + [0.9] * ACCEPTANCE_DRAWS) == {}


@pytest.mark.parametrize("column", ["n_capped", "longest_stay"])
def test_a_low_acceptance_is_told_beside_what_else_is_wrong(fixed_step, column):
    """Each draw carries one message, so the other one comes with the next draw."""
    last = ACCEPTANCE_DRAWS - 1
    other = {column: {last: STUCK_STAY + 1}}
    told = told_of_acceptance(fixed_step, [0.2] * (2 * ACCEPTANCE_DRAWS), **other)
    assert list(told) == [last + 1]


def test_a_good_chain_is_told_nothing(sequential, model, caplog):
    with caplog.at_level(logging.WARNING, "pymc.stats.convergence"):
        sample(model, draws=250, tune=150, chains=1)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


# ---------------------------------------------------------------------- what fails


def test_an_unknown_option_is_named(model):
    with model, pytest.raises(SettingsError, match="Did you mean 'target_accept'"):
        MJHMC(target_acept=0.9)


def test_settings_and_options_exclude_each_other(model):
    from mjhmc_numba import Settings

    with model, pytest.raises(SettingsError, match="not both"):
        MJHMC(settings=Settings(), step_size=0.1)


def test_options_reach_the_process(model):
    with model:
        step = MJHMC(**FIXED, rates="barker", refresh_alpha=0.5, metric=np.arange(1.0, 7.0))
    begin(step, 1, 0)
    run(step, model.initial_point(), draws=1)
    assert step._process["g_max"] == 2.0
    assert step._process["refresh_alpha"] == 0.5
    assert np.allclose(step._process.tuned.metric.scale**2, np.arange(1.0, 7.0))


def test_a_metric_that_does_not_fit_is_refused(model):
    with model, pytest.raises(SettingsError, match="5 dimensions, the density 6"):
        MJHMC(metric=np.ones(5))


def test_wrong_variables_are_named():
    with models.mixed():
        with pytest.raises(DiscreteVariableError, match="k is discrete"):
            MJHMC(["k"])
        with pytest.raises(UnknownVariableError, match="nobody is not in the model"):
            MJHMC(["nobody"])
    with pm.Model():
        pm.Poisson("n", 3)
        with pytest.raises(NoVariableError, match="only discrete ones"):
            MJHMC()


def test_a_start_outside_the_support_names_the_term():
    with pm.Model() as model:
        pm.Normal("x", 0, 1)
        pm.Potential("never", pm.math.log(-1.0 - model["x"] ** 2))
        step = MJHMC()
    with pytest.raises(StartError, match="term of never"):
        sample(model, step)


def test_data_that_is_nan_is_named():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        seen = pm.Data("seen", [0.0, 1.0])
        pm.Normal("y", x, 1, observed=seen)
        step = MJHMC()
        seen.set_value(np.array([0.0, np.nan]))
    with pytest.raises(DataError, match="seen"):
        sample(model, step)


def test_a_start_at_the_edge_is_moved_inside():
    """Half of the points around the initial one are outside; a chain never starts there."""
    model = wall()
    with model:
        step = MJHMC(tune=20)
    for seed in range(5):
        begin(step, seed, 20)
        point, _ = step.step(model.initial_point() | {"x": np.array(0.01)})
        assert point["x"] > 0


def test_every_variable_alone_is_a_compound_step(model):
    with model:
        step = MJHMC(blocked=False)
    assert isinstance(step, CompoundStep)
    assert [[v.name for v in s.vars] for s in step.methods] == [["x"], ["m"]]


def test_it_is_never_chosen_by_itself():
    from pymc.step_methods.compound import Competence

    with pm.Model() as model:
        pm.Normal("x")
        pm.Poisson("n", 1)
    assert MJHMC.competence(model["x"], True) == Competence.COMPATIBLE
    assert MJHMC.competence(model["x"], False) == Competence.INCOMPATIBLE
    assert MJHMC.competence(model["n"], False) == Competence.INCOMPATIBLE
