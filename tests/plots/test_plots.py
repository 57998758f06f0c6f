"""What a picture shows is what was drawn."""

import json
import sys

import matplotlib
import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba import plots, targets
from mjhmc_numba.plots.jumps import rungs

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.figure import Figure

SMALL = {"draws": 300, "tune": 300, "chains": 2, "cores": 1, "seed": 4, "progress": False}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def funnel():
    return mj.sample(targets.funnel(6), keep_warmup=True, **SMALL)


@pytest.fixture(scope="module")
def record():
    options = {"step_size": 0.9, "num_steps": 1, "refresh_rate": 0.2, "draw_interval": 4.0}
    sizes = SMALL | {"tune": 0, "draws": 200}
    return mj.sample(
        targets.gaussian([1.0, 0.5]), jumps=True, **sizes, settings=mj.Settings.paper(**options)
    )


@pytest.fixture(scope="module")
def diverging():
    options = {"reparametrisation": "none", "integrator": "leapfrog", "refine_levels": 0}
    with pytest.warns(mj.SamplingWarning):
        return mj.sample(targets.funnel(6), **SMALL, **options, target_accept=0.4)


def test_visits_to_a_rung_of_one_ladder_are_at_one_position(record):
    visits = record.jumps[0]
    ladder = np.cumsum(np.r_[0, visits["event"][:-1] == 3])
    seen = {}
    for place, x in zip(zip(ladder, rungs(visits["event"]), strict=True), visits["x"], strict=True):
        np.testing.assert_allclose(x, seen.setdefault(place, x), rtol=1e-9)
    assert len(seen) < 0.9 * len(ladder)  # some were visited again


def test_a_visit_is_as_long_as_the_process_dwelt_there(record):
    axes = plots.plot_ladder(record, chain=1, start=20, visits=40)
    assert axes.shape == (3,)
    segments = np.concatenate([np.array(c.get_segments()) for c in axes[1].collections])
    segments = segments[np.argsort(segments[:, 0, 0])]
    visits = record.jumps[1]
    np.testing.assert_allclose(np.ptp(segments[..., 0], axis=1), visits["holding_time"][20:60])
    np.testing.assert_allclose(segments[:, 0, 1], visits["x"][20:60, 0])
    same = plots.plot_ladder(visits, start=20, visits=40)
    assert len(same[0].collections) == len(axes[0].collections)


def test_the_record_of_a_pymc_model_is_shown_under_its_names():
    pm = pytest.importorskip("pymc")
    import mjhmc_numba.pymc as mp

    with pm.Model(coords={"side": ["left", "right"]}) as model:
        pm.Normal("z", dims="side")
    options = {"step_size": 0.9, "num_steps": 1, "refresh_rate": 0.2, "draw_interval": 4.0}
    size = {"draws": 200, "tune": 0, "chains": 2, "random_seed": 1, "progressbar": False}
    settings = mj.Settings.paper(**options)
    data = mp.sample(
        model=model, jumps=True, compute_convergence_checks=False, settings=settings, **size
    )
    axes = plots.plot_ladder(data, chain=1, visits=30, dimension=1)
    assert axes[1].get_ylabel() == "z[right]"
    group = data["jump_record"]
    of_chain = np.asarray(group["chain"]) == 1
    first = np.asarray(group["z"])[of_chain][0, 1]
    assert axes[1].lines[0].get_ydata()[0] == first


def test_without_a_jump_record_the_picture_says_how_to_get_one(funnel):
    with pytest.raises(ValueError, match="jumps=True"):
        plots.plot_ladder(funnel)


def test_rates_and_shares_are_those_of_the_run(funnel):
    axes = plots.plot_events(funnel)
    both = [funnel.warmup_stats, funnel.stats]
    time = np.concatenate([s["draw_interval"] for s in both], axis=1)
    for line, name in zip(axes[0].lines, ("n_L", "n_F", "n_R"), strict=True):
        made = np.concatenate([s[name] for s in both], axis=1)
        assert line.get_ydata()[0] == pytest.approx(made[:, :10].sum() / time[:, :10].sum())
    top = axes[1].collections[-1].get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(1.0)
    assert axes[0].get_xlim() == (-300, 300)


def test_the_warm_up_is_shown_to_its_end_with_and_without_its_draws(funnel):
    windows = funnel.warmup_windows[0]
    assert windows[-1].draws == funnel.tune
    assert 0 < windows[-1].gradients <= funnel.warmup_gradients[0]
    assert windows[-1].reparametrised == 5
    axes = plots.plot_warmup(funnel)
    assert axes.shape == (2, 2)
    steps = axes[0, 0].patches[0].get_data()
    assert steps.edges[-1] == 300
    assert steps.values[-1] == windows[-1].step_size
    data = funnel.to_arviz()
    kept = plots.plot_warmup(data)
    assert len(kept[1, 1].lines) == 4
    del data["sample_stats"].attrs["warmup_windows"]
    by_draw = plots.plot_warmup(data)
    np.testing.assert_array_equal(by_draw[1, 1].lines[1].get_ydata(), funnel.warmup_stats["lp"][1])


