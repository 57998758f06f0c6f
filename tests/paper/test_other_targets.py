import pytest

pytest.importorskip("optuna")


def test_our_default_crosses_between_modes_as_often_as_the_paper_s_rule(quick):
    claims, _ = quick("other_targets")
    ours, paper = (claims[f"multimodal_gaussian_{name}_ess_mean"] for name in ("default", "MJHMC"))
    error = claims["multimodal_gaussian_default_ess_mean_error"]
    assert ours + 5 * error > 0.5 * paper


def test_every_sampler_has_effective_draws_on_every_target(quick):
    claims, _ = quick("other_targets")
    rates = [v for k, v in claims.items() if k.endswith(("ess_mean", "ess_square"))]
    assert len(rates) == 6
    assert min(rates) > 0
