"""The schedule, the trajectory and the memory of the warm-up."""

import math

import numpy as np
import pytest

from mjhmc_numba.coordinates import Draws
from mjhmc_numba.saving import load, save
from mjhmc_numba.settings import Settings
from mjhmc_numba.warmup import history as history_module
from mjhmc_numba.warmup.first import first_guess
from mjhmc_numba.warmup.history import History
from mjhmc_numba.warmup.schedule import windows
from mjhmc_numba.warmup.trajectory import (
    QUARTER_TURN,
    Trajectory,
    momentum_kept,
    plan,
    with_trajectory,
)

# --- Windows


@pytest.mark.parametrize("tune", [*range(1, 80), 99, 100, 400, 999, 1000, 5000, 100_000])
def test_windows_add_up_and_only_the_last_is_final(tune):
    made = windows(tune)
    assert sum(window.draws for window in made) == tune
    assert all(window.draws > 0 for window in made)
    assert [window.is_final for window in made] == [False] * (len(made) - 1) + [True]


def test_windows_grow():
    sizes = [window.draws for window in windows(1000)[:-1]]
    assert len(sizes) > 4
    assert sizes == sorted(sizes)


def test_no_warm_up_has_no_windows():
    assert windows(0) == []


# --- Trajectories


@pytest.mark.parametrize("step_size", [1e-6, 1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("slowest", [0.7, 1.0, 25.0])
@pytest.mark.parametrize("cap", [16.0, 1024.0])
def test_a_refresh_length_keeps_within_its_gradients(step_size, stages, slowest, cap):
    path = plan(step_size, stages, slowest, cap)
    assert path.num_steps >= 1
    assert isinstance(path.num_steps, int)
    assert 0 < path.refresh_rate <= 1
    assert path.draw_interval > 0
    gradients = path.num_steps * stages / path.refresh_rate
    assert gradients <= max(1.5 * cap, stages)
    assert path.draw_interval * path.refresh_rate <= 1


def test_a_longer_scale_is_travelled_further():
    lengths = [
        path.num_steps / path.refresh_rate
        for path in (plan(0.1, 1, slowest, 1e4) for slowest in (1.0, 3.0, 10.0))
    ]
    assert lengths[0] < lengths[1] < lengths[2]
    assert lengths[2] / lengths[0] == pytest.approx(10.0, rel=0.2)


def test_early_trajectories_have_at_least_the_rungs_that_are_asked_for():
    path = plan(1.0, 1, 1.0, 1024.0, min_rungs=16)
    assert 1 / path.refresh_rate >= 16
    assert path.refresh_alpha == 0.0


def rotation(angle, alpha):
    """One path of a standard normal and the refresh after it: (x, v) -> A (x, v) + noise."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, s], [-alpha * s, alpha * c]])


def autocorrelation_times(step, path):
    """Of x and of x^2 at the ends of paths, in gradients: the largest over normal directions that
    are 0.6 to 1 times as long as the slowest. Step sizes are jittered, as in a run.
    """
    steps = path.num_steps / path.refresh_rate
    rng, runs = np.random.default_rng(1), 100
    times = []
    for scale in (1.0, 0.8, 0.6):
        product, rho = np.tile(np.eye(2), (runs, 1, 1)), []
        for _ in range(200):
            angles = steps * step / scale * (1 + 0.15 * rng.uniform(-1, 1, runs))
            product = np.array([rotation(a, path.refresh_alpha) for a in angles]) @ product
            rho.append(product[:, 0, 0])
        sums = np.sum(np.mean(rho, axis=1)), np.sum(np.mean(np.square(rho), axis=1))
        times.append([steps * (1 + 2 * sum_) for sum_ in sums])
    return np.max(times, axis=0)


@pytest.mark.parametrize("step", [0.1, 0.3, 0.5, 0.7, 0.9, 1.2])
def test_partial_refreshes_do_better_than_quarter_turns(step):
    """The promise of the module, in the geometric mean of means and squares."""
    quarter = Trajectory(1, 1 / max(round(QUARTER_TURN / step), 1), 1.0)
    ours = np.maximum(autocorrelation_times(step, plan(step, 1, 1.0)), 0.1)
    usual = np.maximum(autocorrelation_times(step, quarter), 0.1)
    assert np.prod(ours) < np.prod(usual)


@pytest.mark.parametrize("angle", np.linspace(0.05, 3.0, 30))
def test_the_momentum_kept_falls_with_the_angle(angle):
    assert 0.0 <= momentum_kept(angle + 0.1) <= momentum_kept(angle) < 1.0
    assert momentum_kept(QUARTER_TURN) == 0.0


def test_draws_on_the_way_are_no_more_than_rungs():
    path = plan(0.3, 1, 1.0, draws_per_path=8.0)
    assert path.draw_interval == 1.0
    assert plan(0.3, 1, 1.0).draw_interval == 1 / path.refresh_rate


@pytest.mark.parametrize(
    "given", [{"refresh_rate": 0.3}, {"num_steps": 2}, {"clock": "poisson"}, {"rates": "sqrt"}]
)
def test_all_momentum_is_drawn_anew_unless_the_path_is_ours(given):
    """The share that is kept belongs to the angle of a path and to regular refreshes."""
    for settings, alpha in (
        (Settings(), plan(0.5, 1, 1.0).refresh_alpha),
        (Settings(**given), 0.0),
        (Settings(**given, refresh_alpha=0.25), 0.25),
    ):
        tuned = first_guess(settings, 2).replace(step_size=0.5)
        assert with_trajectory(tuned, settings, 1.0, 1024.0).refresh_alpha == alpha


# --- History


def filled(ndim, most, n, logp=None):
    history = History(ndim, most)
    for k in range(n):
        level = 0.0 if logp is None else logp[k]
        history.extend(Draws(np.full((1, ndim), k), np.full((1, ndim), -k), np.array([level])))
    return history


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(history_module, "NUMBERS", 64)
    monkeypatch.setattr(history_module, "FEWEST_KEPT", 8)


def test_all_draws_are_kept_where_they_fit():
    x, grad, logp, _ = filled(2, 100, 37).newest(1000)
    np.testing.assert_array_equal(x[:, 0], np.arange(37))
    np.testing.assert_array_equal(grad[:, 1], -np.arange(37))
    assert logp.shape == (37,)


@pytest.mark.parametrize("n", [5, 16, 17, 40, 1000])
def test_the_newest_draws_are_kept_in_order_where_memory_is_bounded(small_memory, n):
    history = filled(4, 10_000, n)
    assert history.capacity == 16
    x, _, _, _ = history.newest(1000)
    np.testing.assert_array_equal(x[:, 0], np.arange(max(n - 16, 0), n))
    np.testing.assert_array_equal(history.newest(3)[0][:, 0], np.arange(n - 3, n))


def test_memory_is_bounded_but_for_a_few_draws():
    assert History(10**6, 1000).capacity == history_module.FEWEST_KEPT
    assert History(10, 10**9).capacity * 10 <= history_module.NUMBERS
    assert History(10**6, 5).capacity == 5


def test_the_stationary_part_is_the_newest_share():
    x, _, _, _ = filled(1, 200, 100).stationary_part(window=20, share=0.6)
    np.testing.assert_array_equal(x[:, 0], np.arange(40, 100))
    x, _, _, _ = filled(1, 200, 100).stationary_part(window=80, share=0.6)
    np.testing.assert_array_equal(x[:, 0], np.arange(20, 100))


def test_the_burn_in_is_cut():
    logp = np.zeros(100)
    logp[:70] = -1e6 * np.linspace(1, 0.5, 70)
    x, _, kept, _ = filled(1, 200, 100, logp).stationary_part(window=60, share=0.6)
    np.testing.assert_array_equal(x[:, 0], np.arange(70, 100))
    np.testing.assert_array_equal(kept, 0.0)


def test_usual_fluctuations_are_no_burn_in(seeds):
    d = 50
    logp = -0.5 * np.random.default_rng(seeds(95)).chisquare(d, 100)
    x, _, _, _ = filled(d, 200, 100, logp).stationary_part(window=40, share=1.0)
    assert len(x) == 100


def test_some_draws_are_left_even_where_all_look_like_burn_in():
    logp = -np.logspace(8, 0, 50)[::1]
    x, _, _, _ = filled(1, 100, 50, logp).stationary_part(window=10, share=0.6)
    assert 3 <= len(x) <= 50
    x, _, _, _ = filled(1, 100, 3, -np.array([1e9, 1e8, 0.0])).stationary_part(window=3, share=0.6)
    assert len(x) >= 1


def test_a_saved_history_goes_on_as_if_never_saved(small_memory):
    history = filled(4, 1000, 37)
    other = load(History, save(history))
    for k in (37, 38):
        for one in (history, other):
            one.extend(Draws(np.full((1, 4), k), np.full((1, 4), -k), np.array([math.pi])))
    for mine, theirs in zip(history.newest(1000)[:3], other.newest(1000)[:3], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert history.total == other.total
