"""The warm-up as a whole, driving one process."""

import numpy as np
import pytest

from mjhmc_numba import targets
from mjhmc_numba.coordinates import Draws, Metric
from mjhmc_numba.density import as_target
from mjhmc_numba.initial import Region
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.process import Process, Snapshot, random_words
from mjhmc_numba.saving import load, save
from mjhmc_numba.settings import Settings
from mjhmc_numba.warmup import Tuner
from mjhmc_numba.warmup.first import first_guess
from tests.reparametrisations import random_reparametrisation
from tests.synthetic import autoregression

GIVEN = {
    "step_size": 0.21,
    "num_steps": 3,
    "refresh_rate": 0.4,
    "draw_interval": 1.3,
    "integrator": "two_stage",
}


def warm_up(target, settings, tune, seed, x0=None, watch=None, spread=0.0, density_changes=False):
    """A process after its warm-up; `watch` is called after every draw.

    It starts at x0; other starts are within `spread` of that, or within 1.
    """
    process = Process(target, settings, first_guess(settings, target.ndim), random_words(seed))
    process.start(np.full(target.ndim, 0.5) if x0 is None else x0)
    region = Region(process.x.copy(), spread)
    rng = np.random.default_rng(seed)
    tuner = Tuner(settings, target.ndim, tune, rng, region, density_changes=density_changes)
    tuner.begin(process)
    draw, stats = np.empty((1, target.ndim)), np.empty((1, len(STAT_NAMES)))
    for _ in range(tune):
        process.run(draw, stats)
        tuner.update(process)
        if watch is not None:
            watch(process)
    return process, tuner


def acceptance(process, draws=400):
    """Mean acceptance of the frozen process."""
    x, stats = np.empty((draws, process.target.ndim)), np.empty((draws, len(STAT_NAMES)))
    process.run(x, stats)
    return np.nanmean(stats[:, STAT_NAMES.index("acceptance_rate")])


@pytest.mark.parametrize("tune", [1, 2, 3, 5, 11, 37, 150])
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
def test_any_length_ends_frozen(tune, scale, seeds):
    target = as_target(targets.gaussian(scale * np.array([1.0, 4.0])))
    for k in range(5):
        process, tuner = warm_up(target, Settings(), tune, seeds(111, tune, k))
        assert tuner.is_done
        tuned = process.tuned
        assert tuned.step_size > 0
        assert tuned.num_steps >= 1
        assert np.isfinite(tuned.metric.covariance()).all()
        assert (tuned.not_learnt != ()) == (tune < 11)
    before = process.tuned
    tuner.update(process)
    assert process.tuned is before


@pytest.mark.parametrize("name", GIVEN)
def test_what_the_user_fixed_is_never_touched(name, seeds):
    settings, seen = Settings(**{name: GIVEN[name]}), set()
    target = as_target(targets.log_gamma([1.0, 4.0], 2))
    warm_up(
        target,
        settings,
        120,
        seeds(112),
        watch=lambda process: seen.add(getattr(process.tuned, name)),
    )
    assert seen == {GIVEN[name]}


def test_a_metric_that_the_user_fixed_is_never_touched(seeds):
    metric, seen = Metric.diagonal([4.0, 0.25]), set()
    target = as_target(targets.log_gamma([1.0, 4.0], 2))
    warm_up(
        target,
        Settings(metric=metric),
        120,
        seeds(113),
        watch=lambda process: seen.add(process.tuned.metric),
    )
    assert seen == {metric}


@pytest.mark.parametrize("wanted", [0.6, 0.95])
def test_the_acceptance_comes_out_as_asked(wanted, seeds):
    target = as_target(targets.log_gamma(1.0, 10))
    settings = Settings(target_accept=wanted, integrator="leapfrog")
    found = [acceptance(warm_up(target, settings, 600, seeds(114, k))[0]) for k in range(8)]
    assert np.mean(found) == pytest.approx(wanted, abs=0.15)


@pytest.mark.parametrize("ndim", [1, 10])
def test_a_larger_target_is_never_answered_by_a_smaller_acceptance(ndim, seeds):
    """On a normal target, where one integrator is exact, and on one where none is."""
    for target in (targets.standard_normal(ndim), targets.log_gamma(1.0, ndim)):
        found = []
        for wanted in (0.5, 0.8, 0.95):
            settings = Settings(target_accept=wanted)
            runs = [warm_up(as_target(target), settings, 300, seeds(124, k))[0] for k in range(4)]
            found.append((np.mean([acceptance(run) for run in runs]), runs[0].tuned.integrator))
        accepted = np.array([mean for mean, _ in found])
        assert (np.diff(accepted) > -0.03).all()
        assert accepted[1] > 0.75
        assert accepted[2] > 0.9


