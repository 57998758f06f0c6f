"""The cached ladder: what is known costs nothing, and what was forgotten comes out the same."""

import numpy as np
import pytest

from mjhmc_numba import process as process_module
from mjhmc_numba import reference
from mjhmc_numba.kernel.jump import move, ring
from mjhmc_numba.kernel.ladder import neighbour_energy, refresh
from mjhmc_numba.kernel.layout import EVENT_F, EVENT_L
from tests.kernel.processes import (
    COLUMN,
    run,
    settings,
    skewed_target,
    started,
    tuned,
    words,
)

NDIM = 3


@pytest.fixture(scope="module")
def target():
    return skewed_target(NDIM)


def gradients_of(process, action, *arguments):
    before = process["all_gradients"]
    action(process.state[0], *arguments)
    return process["all_gradients"] - before


def test_a_new_rung_costs_num_steps_times_stages_gradients(target):
    process = started(target, settings(), tuned(NDIM, num_steps=4, integrator="three_stage"), 1)
    assert gradients_of(process, neighbour_energy, 1) == 12
    assert gradients_of(process, neighbour_energy, -1) == 12


def test_known_rungs_cost_nothing(target):
    process = started(target, settings(), tuned(NDIM, num_steps=2), 1)
    for _ in range(10):
        assert gradients_of(process, neighbour_energy, 1) == 2
        assert gradients_of(process, move, EVENT_L) == 0
    assert gradients_of(process, move, EVENT_F) == 0
    for _ in range(10):
        assert gradients_of(process, neighbour_energy, -1) == 0
        assert gradients_of(process, move, EVENT_L) == 0
    assert process["here"] == 0
    assert gradients_of(process, neighbour_energy, -1) == 2


def test_every_rung_of_a_ladder_is_computed_once(target):
    process = started(target, settings(), tuned(NDIM, step_size=0.9, refresh_rate=1e-9), 2)
    for _ in range(50):
        run(process, 10)
        assert process["all_gradients"] == 1 + process["high"] - process["low"]
    assert process["high"] - process["low"] < process.rungs.shape[1]


def test_after_a_flip_both_neighbours_are_known(target):
    process = started(target, settings(), tuned(NDIM, step_size=1.0, refresh_rate=0.05), 2)
    flips = 0
    for _ in range(4000):
        before = process["n_F"]
        cost = gradients_of(process, ring)
        if process["n_F"] > before:
            # The rung behind, if it was not known, told of the flip; what is now ahead is it.
            assert cost <= 1
            flips += 1
    assert flips > 50


def test_a_refresh_costs_nothing_under_thinning(target):
    process = started(target, settings(clock="poisson"), tuned(NDIM, refresh_rate=3.0), 3)
    assert gradients_of(process, refresh) == 0
    _, stats = run(process, 2000)
    n = {name: stats[1:, column].sum() for name, column in COLUMN.items()}
    assert n["n_R"] > 2 * n["n_gradients"]


def test_the_rung_behind_is_looked_at_only_after_a_failed_move(target):
    process = started(target, settings(), tuned(NDIM, step_size=0.05, refresh_rate=0.2), 4)
    run(process, 1)
    _, stats = run(process, 500)
    # With so small a step nearly every ring moves, forwards only: one gradient each.
    assert stats[:, COLUMN["n_gradients"]].sum() < 1.02 * stats[:, COLUMN["n_L"]].sum()


def test_competing_exponentials_compute_two_rungs_after_a_refresh(target):
    chosen = settings(method="competing")
    process = started(target, chosen, tuned(NDIM, refresh_rate=200.0, num_steps=3), 5)
    _, stats = run(process, 200)
    spent, refreshes = stats[1:, COLUMN["n_gradients"]].sum(), stats[1:, COLUMN["n_R"]].sum()
    assert spent == pytest.approx(6 * refreshes, rel=0.02)


