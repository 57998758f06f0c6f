"""Sections of RESULTS.md made of rows: whole runs per second, motions, known modes."""

import pytest

from tests.benchmark.programs import importable

SCORES = {
    "folder": "gallery",
    "dim": "5",
    "ess_bulk": "1000",
    "ess_tail": "2000",
    "gradients_warmup": "1000",
    "cpu_seconds": "2.0",
    "per_1000_draws": "100",
    "per_1000_all": "80",
    "squares_per_1000_draws": "60",
    "r_hat": "1.001",
}
MOTION = {
    "integrator": "leapfrog",
    "step_size": "0.5",
    "num_steps": "2",
    "rungs": "3",
    "draw_interval": "3",
    "refresh_alpha": "0",
    "refresh_jitter": "0",
    "tries": "9",
    "seed": "1",
}


@pytest.fixture(scope="module")
def page():
    with importable():
        import page_of_costs

        yield page_of_costs


def row(model: str, sampler: str, seed: int = 1, **scores) -> dict[str, str]:
    given = {name: str(value) for name, value in scores.items()}
    return {"model": model, "sampler": sampler, "seed": str(seed)} | SCORES | given


def line(text: str, start: str) -> list[str]:
    """Cells of the only line of a table that begins with `start`."""
    (found,) = [found for found in text.splitlines() if found.startswith(f"| {start}")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_effective_samples_per_second_are_those_of_the_better_mode(page):
    rows = [
        row("a", "mjhmc", cpu_seconds=1.0),
        row("a", "nutpie", cpu_seconds=4.0),
        row("a", "nutpie_lowrank", cpu_seconds=2.0),
        row("b", "mjhmc", cpu_seconds=1.0),
        row("b", "nutpie", cpu_seconds=8.0),
    ]
    text = page.per_second_text(rows)
    cells = line(text, "ESS per CPU second / better")
    assert cells[1:3] == ["2", "4.00, met (≥ 3.0)"]  # of 2 and 8
    assert cells[3] == "2.00, met (≥ 1.0) (a)"
    assert line(text, "CPU seconds of the whole run / default")[2].startswith("0.177, met")


def test_a_model_that_costs_more_than_nutpie_is_counted_as_lost(page):
    rows = [row("a", "mjhmc", cpu_seconds=3.0), row("a", "nutpie", cpu_seconds=1.0)]
    cells = line(page.per_second_text(rows), "CPU seconds of the whole run / default")
    assert cells[3:] == ["3.00, **not met** (≤ 1.2) (a)", "1"]


def test_runs_that_were_given_up_do_not_count(page):
    rows = [row("a", "mjhmc"), row("a", "nutpie")]
    rows.append(row("a", "nutpie_lowrank", ess_bulk="", r_hat="", per_1000_draws=""))
    assert (
        line(page.per_second_text(rows), "ESS per gradient / better")[2]
        == "1.00, **not met** (≥ 2.5)"
    )


def test_rows_of_nuts_are_no_part_of_the_page(page):
    rows = [row("a", "mjhmc", load="1"), row("a", "nutpie", load="1")]
    assert page.per_second_text([*rows, row("a", "nuts", load="9")]) == page.per_second_text(rows)


def test_an_r_hat_that_nutpie_has_and_we_have_not_is_named(page):
    rows = [row("a", "mjhmc", 1, r_hat=1.02), row("a", "mjhmc", 2), row("a", "nutpie")]
    rows += [row("b", "mjhmc", r_hat=1.02), row("b", "nutpie", r_hat=1.03)]
    text = page.per_second_text(rows)
    assert "0 of 1 models; not on a (1 of 2 seeds, 1.020)." in text


def test_a_hierarchy_that_hangs_on_the_seed_is_named(page):
    values = [90, 100, 20]
    rows = [row("rugby", "mjhmc", k, per_1000_draws=v) for k, v in enumerate(values)]
    text = page.per_second_text([*rows, row("rugby", "nutpie")])
    assert "below it are rugby 0.222 of 1" in text


def test_a_motion_that_was_found_is_compared_with_the_chosen_one(page):
    def motion(what, **values):
        worth = {"ess_per_1000": 100, "squares_per_1000": 100, "both_per_1000": 100} | values
        return {"model": "a", "what": what} | MOTION | {k: str(v) for k, v in worth.items()}

    rows = [motion("chosen"), motion("best both", both_per_1000=130, refresh_alpha=0.4)]
    rows += [motion("best ess"), motion("best squares", squares_per_1000=110)]
    text = page.motions_text(rows)
    assert "0 of 1 keep it, the geometric mean is 1.30" in text
    cells = line(text, "a ")
    assert cells[3] == "leapfrog 0.5, 2 x 3"
    assert cells[4] == "1.30: leapfrog 0.5, 2 x 3, kept 0.4"
    assert cells[5] == "1: as chosen"


def test_a_model_where_more_of_our_chains_end_wrong_is_named(page):
    def runs(model, sampler, minor):
        return row(model, sampler, chains=4, minor_chains=minor, warnings=1)

    rows = [runs("a", "mjhmc", 1), runs("a", "nutpie", 2)]
    assert "is met by all" in page.known_modes_text(rows)
    text = page.known_modes_text([*rows, runs("b", "mjhmc", 1), runs("b", "nutpie", 0)])
    assert "is not met by b." in text
    assert line(text, "b ") == ["b", "1 of 4", "0 of 4", "1 of 1"]
