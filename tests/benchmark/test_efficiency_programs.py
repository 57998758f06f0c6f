"""The efficiency programs, run small: their rows, and the page that is made of rows."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.benchmark.programs import PROGRAMS, importable

SMALL = ("--draws", "60", "--tune", "100", "--seeds", "1")

SCORES = {
    "ess_median_per_draw": 0.9,
    "gradients_warmup": 1000,
    "gradients_draws": 4000,
    "per_1000_draws": 100.0,
    "per_1000_all": 80.0,
    "squares_per_1000_draws": 60.0,
    "squares_per_1000_all": 50.0,
    "r_hat": 1.001,
    "divergences": 0,
    "warnings": 0,
    "minor_chains": 0,
    "z_mean": 1.0,
    "z_variance": "",
}


def run_program(name: str, *arguments: str) -> None:
    command = [sys.executable, str(PROGRAMS / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def efficiency_csv(tmp_path_factory):
    out = tmp_path_factory.mktemp("efficiency") / "efficiency.csv"
    chosen = ("--models", "normal_10", "--samplers", "mjhmc,mjhmc_diag", "--out", str(out))
    run_program("efficiency.py", *chosen, *SMALL)
    return out


@pytest.fixture
def results_page():
    """The module, imported as the programs do."""
    with importable():
        import results_page

        yield results_page


def write_rows(path: Path, rows: list[dict]) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def row(model: str, sampler: str, seed: int = 1, **scores) -> dict:
    return {"model": model, "sampler": sampler, "seed": seed} | SCORES | scores


def bar(page: str, start: str) -> list[str]:
    """Cells of the row of the bars that begins with `start`."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def make_page(results_page, tmp_path: Path, rows: list[dict]) -> str:
    table = write_rows(tmp_path / "efficiency.csv", rows)
    results_page.write(table, tmp_path / "ablation.csv", tmp_path / "RESULTS.md")
    return (tmp_path / "RESULTS.md").read_text()


def test_a_run_leaves_a_row_of_consistent_scores_for_each_sampler_and_seed(efficiency_csv):
    rows = read(efficiency_csv)
    assert [(r["model"], r["sampler"], r["seed"]) for r in rows] == [
        ("normal_10", "mjhmc", "1"),
        ("normal_10", "mjhmc_diag", "1"),
    ]
    for r in rows:
        worst = min(float(r["ess_bulk"]), float(r["ess_tail"]))
        draws, warmup = int(r["gradients_draws"]), int(r["gradients_warmup"])
        assert float(r["per_1000_draws"]) == pytest.approx(1000 * worst / draws, rel=1e-3)
        assert float(r["per_1000_all"]) == pytest.approx(1000 * worst / (draws + warmup), rel=1e-3)
        assert 0 < float(r["z_mean"]) < 6
        assert int(r["dim"]) == int(r["scored"]) == 10


def test_rows_that_are_there_are_not_run_again(efficiency_csv):
    before = efficiency_csv.read_text()
    chosen = ("--models", "normal_10", "--samplers", "mjhmc", "--out", str(efficiency_csv))
    run_program("efficiency.py", *chosen, *SMALL)
    assert efficiency_csv.read_text() == before


def test_the_rows_without_a_cache_cost_more_by_the_rungs_of_their_flips(tmp_path):
    out = tmp_path / "ablation.csv"
    chosen = ("--models", "log_gamma_10", "--variants", "default;the paper's rule")
    run_program("ablation.py", *chosen, "--out", str(out), *SMALL)
    rows = {r["variant"]: r for r in read(out)}
    assert len(rows) == 4
    for variant in ("default", "the paper's rule"):
        (without,) = [
            r
            for name, r in rows.items()
            if name != variant and r["flips"] == rows[variant]["flips"]
        ]
        extra = int(without["gradients_draws"]) - int(rows[variant]["gradients_draws"])
        assert extra >= int(rows[variant]["flips"]) > 0
        assert float(without["per_1000_draws"]) < float(rows[variant]["per_1000_draws"])


def test_ratios_are_geometric_means_over_seeds_and_models(results_page, tmp_path):
    rows = [row("a", "nutpie"), row("b", "nutpie")]
    rows += [row("a", "mjhmc", 1, per_1000_draws=200), row("a", "mjhmc", 2, per_1000_draws=800)]
    rows += [row("b", "mjhmc", per_1000_draws=900)]
    page = make_page(results_page, tmp_path, rows)
    what = "ours / nutpie's default, geometric mean, after warm-up"
    assert bar(page, what)[1:] == ["6.00", "≥ 8", "**not met**"]  # of 4 and 9
    assert (tmp_path / "efficiency.png").stat().st_size > 0


