"""The simulation of many workers, and its page."""

import numpy as np
import pytest

from tests.benchmark.programs import importable

COSTS = {
    "start_seconds": 2.0,
    "send_seconds": 1e-3,
    "caller_seconds": 0.0,
    "report_seconds": 0.0,
}


@pytest.fixture(scope="module")
def program():
    with importable():
        import scaling

        yield scaling


def test_equal_chains_on_equal_workers_take_turns(program):
    run = program.simulate(4, np.full(12, 5.0), COSTS)
    assert run["seconds"] == pytest.approx(2.0 + 3 * 5.0, abs=0.02)
    assert run["efficiency"] == pytest.approx(15 / 17, abs=0.01)


def test_a_slow_caller_limits_many_workers(program):
    run = program.simulate(100, np.full(100, 0.1), COSTS | {"caller_seconds": 1.0})
    assert run["seconds"] == pytest.approx(102.1, abs=0.2)


def test_reports_slow_the_caller(program):
    costs = COSTS | {"caller_seconds": 0.1, "report_seconds": 0.5 * program.REPORT_SECONDS / 10}
    run = program.simulate(10, np.full(100, 0.1), costs)
    assert run["reports_busy"] == pytest.approx(0.5)
    assert run["seconds"] > 100 * 0.2


def test_the_page_is_that_of_the_stored_rows(program):
    assert program.PAGE.read_text() == program.page()
