"""The statistics of MJHMC as a step method, and what it tells a user."""

import logging
import math

import numpy as np
import pymc as pm
import pytest
from pymc.stats.convergence import WarningType
from pymc.step_methods.hmc import NUTS

from mjhmc_numba.diagnostics.rules import ACCEPTANCE_DRAWS, LOW_ACCEPTANCE, STUCK_STAY
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.pymc import MJHMC
from mjhmc_numba.stats import COLUMN
from mjhmc_numba.warmup.first import first_guess
from tests.integrations import models
from tests.integrations.chains import FIXED, OTHERS_WARN, QUIET, begin, run, sample

pytestmark = OTHERS_WARN


def test_statistics_are_those_that_are_declared(model):
    with model:
        step = MJHMC(tune=20)
    begin(step, 1, 20)
    _, stats = run(step, model.initial_point(), draws=5, tune=20)
    for made in stats:
        (made,) = made
        assert set(made) == set(step.stats_dtypes_shapes)
        for name, (dtype, shape) in step.stats_dtypes_shapes.items():
            if name == "warning":
                assert made[name] is None or made[name].extra["sampler"] == "mjhmc_numba"
                continue
            assert np.shape(made[name]) == tuple(shape)
            assert np.can_cast(np.asarray(made[name]).dtype, dtype, "same_kind")


def test_statistics_agree_with_each_other(sequential):
    for group in ("sample_stats", "warmup_sample_stats"):
        stats = sequential[group]
        assert np.all(stats["n_jumps"] == stats["n_L"] + stats["n_F"] + stats["n_R"])
        held = stats["draw_interval"] / np.maximum(stats["n_jumps"], 1)
        assert np.allclose(stats["holding_time"], held)
        assert np.all((stats["acceptance_rate"] >= 0) & (stats["acceptance_rate"] <= 1))
        assert np.all(stats["n_steps"] >= 0)
    x = sequential["posterior"]["x"].values
    m = sequential["posterior"]["m"].values
    residual = np.concatenate(
        [
            (x - [1.0, -2.0]) / [1.0, 0.5],
            (m - x[..., :1, None]).reshape(*m.shape[:2], 4),
        ],
        axis=-1,
    )
    lp = -0.5 * (residual**2).sum(-1) - 3 * np.log(2 * np.pi) - np.log(0.5)
    assert np.allclose(sequential["sample_stats"]["lp"], lp)


def test_shared_statistics_have_the_types_of_nuts():
    for name, (dtype, _) in NUTS.stats_dtypes_shapes.items():
        if name in MJHMC.stats_dtypes_shapes:
            assert MJHMC.stats_dtypes_shapes[name][0] is dtype


def test_divergences_are_counted_and_marked():
    model = models.wall()
    with model:
        step = MJHMC(step_size=0.3, num_steps=1, refresh_rate=0.25, draw_interval=2.0)
    begin(step, 1, 0)
    _, stats = run(step, model.initial_point(), draws=300)
    diverging = np.array([s[0]["diverging"] for s in stats])
    assert 10 < diverging.sum() < 290
    assert stats[-1][0]["divergences"] == diverging.sum()
    for made, is_diverging in zip(stats[1:], diverging[1:], strict=True):  # the first has a mark
        assert (made[0]["warning"] is not None) == is_diverging
        if is_diverging:  # and it began within the support, near its end
            assert 0.0 < made[0]["warning"].divergence_point_source["x"] < 1.5
    told = [s[0]["warning"] for s in stats if s[0]["warning"] is not None]
    advice = [w.message for w in told if w.level == "warn"]
    assert sum("MJHMC(target_accept=0.95)" in message for message in advice) == 1


def test_a_stuck_chain_is_told_once_with_advice(caplog):
    with pm.Model() as model:
        pm.Normal("x", 0, 1, shape=20)
        step = MJHMC(step_size=1.5, num_steps=1, refresh_rate=0.001, draw_interval=40.0)
    with caplog.at_level(logging.WARNING, "pymc.stats.convergence"):
        sample(model, step, tune=0, draws=300, chains=1)
    told = [r.message for r in caplog.records if "stuck" in r.message]
    assert len(told) == 1
    assert "target_accept" in told[0]


def test_a_capped_draw_is_told_once_with_advice(caplog):
    with pm.Model() as model:
        pm.Normal("x", 0, 1, shape=2)
        step = MJHMC(**FIXED, max_gradients=1)
    with caplog.at_level(logging.WARNING, "pymc.stats.convergence"):
        sample(model, step, tune=0, draws=50, chains=1)
    assert [
        r.message.count("max_gradients") for r in caplog.records if "cut short" in r.message
    ] == [1]


def told_of_acceptance(step, acceptances, tune=0, **columns):
    """Draws at which a chain with these acceptance rates is told of them, and the messages.

    The first `tune` draws are tuning ones; `columns` are other statistics: {draw: value}.
    """
    begin(step, 1, tune)
    tuned = first_guess(step.settings, step.density.ndim)
    told = {}
    for draw, acceptance in enumerate(acceptances):
        if draw == tune:
            step.stop_tuning()
        row = [0.0] * len(STAT_NAMES)
        row[COLUMN["acceptance_rate"]] = acceptance
        for name, values in columns.items():
            row[COLUMN[name]] = values.get(draw, 0.0)
        warning = step._stats(row, tuned)["warning"]
        if warning is not None and "mean acceptance" in warning.message:
            assert warning.kind is WarningType.BAD_ACCEPTANCE
            assert warning.level == "warn"
            told[draw] = warning.message
    return told