@pytest.mark.parametrize("metric", ["diag", "low_rank"])
def test_scales_are_learnt_over_many_orders_of_magnitude(metric, seeds):
    sd = np.logspace(-6, 6, 5)
    process, _ = warm_up(
        as_target(targets.gaussian(sd)), Settings(metric=metric), 300, seeds(115), x0=sd
    )
    np.testing.assert_allclose(process.tuned.metric.scale, sd, rtol=1e-3)


def test_correlations_are_learnt(seeds):
    covariance = np.full((4, 4), 0.99) + 0.01 * np.eye(4)
    target = as_target(targets.correlated_gaussian(covariance))
    process, _ = warm_up(target, Settings(), 300, seeds(116))
    whitened = process.tuned.metric.whiten(np.linalg.cholesky(covariance).T)
    eigenvalues = np.linalg.svd(whitened, compute_uv=False) ** 2
    assert 0.4 < eigenvalues.min() <= eigenvalues.max() < 2.5


def test_a_start_far_out_is_forgotten(seeds):
    target = as_target(targets.standard_normal(3))
    process, _ = warm_up(target, Settings(), 400, seeds(117), x0=np.full(3, 1e5))
    np.testing.assert_allclose(process.tuned.metric.scale, 1.0, rtol=0.2)
    assert np.abs(process.x).max() < 6


def test_a_warm_up_ends_with_the_users_own_caps(seeds):
    settings = Settings(max_gradients=123_456, max_jumps=7_890)
    process, _ = warm_up(as_target(targets.standard_normal(2)), settings, 60, seeds(118))
    assert process["max_gradients"] == 123_456
    assert process["max_jumps"] == 7_890
    assert process["refine_levels"] == settings.resolve("leapfrog").refine_levels


@pytest.mark.parametrize(
    ("rho", "given", "times"), [(0.0, {}, 1), (0.95, {}, 5), (0.95, {"draw_interval": 2.0}, 1)]
)
def test_draws_that_mix_slowly_are_taken_further_apart(rho, given, times, seeds):
    settings = Settings(integrator="leapfrog", **given)
    process, tuner = warm_up(as_target(targets.gaussian([1.0, 1.0])), settings, 400, seeds(112))
    before = process.tuned.draw_interval
    x = autoregression([rho, 0.0], 200, np.random.default_rng(seeds(113)), chains=1)[0]
    for row in x:
        tuner.history.extend(Draws(row[None], -row[None], np.zeros(1)))
    # Draws of the final window alone do not decide it, nor do those before it alone.
    for gradients, apart in ((1e6, times), (1.0, 1)):
        tuner.gradients_per_independent = gradients
        tuner._freeze(process, process.tuned, len(x))
        assert process.tuned.draw_interval == apart * before


def test_a_refresh_rate_that_the_last_draws_contradict_has_not_converged(seeds):
    target = as_target(targets.gaussian([1.0, 1.0]))
    settings = Settings(integrator="leapfrog")
    process, tuner = warm_up(target, settings, 400, seeds(114))
    assert process.tuned.converged
    x = np.random.default_rng(seeds(115)).normal(size=(48, 2))
    for widened, converged in ((1.0, True), (10.0, False)):
        for row in widened * x:
            tuner.history.extend(Draws(row[None], -row[None] / widened**2, np.zeros(1)))
        tuner._freeze(process, process.tuned, len(x))
        assert process.tuned.converged is converged


def probes_of(monkeypatch):
    """What the process is asked to probe from now on: (integrator, draws, metric)."""
    probe, asked = Process.probe, []

    def note(process, draws, integrator, step_size):
        if len(np.atleast_2d(draws.x)) > 1:  # not in search of a first step size
            asked.append((integrator, draws, process.tuned.metric))
        return probe(process, draws, integrator, step_size)

    monkeypatch.setattr(Process, "probe", note)
    return asked