@pytest.mark.parametrize("simulation", [{}, {"clock": "poisson"}, {"rates": "sqrt"}], ids=str)
@pytest.mark.parametrize("capacity", [4, 16])
def test_a_short_ring_buffer_gives_the_same_draws(target, monkeypatch, simulation, capacity):
    chosen = settings(**simulation)
    values = tuned(NDIM, step_size=0.5, refresh_rate=0.005, draw_interval=5.0)
    twin = reference.run(target.logp_and_grad, np.zeros(NDIM), 200, chosen, values, words(6))
    monkeypatch.setattr(process_module, "_capacity", lambda ndim: capacity)
    process = started(target, chosen, values, 6)
    draws, stats = run(process, 200)
    np.testing.assert_allclose(draws, twin.draws, rtol=1e-8, atol=1e-8)
    # Something had been forgotten and was computed again.
    assert stats[:, COLUMN["n_gradients"]].sum() > twin.stats["n_gradients"].sum()


def test_memory_does_not_grow_with_the_length_of_the_ladder(target):
    process = started(target, settings(), tuned(NDIM, step_size=0.2, refresh_rate=1e-9), 7)
    furthest = 0
    for _ in range(20):
        run(process, 300)
        furthest = max(furthest, abs(process["here"]))
        assert process["high"] - process["low"] < process.rungs.shape[1]
        assert process["low"] <= process["here"] <= process["high"]
    assert furthest > 2 * process.rungs.shape[1]
    # What lies in the buffer is still the state that it says it is.
    logp, grad = target.logp_and_grad(process.x)
    v = process.rungs[1, process._slot]
    assert process.logp == pytest.approx(logp, rel=1e-12)
    np.testing.assert_allclose(process.grad, grad, rtol=1e-12)
    assert process.levels[0, process._slot] == pytest.approx(0.5 * v @ v - logp, rel=1e-12)


def test_the_capacity_is_a_power_of_two_within_bounds():
    for ndim in (1, 2, 3, 10, 1000, 5000, 10_000, 100_000, 10**7):
        capacity = process_module._capacity(ndim)
        assert capacity & (capacity - 1) == 0
        assert process_module.SMALLEST_LADDER <= capacity <= process_module.LARGEST_LADDER


def test_step_size_jitter_is_drawn_at_refreshes_only(target):
    process = started(target, settings(step_jitter=0.3), tuned(NDIM, draw_interval=1.0), 8)
    _, stats = run(process, 4000)
    steps, refreshes = stats[:, COLUMN["step_size"]], stats[:, COLUMN["n_R"]]
    changed = steps[1:] != steps[:-1]
    np.testing.assert_array_equal(changed, refreshes[1:] > 0)
    drawn = steps[1:][changed] / 0.4
    assert drawn.min() > 0.7
    assert drawn.max() < 1.3
    assert abs(drawn.mean() - 1) < 5 * 0.3 / np.sqrt(3 * drawn.size)
    assert drawn.std() == pytest.approx(0.3 / np.sqrt(3), rel=0.1)


def test_a_changed_step_size_waits_for_the_next_ladder(target):
    process = started(target, settings(), tuned(NDIM), 9)
    process.configure(tuned(NDIM).replace(step_size=0.123))
    assert process["ladder_step"] == 0.4
    refresh(process.state[0])
    assert process["ladder_step"] == 0.123


def test_restart_draws_a_momentum_and_keeps_the_position(target):
    process = started(target, settings(), tuned(NDIM), 10)
    run(process, 5)
    x, v = process.x.copy(), process.rungs[1, process._slot].copy()
    process.restart()
    np.testing.assert_array_equal(process.x, x)
    assert np.all(process.rungs[1, process._slot] != v)
    assert process["low"] == process["high"] == process["here"]
    assert process["direction"] == 1


def test_a_move_computes_density_and_gradient_anew(target):
    process = started(target, settings(), tuned(NDIM), 11)
    run(process, 5)
    elsewhere = np.array([0.1, -0.4, 1.2])
    before = process["all_gradients"]
    process.move(elsewhere)
    assert process["all_gradients"] == before + 1
    logp, grad = target.logp_and_grad(elsewhere)
    np.testing.assert_array_equal(process.x, elsewhere)
    np.testing.assert_array_equal(process.grad, grad)
    assert process.logp == logp
