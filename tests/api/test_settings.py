"""Settings: each changes something, unknown and contradictory ones raise, none is ignored."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from numba import njit

import mjhmc_numba as mj
from mjhmc_numba import Settings, reference, targets
from mjhmc_numba.process import random_words
from tests.api.densities import FIXED, SHORT, log_gamma, log_gamma_in_python
from tests.reparametrisations import random_reparametrisation

# Runs are short here; whether their draws can be trusted is asserted elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")

HERE = {"initial": [0.3, -0.2, 0.1], "seed": 4}


def lukewarm(t):
    """A balancing function of our own: the harmonic mean of 1 and t, bounded by 2."""
    return 2 * t / (1 + t)


def geometric(t):
    """The paper's, as a function."""
    return t**0.5


# One other value for each setting, and the run in which it must show.
RUN = {**FIXED, **HERE, "draws": 40, "chains": 1}
POISSON = {**RUN, "clock": "poisson"}
TUNED = {**SHORT, **HERE}
# A walk of single steps mixes slowly, so that its draws are taken apart.
SLOW = {**TUNED, "tune": 400, "step_size": 0.3, "num_steps": 1, "refresh_rate": 1.0}
CHANGES = {
    "step_size": (0.4, RUN),
    "num_steps": (3, RUN),
    "refresh_rate": (0.4, RUN),
    "draw_interval": (1.0, RUN),
    "integrator": ("two_stage", RUN),
    "rates": ("barker", RUN),
    "rates_bound": (3.0, {**RUN, "rates": lukewarm}),
    "clock": ("poisson", RUN),
    "method": ("competing", POISSON),
    "metric": ([1.0, 2.0, 3.0], RUN),
    "reparametrisation": (random_reparametrisation(3), RUN),
    "refresh_alpha": (0.5, RUN),
    "refresh_jitter": (0.5, RUN),
    "step_jitter": (0.3, RUN),
    "target_accept": (0.6, TUNED),
    "refine_levels": (3, {**RUN, "refine_threshold": 1e-3}),
    "refine_threshold": (1e-3, {**RUN, "refine_levels": 3}),
    "ess_per_draw": (0.1, SLOW),
    "most_spacing": (1, SLOW),
    "starts": (1, {**TUNED, "tune": 400}),
    "max_jumps": (1, RUN),
    "max_gradients": (1, RUN),
}


def test_a_reparametrisation_is_found_unless_it_is_asked_for_none():
    options = {"seed": 1, "chains": 1, "draws": 50, "tune": 300, "progress": False}
    found, none = (
        mj.sample(targets.funnel(10), reparametrisation=c, **options) for c in ("auto", "none")
    )
    assert found.tuned[0].reparametrisation.scale_parents.tolist() == [0]
    assert none.tuned[0].reparametrisation is None


@pytest.mark.parametrize("given", [{"step_size": 0.3}, {"metric": np.ones(10)}])
def test_no_reparametrisation_is_sought_where_the_step_size_or_the_metric_is_given(given):
    options = {"seed": 1, "chains": 1, "draws": 50, "tune": 300, "progress": False}
    assert mj.sample(targets.funnel(10), **given, **options).tuned[0].reparametrisation is None


@pytest.mark.parametrize(
    ("reparametrisation", "message"), [("some", "none of"), (random_reparametrisation(9), "of 3")]
)
def test_a_reparametrisation_that_cannot_be_used_is_refused(reparametrisation, message):
    with pytest.raises(mj.SettingsError, match=message):
        mj.sample(log_gamma, **{**RUN, "reparametrisation": reparametrisation})


def test_every_setting_is_covered():
    assert list(CHANGES) == [field.name for field in dataclasses.fields(mj.Settings)]


@pytest.mark.parametrize("name", CHANGES)
def test_each_setting_changes_the_draws(name):
    value, options = CHANGES[name]
    usual = mj.sample(log_gamma, **options)
    changed = mj.sample(log_gamma, **{**options, name: value})
    assert (changed.draws != usual.draws).any()


@pytest.mark.parametrize("metric", ["diag", "low_rank"])
def test_a_tuned_metric_is_of_the_kind_that_was_asked_for(metric):
    target = targets.correlated_gaussian([[1.0, 0.95], [0.95, 1.0]])
    result = mj.sample(target, metric=metric, seed=1, chains=1, draws=50, tune=200, progress=False)
    assert (result.tuned[0].metric.rank > 0) == (metric == "low_rank")


def test_settings_can_be_given_as_one_object():
    options = {"step_size": 0.5, "num_steps": 2, "refresh_rate": 0.3, "draw_interval": 1.5}
    run = {**HERE, "draws": 10, "chains": 1, "tune": 0, "progress": False}
    one = mj.sample(log_gamma, settings=mj.Settings(**options), **run)
    other = mj.sample(log_gamma, **options, **run)
    np.testing.assert_array_equal(one.draws, other.draws)
    with pytest.raises(mj.SettingsError, match="not both"):
        mj.sample(log_gamma, settings=mj.Settings(**options), step_size=0.1, **run)
    with pytest.raises(mj.SettingsError, match="not dict"):
        mj.sample(log_gamma, settings=options, **run)