def harmonic_probes(monkeypatch, shape, seed):
    """Those of a warm-up on a target that is nearer to a Gaussian the larger its shape is: points
    and the metric they were tried with; and the process and its tuner.
    """
    asked = probes_of(monkeypatch)
    target = as_target(targets.log_gamma([shape, 2 * shape], 2))
    process, tuner = warm_up(target, Settings(), 300, seed)
    assert {integrator for integrator, _, _ in asked} == {"leapfrog", "two_stage", "harmonic"}
    asked = [(points, metric) for integrator, points, metric in asked if integrator == "harmonic"]
    return asked, process, tuner


def test_the_harmonic_integrator_is_tried_from_draws_that_its_metric_was_not_made_from(
    monkeypatch, seeds
):
    asked, process, tuner = harmonic_probes(monkeypatch, 60.0, seeds(128))
    assert process.tuned.integrator == "harmonic"
    seen = tuner.history.newest(300).x[: -tuner.plan[-1].draws]
    points, metric = asked[-1]
    newest = seen[-len(seen) // 3 - 1 :]
    for x in points.x:
        assert np.abs(newest - x).max(axis=1).min() < 1e-12
    assert len(points.x) >= 10
    assert not np.allclose(metric.covariance(), process.tuned.metric.covariance(), rtol=1e-6)


def test_a_metric_that_knows_the_draws_must_do_better_first(monkeypatch, seeds):
    """Another one takes time to estimate, and would do worse."""
    asked, process, _ = harmonic_probes(monkeypatch, 1.0, seeds(128))
    assert process.tuned.integrator != "harmonic"
    assert len({id(metric) for _, metric in asked}) == 1


def test_integrators_are_tried_on_the_density_as_it_is_now_in_coordinates_that_were_given(
    monkeypatch, seeds
):
    """Beside other step methods, where what was seen of the density may no longer be so."""
    asked = probes_of(monkeypatch)
    target = as_target(targets.log_gamma([1.0, 4.0, 2.0], 3))
    other = random_reparametrisation(3)
    settings = Settings(reparametrisation=other)
    _, tuner = warm_up(target, settings, 80, seeds(129), density_changes=True)
    assert {integrator for integrator, _, _ in asked} == {"leapfrog", "two_stage"}
    _, points, _ = asked[0]
    assert points.coordinates is other
    seen = tuner.history.newest(80).x
    for z, grad, logp in zip(points.x, points.grad, points.logp, strict=True):
        x = other.to_x(z)
        assert np.abs(seen - x).max(axis=1).min() < 1e-12
        logp_x, grad_x = target.logp_and_grad(x)
        assert logp == pytest.approx(logp_x + other.log_volume(x), rel=1e-12)
        np.testing.assert_allclose(grad, other.gradient_to_z(x, grad_x), rtol=1e-10)


@pytest.mark.parametrize(
    ("target", "chosen"),
    [
        (targets.correlated_gaussian(0.5 + 0.5 * np.eye(6)), {"harmonic"}),  # exact there
        (targets.student_t(3.0, 20), {"leapfrog", "two_stage"}),  # tails that no Gaussian has
        (targets.student_t(4.0, 1), {"leapfrog", "two_stage"}),  # few draws are in them
    ],
    ids=["gaussian", "heavy tails", "heavy tails of one dimension"],
)
def test_the_harmonic_integrator_is_for_what_is_nearly_gaussian(target, chosen, seeds):
    found = {
        warm_up(as_target(target), Settings(), 400, seeds(132, k))[0].tuned.integrator
        for k in range(6)
    }
    assert found <= chosen


@pytest.mark.parametrize("every", [1, 7])
def test_a_warm_up_that_is_saved_and_loaded_goes_on_in_the_same_way(every, seeds):
    target, settings = as_target(targets.funnel(4, 1.5)), Settings()

    def ended(is_saved):
        start, rng = np.full(4, 0.5), np.random.default_rng(seeds(131))
        process = Process(target, settings, first_guess(settings, 4), random_words(seeds(130)))
        process.start(start)
        tuner = Tuner(settings, 4, 210, rng, Region(start, 1.0))
        tuner.begin(process)
        draw, stats = np.empty((1, 4)), np.empty((1, len(STAT_NAMES)))
        for k in range(210):
            if is_saved and k % every == 0:
                saved = save((process.snapshot(), tuner))
                process = Process.resume(target, settings, load(Snapshot, saved[0]))
                tuner = load(Tuner, saved[1], settings=settings)
                np.testing.assert_equal(save((process.snapshot(), tuner)), saved)
            process.run(draw, stats)
            tuner.update(process)
        return save((process.snapshot(), tuner))

    np.testing.assert_equal(ended(is_saved=True), ended(is_saved=False))
