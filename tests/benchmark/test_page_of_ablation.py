"""The section on what each rule is worth, made of rows."""

import pytest

from tests.benchmark.programs import importable


@pytest.fixture(scope="module")
def page():
    with importable():
        import page_of_ablation

        yield page_of_ablation


def rows(variant: str, model: str, values: list[float], r_hat: float = 1.001) -> list[dict]:
    columns = ("per_1000_draws", "per_1000_all", "squares_per_1000_draws")
    return [
        {"variant": variant, "model": model, "seed": str(seed), "r_hat": str(r_hat)}
        | dict.fromkeys(columns, str(value))
        for seed, value in enumerate(values)
    ]


def cells(text: str, variant: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {variant} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


BASE = [*rows("default", "a", [10, 12, 11]), *rows("default", "b", [100, 130, 90])]


def test_an_effect_is_a_geometric_mean_over_models(page):
    more = [*rows("x", "a", [20, 24, 22]), *rows("x", "b", [50, 65, 45])]
    found = cells(page.ablation_text(BASE + more), "x")
    assert found[2] == "1.000 ± 0.000"  # of 2 and 1/2, the same in all seeds
    assert found[5:7] == ["0.50 b", "2.00 a"]


def test_a_rule_that_was_never_used_leaves_the_same_runs(page):
    same = [row | {"variant": "x"} for row in BASE]
    assert cells(page.ablation_text(BASE + same), "x")[-1] == "the same runs"


def test_what_the_seeds_scatter_by_is_noise(page):
    more = [*rows("x", "a", [20, 6, 11]), *rows("x", "b", [60, 160, 120])]
    assert cells(page.ablation_text(BASE + more), "x")[-1] == "within the noise"


def test_an_absence_that_shows_is_said_and_the_best_variant_judged(page):
    worse = [*rows("x", "a", [5, 6.1, 5.4], r_hat=1.02), *rows("x", "b", [51, 64, 46])]
    better = [*rows("y", "a", [12, 14, 13.4]), *rows("y", "b", [121, 152, 110])]
    text = page.ablation_text([*BASE, *worse, *better])
    assert cells(text, "x")[-2:] == ["3 of 6", "worse"]
    assert cells(text, "y")[-1] == "better"
    assert "(y), at most 1.05 is wanted: **not met**" in text
