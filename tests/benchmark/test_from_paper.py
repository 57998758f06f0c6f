"""The steps from the paper's process to the default, run small; and the page made of their rows."""

import pytest

from tests.benchmark.programs import importable


@pytest.fixture
def program():
    with importable():
        import from_paper

        yield from_paper


@pytest.fixture
def problem(program):
    return program.problems.load("normal_10")


def test_the_page_has_the_tables_of_the_kept_rows(program):
    page = program.PAGE.read_text()
    assert program.page_of(page, program.RESULTS) == page
    assert page.count("\n| ") == 1 + len(program.STEPS) + 1 + 6


def test_each_step_is_run_and_the_computed_one_is_no_better(program, problem):
    rows = program.step_rows(problem, seed=1, draws=100, tune=150)
    assert [row["step"] for row in rows] == list(program.STEPS)
    assert rows[0]["per_1000_draws"] <= rows[1]["per_1000_draws"]
    assert rows[0]["gradients_draws"] >= rows[1]["gradients_draws"]


def test_outputs_of_one_process_are_compared_on_the_same_chains(program, problem):
    rows = program.output_rows(problem, range(3), draws=200, tune=150)
    assert len(rows) == 6
    assert {row["chains"] for row in rows} == {12}
    sizes = {row["output"]: row["effective"] for row in rows}
    assert sizes["weighted by expected holding times"] > sizes["resampled, multinomial"] > 0
