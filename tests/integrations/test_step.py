"""MJHMC as a step method: what `pm.sample` asks of it, and what it says of its draws."""

import os
import signal
import threading

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.step_methods.compound import CompoundStep
from pymc.step_methods.hmc import NUTS
from pymc.step_methods.state import equal_dataclass_values

from mjhmc_numba.pymc import MJHMC
from tests.integrations import models
from tests.integrations.chains import FIXED, OTHERS_WARN, begin, chain, run, sample, vectors
from tests.statistical.estimates import batch_z

pytestmark = OTHERS_WARN


def assert_same_draws(a, b):
    for name in a["posterior"].data_vars:
        assert np.array_equal(a["posterior"][name], b["posterior"][name])


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
    assert not step.tune


def test_without_tuning_the_given_settings_are_used(model):
    with model:
        data = sample(model, MJHMC(**FIXED, integrator="leapfrog"), tune=0)
    stats = data["sample_stats"]
    for name, value in FIXED.items():
        assert np.all(stats["step_size_bar" if name == "step_size" else name] == value)
    assert np.all(stats["step_size"] == FIXED["step_size"])


def test_without_tuning_it_runs_and_says_what_was_not_learnt(model, caplog):
    with model:
        data = sample(model, MJHMC(step_size=0.1), tune=0)
    assert np.all(data["sample_stats"]["step_size"] == 0.1)
    assert "The chain had too short a warm-up to learn num_steps, refresh_rate, " in caplog.text


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
    model, sequential, tmp_path, zarr_backend, cores
):
    from zarr.storage import DirectoryStore

    trace = zarr_backend.ZarrTrace(store=DirectoryStore(tmp_path / "trace.zarr"))
    # Not to InferenceData: what xarray reads depends on its version.
    sample(model, trace=trace, cores=cores, mp_ctx="fork", return_inferencedata=False)
    for name in ("x", "m", "twice"):
        assert np.array_equal(trace.posterior[name][:], sequential["posterior"][name])
    steps = trace.sample_stats["sampler_0__tree_size"][:]
    assert np.array_equal(steps, sequential["sample_stats"]["n_steps"])
    for saved in trace._sampling_state.sampling_state[:]:
        saved = saved.item() if hasattr(saved, "item") else saved
        assert saved.iter_count == 50
        assert saved.chain["process"]["rng"].dtype == np.uint64


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


@pytest.mark.parametrize("integrator", ["auto", "harmonic", "leapfrog"])
def test_data_that_changes_between_draws_is_taken_over(integrator):
    with pm.Model() as changing:
        centre = pm.Data("centre", 0.0)
        pm.Normal("x", centre, 1e-3)
        step = MJHMC(tune=60, integrator=integrator)
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
    with model:
        step = MJHMC.paper(**FIXED)
    draws = chain(step, model.initial_point(), seeds(82), 20_000, 0)["x"][100:]
    assert abs(batch_z(draws[:, 0], 1.0)) < 5
    assert abs(batch_z((draws[:, 1] + 2) ** 2, 0.25)) < 5


def test_a_float32_model_is_sampled_in_double_precision(monkeypatch):
    """Rounding what is handed out must not look like a move by another step method."""
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


def restore_and_compare(model, pause, tune):
    """A chain that is restored after some draws in another step method makes the same ones."""
    with model:
        step, other = MJHMC(tune=tune), MJHMC(tune=tune)
    begin(step, 3, tune)
    points = [model.initial_point()]
    for k in range(pause):
        if k == tune:
            step.stop_tuning()
        points.append(step.step(points[-1])[0])
    state = step.sampling_state
    other.sampling_state = state
    assert equal_dataclass_values(other.sampling_state, state)
    continued = [run(s, points[-1], draws=10, tune=max(tune - pause, 0)) for s in (step, other)]
    assert np.array_equal(vectors(continued[0][0]), vectors(continued[1][0]))
    assert continued[0][1][-1][0]["energy"] == continued[1][1][-1][0]["energy"]
    assert equal_dataclass_values(step.sampling_state, other.sampling_state)


@pytest.mark.parametrize("pause", [0, 7, 60, 90])
def test_a_restored_state_gives_the_same_next_draws(model, pause):
    restore_and_compare(model, pause, tune=70)


@pytest.mark.parametrize("pause", [15, 48, 55])
def test_a_restored_state_goes_on_with_several_starts(pause):
    with pm.Model() as far_out:
        pm.Normal("x", [3.0, -3.0], 0.01)
    restore_and_compare(far_out, pause, tune=210)


def test_a_restored_state_goes_on_with_the_reparametrisation():
    restore_and_compare(models.funnel(), pause=110, tune=120)
    restore_and_compare(models.funnel(), pause=130, tune=120)


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