def test_where_nothing_of_the_warm_up_is_known_it_says_how_to_keep_it(funnel):
    data = mj.sample(targets.gaussian([1.0]), **SMALL).to_arviz()
    del data["sample_stats"].attrs["warmup_windows"]
    with pytest.raises(ValueError, match="discard_tuned_samples=False"):
        plots.plot_warmup(data)


def test_the_funnel_is_shown_by_half_the_slope_of_its_log_variance(funnel):
    """Its children have the log scale v / 2."""
    axes = plots.plot_reparametrisation(funnel)
    assert len(axes) == 2
    for ax in axes:
        assert [t.get_text() for t in ax.get_xticklabels()] == ["scale by x[0]"]
        slopes = np.asarray(ax.images[0].get_array())
        np.testing.assert_allclose(slopes, 0.5, atol=0.1)
    assert [t.get_text() for t in axes[0].get_yticklabels()] == [f"x[{j}]" for j in range(1, 6)]


def test_children_of_many_dimensions_share_a_row_by_variable(funnel):
    data = funnel.to_arviz()
    names = [f"theta[{j}]" for j in range(40)]
    chain = {"children": names, "scale_parents": ["tau"], "scale_slopes": [[0.8]] * 40}
    chain |= {"location_parents": [], "location_slopes": [[]] * 40}
    data["sample_stats"].attrs["reparametrisation"] = json.dumps([chain, {}])
    axes = plots.plot_reparametrisation(data)
    assert [t.get_text() for t in axes[0].get_yticklabels()] == ["theta"]
    assert "as it is" in axes[1].get_title(loc="left")


def test_a_model_that_needs_no_reparametrisation_says_so():
    ax = plots.plot_reparametrisation(mj.sample(targets.gaussian([1.0]), **SMALL))
    assert "No variable" in ax.texts[0].get_text()


def test_autocorrelation_is_drawn_over_gradients(funnel):
    axes = plots.plot_autocorr({"one": funnel, "other": funnel}, "x")
    (first, second, _) = axes.ravel()[0].lines
    per_draw = funnel.stats["n_steps"].mean()
    np.testing.assert_allclose(first.get_xdata()[:3], per_draw * np.arange(3))
    assert first.get_ydata()[0] == pytest.approx(1.0)
    np.testing.assert_array_equal(first.get_ydata(), second.get_ydata())
    assert plots.plot_autocorr(funnel).shape == (4,)


def test_divergences_are_shown_where_they_are(diverging):
    ax = plots.plot_divergences(diverging.to_arviz(list("vabcde")), ["v", "a"])
    bad = diverging.stats["diverging"]
    assert bad.any()
    shown = np.asarray(ax.collections[1].get_offsets())
    np.testing.assert_array_equal(shown, diverging.draws[bad][:, :2])
    grid = plots.plot_divergences(diverging)
    assert grid.shape == (2, 2)
    assert not grid[0, 1].get_visible()
    # The parent of a funnel is where divergences stand apart most.
    labels = {grid[1, 0].get_xlabel(), grid[1, 1].get_xlabel(), grid[1, 0].get_ylabel()}
    assert "x[0]" in labels


@pytest.mark.parametrize(
    "plot",
    [plots.plot_events, plots.plot_warmup, plots.plot_reparametrisation, plots.plot_divergences],
)
def test_one_figure_is_opened_and_axes_are_returned_so_that_notebooks_show_it_once(plot, funnel):
    drawn = plot(funnel)
    assert len(pyplot.get_fignums()) == 1
    assert all(isinstance(ax, pyplot.Axes) for ax in np.ravel(drawn))


def test_axes_that_are_given_are_drawn_on_and_no_figure_is_opened(funnel):
    axes = Figure().subplots(2, 2)
    drawn = plots.plot_warmup(funnel, ax=axes)
    assert drawn[0, 0] is axes[0, 0]
    assert not pyplot.get_fignums()
    with pytest.raises(ValueError, match="needs 2"):
        plots.plot_events(funnel, ax=axes)


def test_variables_are_chosen_as_arviz_chooses_them(funnel):
    data = funnel.to_arviz(list("vabcde"))
    ax = plots.plot_autocorr(data, ["~a", "~b", "~c", "~d", "~e"])
    assert ax.get_title(loc="left") == "v"
    with pytest.raises(KeyError, match="w is none of the variables v, a"):
        plots.plot_autocorr(data, "w")


def test_a_missing_matplotlib_says_what_to_install(funnel, monkeypatch, tmp_path):
    for module in ("matplotlib.pyplot", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    for ask in (plots.plot_events, lambda result: result.report(tmp_path / "run.html")):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'mjhmc_numba\[plots\]'"):
            ask(funnel)
