def test_averages_by_dwell_time_are_those_of_the_density(quick):
    claims, _ = quick("dynamics")
    assert abs(claims["weighted_z"]) < 5
    assert abs(claims["weighted_mean_z"]) < 5


def test_plain_averages_over_the_visits_are_not(quick):
    claims, _ = quick("dynamics")
    assert claims["plain_z"] > 5


def test_dwell_times_have_the_expected_mean(quick):
    claims, _ = quick("dynamics")
    assert abs(claims["dwell_z"]) < 5


def test_the_trajectory_has_400_steps_and_its_picture(quick):
    claims, place = quick("dynamics")
    assert claims["steps"] == 400
    assert (place / "figures" / "dynamics.png").stat().st_size > 10_000
