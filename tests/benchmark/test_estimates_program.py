"""The program that measures control variates: what it makes of runs, and its page."""

import numpy as np
import pandas as pd
import pytest

from tests.benchmark.programs import importable


@pytest.fixture(scope="module")
def program():
    with importable():
        import estimates

        yield estimates


TRUTH = np.array([1.0, 2.0])


def run_of(program, rng, error, plain_error, gradients=1000, seconds=2.0):
    """A run that estimates two means of deviation 0.5, with errors in units of it."""
    table = pd.DataFrame(
        {
            "mean": TRUTH + 0.5 * error * rng.normal(size=2),
            "sd": 0.5,
            "mcse_mean": 0.5 * error,
            "gain": (plain_error / error) ** 2,
            "gain_sd": 2.0,
        }
    )
    plain = TRUTH + 0.5 * plain_error * rng.normal(size=2)
    square = np.full(2, (0.5 * plain_error) ** 2)
    return program.OneRun(table, plain, square, gradients, seconds, 0.1)


def test_gains_spreads_and_shares_are_those_of_the_runs(program):
    rng = np.random.default_rng(1)
    row = program.gains([run_of(program, rng, 1e-3, 1e-2) for _ in range(400)])
    assert row["gain"] == pytest.approx(100.0)
    assert row["spread_over_error"] == pytest.approx(1.0, rel=0.1)
    assert row["time_share"] == pytest.approx(0.05)


@pytest.mark.parametrize("with_reference", [True, False])
def test_errors_are_those_of_the_runs_and_equal_costs_scale_them(program, with_reference):
    """nutpie's run costs 4 times the gradients and 9 times the seconds."""
    rng = np.random.default_rng(2)
    ours = [run_of(program, rng, 1e-3, 1e-2) for _ in range(400)]
    peers = [run_of(program, rng, 2e-3, 2e-2, 4000, 18.0) for _ in range(400)]
    truth = program.Truth("exact", TRUTH, np.zeros(2), np.full(2, 0.5)) if with_reference else None
    row = program.errors(ours, peers, truth)
    for kind, expected in (
        ("plain", 0.01),
        ("sharp", 0.001),
        ("nutpie", 0.02),
        ("equal_gradients", 0.02 * 2),
        ("equal_seconds", 0.02 * 3),
    ):
        assert row[f"{kind}_median"] == pytest.approx(expected, rel=0.15)
        assert row[f"{kind}_worst"] >= row[f"{kind}_median"]
    assert row["reference"] == ("exact" if with_reference else "nutpie's sharpened means")
    assert row["z_worst"] < 5


def test_the_page_has_a_row_for_each_model_and_says_what_is_not_met(program, tmp_path):
    row = dict.fromkeys(program.COLUMNS, 1.0) | {"dim": 3, "notes": "", "seeds": 2}
    row |= {"folder": "posteriors", "reference": "exact"}
    out, page = tmp_path / "estimates.csv", tmp_path / "page.md"
    for name, gain, share in (("quick", 5e6, 0.05), ("rough", 1.2, 0.3)):
        row |= {"model": name, "gain": gain, "time_share": share}
        program.append_row(out, program.COLUMNS, row)
    assert program.done_models(out) == {("posteriors", "quick"), ("posteriors", "rough")}
    program.write_page(out, page)
    text = page.read_text()
    assert "2 models (2 of posteriors, 0 of case_studies, 0 of gallery), 2 seeds each" in text
    assert "brings next to nothing on: rough." in text
    assert "Not measured yet: " in text
    assert "stoch_vol_sp500" in text
    assert "met by 1 of 2 models; not by rough." in text
    assert text.count("| quick |") == 3
    assert "5.0e+06" in text


def test_gains_and_times_are_measured_again_and_errors_stay(program, tmp_path, monkeypatch):
    row = dict.fromkeys(program.COLUMNS, 1.0) | {"notes": "", "seeds": 2, "reference": "exact"}
    row |= {"folder": "posteriors", "model": "earn_height"}
    path = tmp_path / "estimates.csv"
    program.append_row(path, program.COLUMNS, row)
    program.append_row(path, program.COLUMNS, row | {"model": "other"})
    rng = np.random.default_rng(3)
    runs = [run_of(program, rng, 1e-3, 1e-2) for _ in range(2)]
    monkeypatch.setattr(program, "own_runs", lambda model, names, seeds: (None, runs))
    with pytest.raises(SystemExit, match="was measured with 2 seeds"):
        program.measure_times(program.problems.POSTERIORS, "earn_height", [1], path)
    program.measure_times(program.problems.POSTERIORS, "earn_height", [1, 2], path)
    again, other = program.read_rows(path)
    assert float(again["time_share"]) == pytest.approx(0.05)
    assert float(again["gain"]) == pytest.approx(100.0)
    assert again["sharp_median"] == again["nutpie_seconds"] == "1"
    assert set(other.values()) == {"", "1", "2", "exact", "posteriors", "other"}
