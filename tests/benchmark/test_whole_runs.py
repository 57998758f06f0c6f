"""The table of whole runs: what is measured again, and ratios of runs of the same round."""

import pytest

from tests.benchmark.programs import importable


@pytest.fixture(scope="module")
def program():
    with importable():
        import whole_runs

        yield whole_runs


def row(sampler: str, when: str, seconds: float, model: str = "rugby", repeat: int = 0) -> dict:
    return {
        "versions": "PyMC",
        "model": model,
        "sampler": sampler,
        "when": when,
        "repeat": str(repeat),
        "seconds": str(2 * seconds),
        "CPU seconds": str(seconds),
        "CPU seconds compiled": "0.5",
        "load": "1",
    }


def test_ratios_are_of_runs_of_the_same_round_and_their_mean_is_over_models(program):
    rows = [
        row("mjhmc", "new", 1.0),
        row("nutpie", "new", 2.0),
        row("mjhmc", "new", 8.0, repeat=1),  # the others were not measured in this round
        row("mjhmc", "new", 4.0, "best"),
        row("nutpie", "new", 2.0, "best"),
        row("mjhmc", "first", 3.0),
    ]
    (line,) = program.ratios(rows)
    assert (line["beside"], line["when"], line["models"]) == ("nutpie", "new", 2)
    assert line["CPU seconds"] == line["wall seconds"] == pytest.approx(1.0)  # of 1/2 and 2
    assert line["largest"] == "2.00 (best)"


def test_a_line_has_medians_over_the_rounds_and_leaves_out_what_nuts_does_not_tell(program):
    rows = [row("mjhmc", "new", s, repeat=k) for k, s in enumerate((1.0, 9.0, 2.0))]
    (line,) = program.table([*rows, row("nuts", "new", 5.0)])
    assert (line["kind"], line["mjhmc new"], line["nuts new"]) == (
        "real",
        "4.0 / 2.0 / 0.5",
        "10.0 / 5.0",
    )
    assert line["nutpie new"] == ""


def test_a_round_is_measured_again_unless_all_samplers_are_there(program, monkeypatch):
    rows = [row("mjhmc", "new", 1.0), row("nutpie", "new", 1.0)]
    monkeypatch.setattr(program, "kept", lambda: rows)
    monkeypatch.setattr(program, "versions", lambda: "PyMC")
    assert program.is_measured("rugby", ["mjhmc", "nutpie"], ["new"], 0)
    assert not program.is_measured("rugby", ["mjhmc", "nutpie"], ["new"], 1)
    assert not program.is_measured("rugby", ["mjhmc", "nutpie", "nuts"], ["new"], 0)
    assert not program.is_measured("rugby", ["mjhmc"], ["new", "again"], 0)


def test_a_model_that_was_compiled_before_is_never_new(program):
    everything = list(program.OCCASIONS)
    assert program.occasions_of("rugby", everything) == everything
    assert program.occasions_of(program.BEFORE[0], everything) == ["first", "again"]
    assert program.occasions_of(program.BEFORE[0], ["new", "again"]) == []
