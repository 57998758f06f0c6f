"""Dual averaging alone, on acceptance curves that are known; and windows of a warm-up."""

import math

import numpy as np
import pytest

from mjhmc_numba import Settings, targets
from mjhmc_numba.density import as_target
from mjhmc_numba.kernel.adaptation import average
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.process import Process, random_words
from mjhmc_numba.warmup.first import first_guess
from tests.kernel.processes import quartic


def acceptance(step, scale):
    """Falls from 1 to 0 as the step grows, as that of an integrator of second order does."""
    return math.erfc((step / scale) ** 2)


def solve(target, scale):
    low, high = 1e-6 * scale, 1e3 * scale
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if acceptance(middle, scale) > target else (low, middle)
    return low


def tune(target, scale, begin, updates, noise=None):
    log_step = log_average = log_centre = math.log(begin)
    deficit = 0.0
    for k in range(updates):
        value = acceptance(math.exp(log_step), scale)
        if noise is not None:
            value = float(np.clip(value + noise(), 0, 1))
        log_step, log_average, deficit = average(k, log_centre, log_average, deficit, value, target)
    return math.exp(log_average)


@pytest.mark.parametrize("target", [0.6, 0.8, 0.9])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_it_converges_to_the_step_with_the_target_acceptance(target, scale):
    found = tune(target, scale, begin=2 * scale, updates=2000)
    assert found == pytest.approx(solve(target, scale), rel=0.05)


def test_it_forgets_where_it_began():
    found = [tune(0.8, 1.0, begin, updates=3000) for begin in (0.05, 1.0, 20.0)]
    assert max(found) / min(found) < 1.1


def test_noise_is_averaged_out(seeds):
    rng = np.random.default_rng(seeds(71))
    found = tune(0.8, 1.0, 1.0, 2000, noise=lambda: rng.uniform(-0.2, 0.2))
    assert found == pytest.approx(solve(0.8, 1.0), rel=0.15)


def test_too_few_acceptances_shorten_the_step_and_too_many_lengthen_it():
    centre = math.log(0.7)
    worse, _, _ = average(0, centre, centre, 0.0, 0.1, 0.8)
    better, _, _ = average(0, centre, centre, 0.0, 1.0, 0.8)
    assert worse < centre < better


def test_an_update_is_the_one_of_hoffman_and_gelman():
    gamma, t0, kappa, t = 0.15, 10.0, 0.75, 4
    log_step, log_average, deficit = average(t - 1, 0.3, -0.2, 0.05, 0.6, 0.8)
    expected = (1 - 1 / (t + t0)) * 0.05 + 0.2 / (t + t0)
    assert deficit == pytest.approx(expected, rel=1e-12)
    assert log_step == pytest.approx(0.3 - math.sqrt(t) / gamma * expected, rel=1e-12)
    assert log_average == pytest.approx(t**-kappa * log_step + (1 - t**-kappa) * -0.2, rel=1e-12)


def started(seeds, ndim=3):
    target, settings = as_target(targets.log_gamma(2.0, ndim)), Settings()
    process = Process(target, settings, first_guess(settings, ndim), random_words(seeds(75)))
    process.start(np.zeros(ndim))
    return process


def run(process, n):
    draws, stats = np.empty((n, process.target.ndim)), np.empty((n, len(STAT_NAMES)))
    process.run(draws, stats)
    return draws, stats


def test_kept_draws_are_those_that_were_made(seeds):
    process = started(seeds)
    process.keep_draws(10)
    draws, stats = run(process, 6)
    kept = process.take_draws()
    np.testing.assert_array_equal(kept.x, draws)
    np.testing.assert_array_equal(kept.logp, stats[:, STAT_NAMES.index("lp")])
    for x, grad in zip(kept.x, kept.grad, strict=True):
        np.testing.assert_allclose(process.target.logp_and_grad(x)[1], grad, rtol=1e-12)
    assert len(process.take_draws().x) == 0


def test_the_newest_draws_are_kept_where_there_is_no_room_for_all(seeds):
    process = started(seeds)
    process.keep_draws(4)
    draws, _ = run(process, 11)
    np.testing.assert_array_equal(process.take_draws().x, draws[-4:])


def test_one_call_adapts_as_many_calls_do(seeds):
    together, one_by_one = started(seeds), started(seeds)
    for process in (together, one_by_one):
        process.adapt_step(0.8, 0.0, math.inf)
    draws, _ = run(together, 40)
    singly = np.concatenate([run(one_by_one, 1)[0] for _ in range(40)])
    np.testing.assert_array_equal(draws, singly)
    assert together.tuned.step_size == one_by_one.tuned.step_size != 0.5
    assert together.averaged_step == one_by_one.averaged_step


def replayed(stats, begin, target, looks):
    """Step sizes after each draw, from the statistics: a refined rung counts as not accepted.

    `looks` at the neighbours per draw; None where the process looks when it moves or flips.
    """
    rows = [dict(zip(STAT_NAMES, row, strict=True)) for row in stats]
    log_step = log_average = centre = math.log(begin)
    deficit, updates, accepted, steps = 0.0, 0, [], []
    for row in rows:
        seen = max(row["n_L"] + row["n_F"], 1.0) if looks is None else looks
        if not math.isnan(row["acceptance_rate"]):  # something was tried
            accepted.append(max(row["acceptance_rate"] - row["n_refined"] / seen, 0.0))
        if row["n_R"] > 0 and accepted:
            mean = float(np.mean(accepted))
            log_step, log_average, deficit = average(
                updates, centre, log_average, deficit, mean, target
            )
            updates, accepted = updates + 1, []
        steps.append(math.exp(log_step))
    return steps


# Where g is bounded a clock rings: once per unit of time with metropolis rates, twice with barker.
@pytest.mark.parametrize(("rates", "looks"), [("metropolis", 2.0), ("barker", 4.0), ("sqrt", None)])
def test_the_step_size_follows_the_unrefined_acceptance_between_refreshes(seeds, rates, looks):
    # So that some rungs are refined, whatever the seed.
    settings = Settings(refine_threshold=1.0, rates=rates)
    tuned = first_guess(settings, 3).replace(step_size=2.0, refresh_rate=0.3, draw_interval=2.0)
    process = Process(as_target(quartic, ndim=3), settings, tuned, random_words(seeds(76)))
    process.start(np.ones(3))
    process.adapt_step(0.8, 0.0, math.inf)
    steps, rows = [], []
    for _ in range(60):
        rows.append(run(process, 1)[1][0])
        steps.append(process.tuned.step_size)
    stats = np.array(rows)
    assert stats[:, STAT_NAMES.index("n_refined")].sum() > 5
    assert np.any(stats[:, STAT_NAMES.index("n_R")] == 0)
    expected = replayed(stats, 2.0, 0.8, looks)
    np.testing.assert_allclose(steps, expected, rtol=1e-9)


def test_the_step_size_stays_within_its_bounds(seeds):
    process = started(seeds)
    process.adapt_step(0.8, 0.4, 0.6)
    _, stats = run(process, 60)
    steps = stats[:, STAT_NAMES.index("step_size_bar")]
    assert steps.min() >= 0.4
    assert steps.max() <= 0.6
    assert 0.4 <= process.averaged_step <= 0.6


def test_configuring_ends_the_adaptation(seeds):
    process = started(seeds)
    process.adapt_step(0.8, 0.0, math.inf)
    process.configure(process.tuned.replace(step_size=0.3))
    _, stats = run(process, 20)
    assert set(stats[:, STAT_NAMES.index("step_size_bar")]) == {0.3}
    assert process.averaged_step == 0.3
