import pytest

pytest.importorskip("optuna")


def test_mjhmc_does_not_mix_faster_on_a_product_of_experts(quick):
    claims, _ = quick("experts")
    assert claims["ess_mean_ratio"] - 2 * claims["ess_mean_ratio_error"] < 1.2


def test_both_samplers_start_at_the_same_patch(quick):
    from examples.paper.common import read_csv, select

    _, place = quick("experts")
    rows = read_csv(place / "results" / "experts_patches.csv")
    one, other = select(rows, gradients=0)
    pixels = [key for key in one if key.startswith("pixel_")]
    assert [one[key] for key in pixels] == [other[key] for key in pixels]
    last = select(rows, gradients=max(row["gradients"] for row in rows))
    assert all(row[key] != one[key] for row in last for key in pixels)