# --- What raises


@pytest.mark.parametrize(
    ("name", "hint"),
    [("stepsize", "step_size"), ("target_acceptance", "target_accept"), ("num_step", "num_steps")],
)
def test_an_unknown_option_raises_with_a_hint(name, hint):
    with pytest.raises(mj.SettingsError, match=f"{name!r}. Did you mean '{hint}'"):
        mj.sample(log_gamma, ndim=2, **{name: 1})


def test_an_option_like_no_other_raises_with_the_list():
    with pytest.raises(mj.SettingsError, match="Known: step_size, num_steps"):
        mj.sample(log_gamma, ndim=2, zzz=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0}, "step_size must be positive"),
        ({"step_size": np.nan}, "step_size must be positive"),
        ({"step_size": "large"}, "step_size must be positive"),
        ({"num_steps": 2.5}, "num_steps is a whole number"),
        ({"num_steps": 0}, "num_steps is a whole number"),
        ({"refresh_rate": -1.0}, "refresh_rate must be positive"),
        ({"draw_interval": np.inf}, "draw_interval must be positive"),
        ({"integrator": "euler"}, "integrator='euler' is none of 'auto', 'leapfrog'"),
        ({"rates": "sqr"}, "rates='sqr' is none of"),
        ({"rates": 3.0}, "name or a function"),
        ({"rates": "sqrt", "rates_bound": 1.0}, "rates_bound goes with a function"),
        ({"rates": lukewarm, "rates_bound": -1.0}, "rates_bound must be positive"),
        ({"clock": "sundial"}, "clock='sundial'"),
        ({"method": "magic"}, "method='magic'"),
        ({"metric": "dense"}, "metric='dense'"),
        ({"metric": [1.0, 1.0]}, "metric has 2 dimensions, the density 3"),
        ({"metric": [1.0, -1.0, 1.0]}, "positive finite variance"),
        ({"metric": np.ones((3, 3))}, "positive definite"),
        ({"metric": np.ones((3, 2))}, "square matrix"),
        ({"metric": np.eye(3) + np.diag([0.5, 0.5], 1)}, "symmetric"),
        ({"refresh_alpha": 1.0}, "refresh_alpha lies in"),
        ({"refresh_jitter": -0.1}, "refresh_jitter lies in"),
        ({"step_jitter": 1.0}, "step_jitter lies in"),
        ({"step_jitter": "some"}, "step_jitter lies in"),
        ({"target_accept": 1.0}, "target_accept lies in"),
        ({"target_accept": 0.0}, "target_accept must be positive"),
        ({"refine_levels": 17}, "refine_levels is a whole number from 0 to 16"),
        ({"refine_threshold": 0.0}, "refine_threshold must be positive"),
        ({"max_jumps": 0}, "max_jumps is a whole number"),
        ({"max_gradients": 1.5}, "max_gradients is a whole number"),
        ({"rates": "sqrt", "clock": "regular"}, "clock='regular' needs bounded rates"),
        ({"rates": "sqrt", "method": "thinning"}, "Thinning needs bounded rates"),
        ({"method": "competing", "clock": "regular"}, "Poisson clock"),
        ({"rates": geometric, "clock": "regular"}, "needs bounded rates"),
        ({"jumps": True, "clock": "regular"}, "clock='poisson'"),
        ({"jumps": True, "method": "thinning"}, "method='competing'"),
    ],
)
def test_settings_that_make_no_sense_are_named(options, message):
    with pytest.raises(mj.SettingsError, match=message):
        mj.sample(log_gamma, ndim=3, **{**SHORT, **options})


# --- Rates of one's own


@pytest.mark.parametrize(
    ("g", "bound", "message"),
    [
        (lambda t: t, None, r"obeys g\(t\) = t g\(1/t\), but at t = "),
        (lambda t: 1.01 * min(1.0, t) if t < 1 else 1.0, None, "obeys"),
        (lambda t: -(t**0.5), None, "positive and finite"),
        (lambda t: 2 * t / (1 + t), 1.5, "rates_bound=1.5 is not a bound"),
        (lambda t: 2 / (1 + 1 / t), None, r"g\(0\) raises ZeroDivisionError"),
        (lambda t: str(t), None, "Numba cannot compile"),
    ],
)
def test_a_function_that_does_not_balance_is_refused(g, bound, message):
    with pytest.raises(mj.SettingsError, match=message):
        mj.Settings(rates=g, rates_bound=bound)


