import math


def z(claims, one, other, key):
    errors = claims[f"{one}_{key}_error"], claims[f"{other}_{key}_error"]
    return (claims[f"{one}_{key}"] - claims[f"{other}_{key}"]) / math.hypot(*errors)


def test_a_tuned_metric_is_worth_a_factor_of_a_hundred_on_the_log_spaced_gaussian(quick):
    claims, _ = quick("other_targets")
    for sampler in ("MJHMC", "HMC"):
        for key in ("ess_mean", "ess_square"):
            paper = claims[f"log_gaussian_{sampler}_{key}"]
            assert claims[f"log_gaussian_default_{key}"] > 100 * paper


def test_the_control_crosses_between_two_modes_more_often_than_the_jump_process(quick):
    """Each at the best settings of a search."""
    claims, _ = quick("other_targets")
    assert z(claims, "multimodal_gaussian_MJHMC", "multimodal_gaussian_HMC", "ess_mean") < -2


def test_our_default_is_several_times_better_within_the_modes(quick):
    claims, _ = quick("other_targets")
    ours, paper = (
        claims[f"multimodal_gaussian_{name}_ess_square"] for name in ("default", "MJHMC")
    )
    assert ours > 3 * paper