@pytest.fixture
def fixed_step(model):
    with model:
        return MJHMC(**FIXED)


def test_a_low_acceptance_is_told_once_when_enough_draws_are_made(fixed_step):
    told = told_of_acceptance(fixed_step, [0.2, 0.6] * ACCEPTANCE_DRAWS)
    assert list(told) == [ACCEPTANCE_DRAWS - 1]
    (message,) = told.values()
    assert "of 0.40:" in message
    assert "target_accept" in message


def test_the_acceptance_that_is_told_is_that_of_the_first_draws_after_tuning(fixed_step):
    limit, few = LOW_ACCEPTANCE, 30
    good, bad = [limit + 0.01] * ACCEPTANCE_DRAWS, [limit - 0.01] * ACCEPTANCE_DRAWS
    assert told_of_acceptance(fixed_step, good + [0.0] * few) == {}
    assert told_of_acceptance(fixed_step, [0.0] * few + good, tune=few) == {}
    assert list(told_of_acceptance(fixed_step, [1.0] * few + bad, tune=few)) == [few + len(bad) - 1]
    assert told_of_acceptance(fixed_step, bad[1:]) == {}


def test_where_a_draw_tried_nothing_the_acceptance_before_it_counts(fixed_step):
    rare = [0.9] + [math.nan] * 9
    assert told_of_acceptance(fixed_step, rare * ACCEPTANCE_DRAWS) == {}
    low = [0.1] + [math.nan] * 9
    (message,) = told_of_acceptance(fixed_step, low * ACCEPTANCE_DRAWS).values()
    assert "of 0.10:" in message


def test_draws_before_the_first_try_do_not_lower_the_acceptance(fixed_step):
    nothing = [math.nan] * (2 * ACCEPTANCE_DRAWS)
    assert told_of_acceptance(fixed_step, nothing) == {}
    assert told_of_acceptance(fixed_step, nothing + [0.9] * ACCEPTANCE_DRAWS) == {}


@pytest.mark.parametrize("column", ["n_capped", "longest_stay"])
def test_a_low_acceptance_is_told_beside_what_else_is_wrong(fixed_step, column):
    """Each draw carries one message, so the other one comes with the next draw."""
    last = ACCEPTANCE_DRAWS - 1
    other = {column: {last: STUCK_STAY + 1}}
    told = told_of_acceptance(fixed_step, [0.2] * (2 * ACCEPTANCE_DRAWS), **other)
    assert list(told) == [last + 1]


def test_a_good_chain_is_told_nothing(sequential, model, caplog):
    with caplog.at_level(logging.WARNING, "pymc.stats.convergence"):
        sample(model, draws=250, tune=150, chains=1)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_a_refresh_rate_that_did_not_converge_is_told_once_with_advice(fixed_step):
    begin(fixed_step, 1, 0)
    fixed_step.stop_tuning()
    tuned = first_guess(fixed_step.settings, fixed_step.density.ndim)
    row = [0.0] * len(STAT_NAMES)
    assert fixed_step._stats(row, tuned)["warning"] is None
    warning = fixed_step._stats(row, tuned.replace(converged=False))["warning"]
    assert warning.kind is WarningType.BAD_PARAMS
    assert "refresh rate did not converge" in warning.message
    assert "Tune longer" in warning.message
    assert fixed_step._stats(row, tuned.replace(converged=False))["warning"] is None


def test_a_chain_that_mixes_slowly_is_told_once_and_the_variable_named(model, caplog):
    with model:
        step = MJHMC(**FIXED | {"step_size": 0.01, "refresh_rate": 0.5})
    with caplog.at_level(logging.WARNING, "pymc.stats.convergence"):
        sample(model, step, tune=0, draws=1000, chains=1)
    (told,) = [r.message for r in caplog.records if "mixes slowly" in r.message]
    assert "500 draws" in told
    assert any(f"in {name}" in told for name in step.density.layout.told)


def test_the_target_acceptance_is_that_which_was_asked_for():
    """And more of it gives smaller steps, so that PyMC's advice helps if it is followed."""
    rates, steps = {}, {}
    with models.regression():
        for wanted in (0.7, 0.98):
            step = MJHMC(target_accept=wanted, integrator="leapfrog")
            assert step.target_accept == wanted
            data = pm.sample(
                step=step, draws=100, tune=200, chains=1, cores=1, random_seed=4, **QUIET
            )
            rates[wanted] = float(data["sample_stats"]["acceptance_rate"].mean())
            steps[wanted] = data["posterior"].attrs["step_size"][0]
        assert 0.0 < MJHMC().target_accept < 1.0
    assert steps[0.98] < 0.7 * steps[0.7]
    assert rates[0.98] > rates[0.7]