@pytest.mark.parametrize(
    ("g", "bound", "name"),
    [(geometric, None, "sqrt"), (njit(lukewarm), 2.0, "barker"), (lukewarm, 2.0, "barker")],
)
def test_a_function_of_ones_own_samples_as_its_twin_by_name(g, bound, name):
    mine = mj.sample(log_gamma, **{**RUN, "rates": g, "rates_bound": bound})
    named = mj.sample(log_gamma, **{**RUN, "rates": name})
    np.testing.assert_allclose(mine.draws, named.draws, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rates", ["sqrt", geometric])
def test_settings_survive_pickling(rates):
    settings = mj.Settings(rates=rates)
    assert settings.balancing.code >= 0  # has been compiled before it is sent
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert again.balancing.code == settings.balancing.code
    assert "balancing" not in pickle.loads(pickle.dumps(mj.Settings(rates=rates))).__dict__


# --- Fixed settings


@pytest.mark.parametrize("draw_interval", [0.7, 3.0])
def test_fixed_settings_with_sqrt_rates_are_exactly_the_papers_sampler(draw_interval):
    fixed = {"step_size": 0.6, "num_steps": 3, "refresh_rate": 0.2, "draw_interval": draw_interval}
    start, draws, seed = np.array([0.5, -1.0]), 200, 12
    options = {"seed": seed, "draws": draws, "chains": 2, "tune": 0, "progress": False}
    result = mj.sample(log_gamma, start, rates="sqrt", **fixed, **options)
    paper = mj.sample(log_gamma, start, settings=mj.Settings.paper(**fixed), **options)
    np.testing.assert_array_equal(result.draws, paper.draws)
    tuned = mj.Tuned(**fixed, integrator="leapfrog", metric=mj.Metric.diagonal(np.ones(2)))
    for k, child in enumerate(np.random.SeedSequence(seed).spawn(2)):
        twin = reference.run(
            log_gamma_in_python,
            start,
            draws,
            mj.Settings.paper(**fixed),
            tuned,
            random_words(child),
        )
        np.testing.assert_allclose(result.draws[k], twin.draws, rtol=1e-6, atol=1e-8)
        np.testing.assert_array_equal(result.stats["n_steps"][k][1:], twin.stats["n_gradients"][1:])


def test_the_warm_up_leaves_given_settings_alone():
    given = {
        "step_size": 0.123,
        "num_steps": 4,
        "refresh_rate": 0.21,
        "draw_interval": 1.7,
        "integrator": "three_stage",
        "metric": [1.0, 2.0, 3.0],
    }
    result = mj.sample(log_gamma, **TUNED, **given)
    for tuned in result.tuned:
        assert (tuned.step_size, tuned.num_steps) == (0.123, 4)
        assert (tuned.refresh_rate, tuned.draw_interval) == (0.21, 1.7)
        assert tuned.integrator == "three_stage"
        np.testing.assert_allclose(tuned.metric.scale**2, [1.0, 2.0, 3.0])
        assert tuned.metric.rank == 0
    np.testing.assert_array_equal(result.stats["step_size"], 0.123)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step_size", 0.31),
        ("num_steps", 5),
        ("refresh_rate", 0.77),
        ("draw_interval", 2.3),
        ("integrator", "two_stage"),
    ],
)
def test_one_given_setting_is_left_alone_while_the_others_are_tuned(name, value):
    result = mj.sample(log_gamma, **TUNED, **{name: value})
    others = {"step_size", "num_steps", "refresh_rate", "draw_interval"} - {name}
    for tuned in result.tuned:
        assert getattr(tuned, name) == value
        assert all(getattr(tuned, other) > 0 for other in others)


# --- Settings as values


@pytest.mark.parametrize(
    "make",
    [
        lambda scale: {"metric": np.array([1.0, scale])},
        lambda scale: {"metric": [1.0, scale]},
        lambda scale: {"metric": np.diag([1.0, scale])},
        lambda scale: {"metric": mj.Metric.diagonal([1.0, scale])},
        lambda scale: {"step_size": scale},
        lambda scale: {"rates": "sqrt" if scale > 1 else "barker"},
    ],
)
def test_settings_are_equal_and_hash_alike_where_their_contents_are(make):
    one, same, other = Settings(**make(2.0)), Settings(**make(2.0)), Settings(**make(1.0))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert len({one, same, other}) == 2
    assert one != "settings"


def test_a_list_and_an_array_are_the_same_metric():
    assert Settings(metric=[1.0, 2.0]) == Settings(metric=np.array([1.0, 2.0]))
    assert Settings(metric=np.ones((1, 1))) != Settings(metric=np.ones(1))


def test_what_follows_from_a_setting_goes_with_it():
    given = Settings(step_size=0.1, refresh_rate=0.2)
    assert given.resolve("leapfrog")[:2] == (0.0, 0)
    left = dataclasses.replace(given, step_size=None, refresh_rate=None)
    assert left == Settings()
    assert left.resolve("leapfrog") == Settings().resolve("leapfrog") == (0.15, 5, 8.0)
    assert left.resolve("rotation") == (0.15, 5, math.inf)


def test_what_is_given_is_kept_whatever_it_goes_with():
    given = Settings(step_jitter=0.4, refine_levels=2, refine_threshold=3.0)
    for changes in ({}, {"step_size": 0.1, "refresh_rate": 0.5}):
        for integrator in ("leapfrog", "harmonic", "rotation"):
            chosen = dataclasses.replace(given, **changes).resolve(integrator)
            assert chosen == (0.4, 2, 3.0)
