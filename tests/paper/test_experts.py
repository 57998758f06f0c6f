import math

from examples.paper.common import read_csv, select

KINDS = ("ess_mean", "ess_square")


def test_mjhmc_does_not_mix_faster_than_hmc_on_a_product_of_experts(quick):
    """At the best settings of a search for each, in the worst pixel."""
    claims, _ = quick("experts")
    ours, control = (
        min((claims[f"{name}_{key}"], claims[f"{name}_{key}_error"]) for key in KINDS)
        for name in ("MJHMC", "HMC")
    )
    assert (ours[0] - control[0]) / math.hypot(ours[1], control[1]) < 2


def test_both_samplers_start_at_the_same_patch_and_leave_it(quick):
    _, place = quick("experts")
    rows = read_csv(place / "results" / "experts_patches.csv")
    one, other = select(rows, gradients=0)
    pixels = [key for key in one if key.startswith("pixel_")]
    assert len(pixels) == 36
    assert [one[key] for key in pixels] == [other[key] for key in pixels]
    last = select(rows, gradients=max(row["gradients"] for row in rows))
    assert all(row[key] != one[key] for row in last for key in pixels)
