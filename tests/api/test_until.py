"""sample(until=...): the same draws as a longer run, no more of them than an error needs."""

import signal

import numpy as np
import pytest

from mjhmc_numba import SamplingWarning, SettingsError, Until, sample, targets
from mjhmc_numba.estimates import EstimateError, estimate, evaluate

SHAPES = np.array([1.0, 2.0, 5.0])
FIXED = {"step_size": 0.5, "num_steps": 2, "refresh_rate": 0.5, "draw_interval": 1.0}


@pytest.fixture(scope="module")
def target():
    return targets.log_gamma(SHAPES, 3)


def run(target, seeds, **options):
    options = {"draws": 60, "tune": 100, "chains": 3, "progress": False, **FIXED, **options}
    return sample(target, seed=seeds(131), **options)


def test_its_draws_are_those_of_a_longer_run(target, seeds):
    result = run(target, seeds, until=Until({"x": 0.02}), keep_warmup=True)
    made = result.draws.shape[1]
    whole = run(target, seeds, draws=made, keep_warmup=True)
    assert len(result.rounds) > 1
    assert result.rounds[-1].draws == made > 60
    assert result.rounds[-1].error <= 0.02 < result.rounds[0].error
    np.testing.assert_array_equal(result.draws, whole.draws)
    assert list(result.stats) == list(whole.stats)
    for name in ("lp", "n_steps", "divergences", "acceptance_rate"):
        np.testing.assert_array_equal(result.stats[name], whole.stats[name])
    assert list(result.warmup_stats) == list(whole.warmup_stats)
    longer = result.extend(5, progress=False)
    assert longer.draws.shape[1] == made + 5
    assert '"draws": 60' in result.to_arviz()["posterior"].attrs["rounds"]


def test_the_error_falls_on_the_screen(target, seeds, capsys):
    result = run(target, seeds, until=Until({"x[0]": 0.02}), progress=True)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Round")]
    assert len(lines) == len(result.rounds) > 1
    assert lines[0].startswith("Round 1, 60 draws per chain: error of x[0] 0.")
    assert "(wanted 0.02), R-hat" in lines[-1]


def test_gradients_are_kept_on_request_at_no_further_gradient(target, seeds):
    plain, kept = run(target, seeds), run(target, seeds, store_gradients=True)
    assert kept.gradients == plain.gradients
    _, exact = evaluate(target, kept.draws)
    np.testing.assert_allclose(kept.stats["gradient"], exact, rtol=1e-12)
    np.testing.assert_array_equal(estimate(kept).mean, estimate(kept, exact).mean)
    longer = kept.extend(10, progress=False)
    np.testing.assert_allclose(longer.stats["gradient"], evaluate(target, longer.draws)[1])
    assert "gradient" not in plain.stats


def test_gradients_are_by_x_where_a_chain_has_a_reparametrisation(seeds):
    target = targets.funnel(4, 1.0)
    result = sample(
        target, draws=60, tune=600, seed=seeds(132), progress=False, store_gradients=True
    )
    assert any(tuned.reparametrisation is not None for tuned in result.tuned)
    np.testing.assert_allclose(
        result.stats["gradient"], evaluate(target, result.draws)[1], rtol=1e-9, atol=1e-9
    )


def test_the_cap_is_kept_and_warned_of_with_the_name(target, seeds):
    with pytest.warns(
        SamplingWarning, match=r"until: after 90 draws per chain .* of x\[[012]\] is"
    ):
        result = run(target, seeds, until=Until(1e-9, most_draws=90, r_hat=1.2))
    assert result.draws.shape[1] == 90


@pytest.mark.parametrize("when", [1, 2])
def test_ctrl_c_between_rounds_keeps_what_there_is(target, seeds, when):
    calls = []

    def pressed(x):
        calls.append(x.shape)
        if len(calls) == when:
            signal.raise_signal(signal.SIGINT)
        return x[..., 0]

    with pytest.warns(SamplingWarning, match=f"Interrupted: {60 * when} draws, of 3 chains"):
        result = run(target, seeds, until=Until({"f": 1e-6}, functions={"f": pressed}))
    assert result.interrupted
    assert result.draws.shape == (3, 60 * when, 3)
    assert len(result.rounds) == len(calls) == when
    whole = run(target, seeds, draws=60 * when)
    np.testing.assert_array_equal(result.draws, whole.draws)


def test_a_function_that_raises_leaves_the_draws(target, seeds):
    until = Until({"f": 0.1}, functions={"f": lambda x: x[0, 0]})
    with pytest.raises(EstimateError, match="f has shape") as raised:
        run(target, seeds, until=until)
    assert raised.value.result.draws.shape == (3, 60, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": Until({"mu": 0.1})}, "no quantity mu"),
        ({"until": 0.1}, "until is a mjhmc_numba.Until, not float"),
        ({"until": Until(0.1), "draws": 30}, "draws=30 of the first round"),
        ({"until": Until(0.1), "checkpoint": "folder"}, "checkpoint="),
        ({"until": Until(0.1), "store": "folder"}, "store= does not go with until="),
        ({"until": Until(0.1), "chain": 0}, "chain="),
        ({"store_gradients": True, "checkpoint": "folder"}, "checkpoint="),
        ({"store_gradients": True, "store": "folder"}, "store_gradients="),
    ],
)
def test_what_does_not_go_together_is_named(target, seeds, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=message):
        run(target, seeds, **options)
    assert list(tmp_path.iterdir()) == []
