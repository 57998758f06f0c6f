import math

import pytest


def z(claims, one, other):
    errors = claims[f"{one}_error"], claims[f"{other}_error"]
    return (claims[one] - claims[other]) / math.hypot(*errors)


def test_by_system_time_the_published_settings_do_not_beat_the_control(quick):
    claims, _ = quick("rough_well")
    assert z(claims, "published_MJHMC_8", "published_HMC_8") < -2


def test_without_holding_times_the_same_run_looks_better_than_it_is(quick):
    claims, _ = quick("rough_well")
    assert 1.5 * claims["decay_MJHMC_embedded_8"] < claims["decay_MJHMC_draws_8"]


@pytest.mark.parametrize("choice", ["published", "reoptimised"])
def test_the_weighted_record_is_worth_at_least_the_draws(quick, choice):
    claims, _ = quick("rough_well")
    name = f"{choice}_MJHMC_8"
    assert z(claims, f"{name}_weighted", name) > -5


def test_the_picture_is_drawn(quick):
    _, place = quick("rough_well")
    assert (place / "figures" / "rough_well.png").stat().st_size > 10_000