def test_each_model_is_compared_with_the_better_mode(results_page, tmp_path):
    rows = [row("a", "mjhmc", per_1000_draws=600), row("b", "mjhmc", per_1000_draws=600)]
    rows += [row("a", "nutpie", per_1000_draws=200), row("a", "nutpie_lowrank", per_1000_draws=100)]
    rows += [row("b", "nutpie", per_1000_draws=100), row("b", "nutpie_lowrank", per_1000_draws=200)]
    page = make_page(results_page, tmp_path, rows)
    assert bar(page, "ours / better mode, geometric mean, after warm-up")[1] == "3.00"
    assert bar(page, "ours / better mode, worst model, after warm-up")[3] == "met"


def test_a_model_below_nutpie_is_named_as_weak(results_page, tmp_path):
    rows = [row("fine", "mjhmc", per_1000_draws=300), row("fine", "nutpie")]
    rows += [row("slow", "mjhmc", per_1000_draws=50), row("slow", "nutpie")]
    rows += [row(model, "nutpie_lowrank", per_1000_draws=10) for model in ("fine", "slow")]
    page = make_page(results_page, tmp_path, rows)
    weak = page.split("## Where it is weak")[1].split("\n## ")[0]
    assert "**slow**: 0.500 (default, after warm-up)" in weak
    assert "**fine**" not in weak
    assert bar(page, "ours / better mode, worst model, after warm-up")[1:] == [
        "0.500 (slow); 1 below",
        "≥ 1.0",
        "**not met**",
    ]


def test_an_r_hat_that_nutpie_has_below_the_bar_and_we_have_not_is_reported(results_page, tmp_path):
    rows = [row("a", "mjhmc", r_hat=1.03), row("a", "nutpie", r_hat=1.02)]
    rows += [row("b", "mjhmc", r_hat=1.03), row("b", "nutpie")]
    page = make_page(results_page, tmp_path, rows)
    cells = bar(page, "R-hat < 1.01")
    assert cells[1] == "0 of 1 models; not b 1.030"
    assert cells[3] == "**not met**"


def test_what_was_not_measured_is_not_judged(results_page, tmp_path):
    page = make_page(results_page, tmp_path, [row("a", "mjhmc"), row("a", "nutpie")])
    assert bar(page, "ours / nutpie's default, geometric mean, all")[1] == "1.00"
    assert bar(page, "ours / better mode, worst model, all")[1:] == ["not measured", "≥ 1.0", ""]
    assert bar(page, "stoch_vol")[1] == "not measured"


def test_the_centred_funnel_is_shown_but_not_judged(results_page, tmp_path):
    rows = [row("funnel_centered", "mjhmc", per_1000_draws=1), row("funnel_centered", "nutpie")]
    rows += [row("a", "mjhmc", per_1000_draws=900), row("a", "nutpie")]
    page = make_page(results_page, tmp_path, rows)
    assert bar(page, "ours / nutpie's default, geometric mean, after warm-up")[1] == "9.00"
    assert "| funnel_centered (not judged) |" in page


def test_case_studies_have_a_table_of_their_own(results_page, tmp_path):
    studies = [row("a", "mjhmc", per_1000_draws=400, r_hat=1.002), row("b", "mjhmc", r_hat=1.2)]
    studies += [row(model, sampler) for model in "ab" for sampler in ("nutpie", "nutpie_lowrank")]
    write_rows(tmp_path / "case_studies.csv", studies)
    page = make_page(results_page, tmp_path, [row("c", "mjhmc"), row("c", "nutpie")])
    section = page.split("## Case studies")[1].split("\n## ")[0]
    assert bar(section, "a |")[1:] == ["4.00", "1.00", "1.00", "1.002", "1.001", "1.001"]
    assert bar(section, "b †")[1] == "1.00"
    assert bar(section, "**geometric mean")[1] == "**4.00**"
    assert "case" not in page.split("## The bars")[1].split("\n## ")[0]


def test_chains_in_minor_modes_are_counted_over_the_seeds(results_page):
    rows = [
        {"model": "lotka", "sampler": sampler, "chains": "4", "minor_chains": minor}
        for sampler, found in {"mjhmc": "0010", "nutpie": "1201"}.items()
        for minor in found
    ]
    text = results_page.modes_text(rows)
    assert "| lotka | mjhmc | 4 | 1 of 16 (6 %) |" in text
    assert "| lotka | nutpie | 4 | 4 of 16 (25 %) |" in text


