"""The jump record: states with the time spent in each, and a full buffer that loses nothing."""

import numpy as np
import pytest
from scipy import stats

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.kernel.layout import EVENT_F, EVENT_L, EVENT_R, FINISHED, RECORD_FULL, STAT_NAMES
from tests.kernel.processes import COLUMN, run, settings, skewed_target, started, tuned

NDIM = 2
P_VALUE = 2 * stats.norm.sf(5)

SIMULATIONS = [
    {"rates": "sqrt"},
    {"rates": "metropolis", "method": "competing"},
    {"rates": "barker", "method": "competing"},
]
every_simulation = pytest.mark.parametrize("simulation", SIMULATIONS, ids=str)


@pytest.fixture(scope="module")
def target():
    return skewed_target(NDIM)


def values(**changes):
    return tuned(NDIM, **({"step_size": 0.9} | changes))


def recorded(process):
    return tuple(process.visits())


@every_simulation
def test_every_event_is_recorded_and_times_add_up(target, simulation):
    process = started(target, settings(**simulation), values(), 1, record=10_000)
    _, columns = run(process, 1000)
    _, holding, events = recorded(process)
    for name, code in (("n_L", EVENT_L), ("n_F", EVENT_F), ("n_R", EVENT_R)):
        assert np.sum(events == code) == columns[:, COLUMN[name]].sum() > 0
    assert np.all(holding[:, 0] >= 0)
    assert holding[:, 0].sum() == pytest.approx(process["entered"], rel=1e-10)
    assert process["now"] == pytest.approx(1000 * 2.0, rel=1e-10)


@every_simulation
def test_only_moves_change_the_position(target, simulation):
    process = started(target, settings(**simulation), values(), 2, record=10_000)
    run(process, 1000)
    x, _, events = recorded(process)
    changed = np.any(x[1:] != x[:-1], axis=1)
    np.testing.assert_array_equal(changed, events[:-1] == EVENT_L)


@every_simulation
def test_draws_are_the_states_of_the_record_at_the_ticks(target, simulation):
    process = started(target, settings(**simulation), values(), 3, record=10_000)
    draws, _ = run(process, 500)
    x, holding, _ = recorded(process)
    left = np.cumsum(holding[:, 0])
    ticks = 2.0 * np.arange(1, 501)
    ticks = ticks[ticks < left[-1]]
    at_ticks = x[np.searchsorted(left, ticks)]
    np.testing.assert_array_equal(draws[: ticks.size], at_ticks)


@every_simulation
def test_sampled_holding_times_are_exponential_about_the_expected(seeds, target, simulation):
    process = started(target, settings(**simulation), values(), seeds(30), record=100_000)
    run(process, 10_000)
    _, holding, events = recorded(process)
    assert holding.shape[0] > 10_000
    ratio = holding[:, 0] / holding[:, 1]
    assert stats.kstest(ratio, "expon").pvalue > P_VALUE
    # An exponential clock's ring does not depend on what it rings for.
    for code in (EVENT_L, EVENT_F, EVENT_R):
        assert stats.kstest(ratio[events == code], "expon").pvalue > P_VALUE


@every_simulation
def test_expected_holding_times_include_the_refresh_rate(target, simulation):
    chosen = settings(**simulation)
    process = started(target, chosen, values(refresh_rate=50.0), 5, record=100_000)
    run(process, 200)
    _, holding, _ = recorded(process)
    assert holding[:, 1].max() <= 1 / 50


@every_simulation
@pytest.mark.parametrize("capacity", [1, 7, 64])
def test_a_full_record_stops_the_run_and_loses_nothing(target, simulation, capacity):
    chosen = settings(**simulation)
    whole = started(target, chosen, values(), 6, record=10_000)
    expected_draws, expected_stats = run(whole, 200)
    process = started(target, chosen, values(), 6, record=capacity)
    draws, columns = np.empty((200, NDIM)), np.empty((200, len(STAT_NAMES)))
    done, pieces, stops = 0, [], 0
    while done < 200:
        filled, status = process.run(draws[done:], columns[done:])
        done += filled
        pieces.append([part.copy() for part in recorded(process)])
        process.clear_record()
        if status == RECORD_FULL:
            stops += 1
        else:
            assert status == FINISHED
    assert stops >= 200 // capacity
    np.testing.assert_array_equal(draws, expected_draws)
    np.testing.assert_array_equal(columns, expected_stats)
    for k, part in enumerate(recorded(whole)):
        np.testing.assert_array_equal(np.concatenate([piece[k] for piece in pieces]), part)


@every_simulation
def test_the_record_changes_no_draw(target, simulation):
    chosen = settings(**simulation)
    without, _ = run(started(target, chosen, values(), 7), 100)
    with_record, _ = run(started(target, chosen, values(), 7, record=10_000), 100)
    np.testing.assert_array_equal(without, with_record)


THINNED = [
    {"rates": "metropolis"},
    {"rates": "metropolis", "clock": "poisson"},
    {"rates": "barker", "method": "thinning", "clock": "poisson"},
]


@pytest.mark.parametrize("simulation", THINNED, ids=str)
def test_a_record_of_a_thinned_process_is_refused(target, simulation):
    """Thinning looks behind only when it must, so it does not know the rates of a state."""
    chosen = settings(**simulation)
    with pytest.raises(SettingsError, match="method='competing'"):
        started(target, chosen, values(), 8, record=1)
    run(started(target, chosen, values(), 8), 1)
