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


def run_of(rng, error, plain_error):
    """A run that estimates two means, 1 and 2, of deviation 0.5."""
    truth = np.array([1.0, 2.0])
    table = pd.DataFrame(
        {
            "mean": truth + error * rng.normal(size=2),
            "sd": 0.5,
            "mcse_mean": error,
            "gain": (plain_error / error) ** 2,
            "gain_sd": 2.0,
        }
    )
    plain = truth + plain_error * rng.normal(size=2)
    return {"table": table, "plain": plain, "run": 2.0, "estimate": 0.1, "gradients": 1000}


def test_gains_spreads_and_shares_are_those_of_the_runs(program):
    rng = np.random.default_rng(1)
    runs = [run_of(rng, 1e-3, 1e-2) for _ in range(400)]
    peer = {"square": np.full(2, 4e-4), "gradients": 5000, "seconds": 4.2}
    row = program.compare_runs(runs, peer)
    assert row["gain"] == pytest.approx(100.0)
    assert row["gain_between_seeds"] == pytest.approx(100.0, rel=0.3)
    assert row["spread_over_error"] == pytest.approx(1.0, rel=0.1)
    assert row["time_share"] == pytest.approx(0.05)
    assert row["nutpie_equal_gradients"] == pytest.approx(400 * 5)
    assert row["nutpie_equal_seconds"] == pytest.approx(400 * 2)


def test_the_page_has_a_row_for_each_model_and_says_what_is_not_met(program, tmp_path):
    row = dict.fromkeys(program.COLUMNS, 1.0) | {"dim": 3, "notes": ""}
    out, page = tmp_path / "estimates.csv", tmp_path / "page.md"
    for name, gain, share in (("quick", 5e6, 0.05), ("rough", 1.2, 0.3)):
        row |= {"model": name, "gain": gain, "time_share": share, "nutpie_equal_gradients": None}
        program.append_row(out, program.COLUMNS, row)
    assert program.done_models(out) == {"quick", "rough"}
    program.write_page(out, page)
    text = page.read_text()
    assert "brings next to nothing on: rough." in text
    assert "met by 1 of 2 models; not by rough." in text
    assert text.count("| quick |") == 4
    assert "5.0e+06" in text