def test_the_worst_seed_of_each_generation_is_held_against_its_reference(results_page):
    values = {"5.28": [(1.001, 1.0, 2.0), (1.009, 4.4, 1.0)], "6.3": [(1.001, 1.0, 4.6)]}
    rows = [
        {
            "pymc": version,
            "model": "a",
            "seed": str(seed),
            "reference": "exact",
            **dict(zip(("r_hat", "z_mean", "z_second"), map(str, found), strict=True)),
        }
        for version, runs in values.items()
        for seed, found in enumerate(runs)
    ]
    text = results_page.correctness_text(rows)
    assert "| a | exact | 3 | 1.0090 | 4.40 | 2.00 | 1.0010 | 1.00 | 4.60 |" in text
    assert "is not met by a (PyMC 6.3)." in text
    assert "is met by all." in results_page.correctness_text(rows[:2])


def test_an_error_is_measured_by_the_known_spread_where_that_of_the_draws_is_smaller():
    with importable():
        import correctness

    draws = np.random.default_rng(1).normal(size=(4, 500, 1))
    by_draws, by_known = (correctness.worst_z(draws, 0.5, sd, 0.0) for sd in (0.0, 10.0))
    assert by_draws > 9 * by_known > 0
    assert correctness.worst_z(draws, 0.5, 0.0, 10.0) < 0.1


def test_a_mean_is_shown_without_the_model_that_it_owes_most_to(results_page):
    _, text, _, met = results_page.mean_bar("what", {"a": 1.0, "b": 4.0, "c": 1000.0}, 2.5, 3)
    assert text.endswith("; 2.00 without c")
    assert met


def test_a_model_that_is_measured_again_replaces_its_own_row_alone(monkeypatch, tmp_path, capsys):
    with importable():
        import measure

        monkeypatch.setattr(measure, "RESULTS", tmp_path)
        measure.report("times", [{"model": "a", "us": 1.0}, {"model": "b", "us": 2.0}], by="model")
        measure.report("times", [{"model": "a", "us": 3.0}], by="model")
    assert [tuple(row.values()) for row in read(tmp_path / "times.csv")] == [("a", "3"), ("b", "2")]
    assert "b" not in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("arguments", [["--quick"], ["--models", "arK", "--seeds", "1"]])
def test_a_part_of_the_results_leaves_the_stored_ones_alone(arguments):
    with importable():
        import results

        chosen = results.parse(arguments)
        commands = results.commands(chosen)
    assert chosen.results == PROGRAMS / "results" / "part"
    outs = {Path(c[c.index("--out") + 1]).parent for c in commands}
    assert outs == {chosen.results}
    assert all(c[c.index("--models") + 1].split(",")[0] in ("arK", "normal_10") for c in commands)


def test_all_results_are_made_of_all_models_in_the_folder_of_the_stored_ones():
    with importable():
        import results

        commands = results.commands(results.parse([]))
    outs = [Path(c[c.index("--out") + 1]) for c in commands]
    counts = [len(c[c.index("--models") + 1].split(",")) for c in commands]
    asked = {
        (Path(c[1]).stem, out.name, count)
        for c, out, count in zip(commands, outs, counts, strict=True)
    }
    assert asked == {
        ("efficiency", "efficiency.csv", 20),
        ("efficiency", "efficiency.csv", 3),
        ("efficiency", "case_studies.csv", 22),
        ("modes", "modes.csv", 1),
        ("ablation", "ablation.csv", 20),
        ("correctness", "correctness.csv", 20),
        ("per_second", "per_second.csv", 12),
        ("per_second", "per_second.csv", 20),
        ("motion_search", "motion_search.csv", 10),
        ("modes", "modes_known.csv", 11),
    }
    assert {out.parent for out in outs} == {PROGRAMS / "results"}


def test_one_command_makes_a_page_of_a_posterior_with_its_known_moments(tmp_path):
    chosen = ("--quick", "--models", "arK", "--samplers", "mjhmc", "--results", str(tmp_path))
    run_program("results.py", *chosen)
    (row,) = read(tmp_path / "efficiency.csv")
    assert (row["model"], row["scored"]) == ("arK", "7")
    assert 0 < float(row["z_mean"]) < 6
    assert float(row["cpu_seconds"]) > 0
    assert "| arK | mjhmc |" in (tmp_path / "RESULTS.md").read_text()


def test_a_file_with_other_columns_keeps_them(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("model,seed\na,1\n")
    with importable():
        import efficiency

        efficiency.append_row(path, ["model", "seed", "new"], {"model": "b", "seed": 2, "new": 3})
    assert path.read_text() == "model,seed\na,1\nb,2\n"
