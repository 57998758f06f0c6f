"""The Gaussian independence proposal: what the draws tell of it, and when it is used."""

import warnings

import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.coordinates import Metric
from mjhmc_numba.warmup import proposal as gaussian


def draws_of(target, seed, n):
    x = target.draw(np.random.default_rng(seed), n)
    return x, np.array([target.logp(row) for row in x])


def accepted(target, proposal, x, logp, seed):
    """Acceptance probabilities of moves to independent draws of the Gaussian."""
    rng = np.random.default_rng(seed)
    metric = proposal.metric
    y = metric.centre + metric.unwhiten(rng.normal(size=x.shape))
    logp_y = np.array([target.logp(row) for row in y])

    def log_q(z):
        return -0.5 * np.sum(metric.whiten(z - metric.centre) ** 2, axis=1)

    return np.exp(np.minimum(0.0, logp_y - log_q(y) - logp + log_q(x)))


@pytest.mark.parametrize("widened", [1.25, 2.0])
@pytest.mark.parametrize(
    "target", [targets.rough_well(), targets.banana(2, 1.0, 0.3), targets.log_gamma(2.0, 3)]
)
def test_acceptance_is_foreseen_from_draws_alone(target, widened, seeds):
    x, logp = draws_of(target, seeds(160), 4000)
    proposal = gaussian.fit(x, logp, widened)
    simulated = accepted(target, proposal, x, logp, seeds(161)).mean()
    # Draws tell nothing of moves to where they have not been: the wider, the more is hoped for.
    assert proposal.acceptance == pytest.approx(simulated, rel=0.15 if widened < 1.5 else 0.6)


def test_too_few_draws_or_draws_in_a_plane_tell_nothing(seeds):
    rng = np.random.default_rng(seeds(165))
    x = rng.normal(size=(400, 3))
    assert gaussian.fit(x, np.zeros(400)) is not None
    assert gaussian.fit(x[:30], np.zeros(30)) is None
    x[:, 2] = 1.0
    assert gaussian.fit(x, np.zeros(400)) is None
    assert gaussian.fit(x, np.zeros(400), diagonal=True) is None


def test_log_densities_whose_mean_rounds_to_less_than_all_of_them_tell_nothing(seeds):
    x = np.random.default_rng(seeds(176)).normal(size=(100, 2))
    logp = np.full(100, 1e60)
    assert (logp > logp.mean()).all()
    assert gaussian.fit(x, logp) is None


def test_a_diagonal_proposal_leaves_correlations_out(seeds):
    x, logp = draws_of(targets.correlated_gaussian([[1.0, 0.9], [0.9, 1.0]]), seeds(166), 500)
    assert gaussian.fit(x, logp).metric.rank == 2
    diagonal = gaussian.fit(x, logp, diagonal=True)
    assert diagonal.metric.rank == 0
    assert diagonal.acceptance < 0.8 * gaussian.fit(x, logp).acceptance


def test_a_gaussian_covers_draws_that_are_narrower_and_moved(seeds):
    rng = np.random.default_rng(seeds(167))
    many = rng.normal(size=(300, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    assert gaussian.covers_draws(Metric.dense(0.95**2 * np.cov(many.T)), many)
    assert not gaussian.covers_draws(Metric.dense(0.85**2 * np.cov(many.T)), many)
    x = many[:150]
    covariance = np.cov(x.T)
    assert gaussian.covers_draws(Metric.dense(1.25**2 * covariance), x)
    assert not gaussian.covers_draws(Metric.dense(0.95**2 * covariance), x)
    assert gaussian.covers_draws(Metric.dense(0.95**2 * covariance), x, again=True)
    assert not gaussian.covers_draws(Metric.dense(0.85**2 * covariance), x, again=True)
    # Wide enough along the axes only.
    assert not gaussian.covers_draws(Metric.diagonal(0.8 * np.diag(covariance)), x)
    stuck = np.repeat(x[:30], 10, axis=0)
    assert not gaussian.covers_draws(Metric.dense(4 * covariance), stuck)


def test_only_ripples_are_rough(seeds):
    for target, rough in {
        targets.rough_well(): True,
        targets.banana(): False,
        targets.student_t(3.0, 2): False,
        targets.correlated_gaussian([[1.0, 0.9], [0.9, 1.0]]): False,
    }.items():
        x, logp = draws_of(target, seeds(172), 1000)
        grad = np.array([target.logp_and_grad(row)[1] for row in x])
        metric = gaussian.fit(x, logp).metric
        assert gaussian.is_rough(metric, grad, surely=True) is rough


def test_a_target_with_ripples_along_one_axis_is_not_rough(seeds):
    x = np.random.default_rng(seeds(173)).normal(size=(500, 2))
    grad = -x + np.column_stack([100.0 * np.cos(100.0 * x[:, 0]), np.zeros(500)])
    assert not gaussian.is_rough(Metric.diagonal(np.ones(2)), grad, surely=False)


def test_a_part_of_a_well_is_rough_enough_for_a_trial(seeds):
    """What a chain has seen between a few ripples, a tenth as wide as the well."""
    target = targets.rough_well()
    x, _ = draws_of(target, seeds(174), 4000)
    x = x[(np.abs(x) < 0.2 * np.sqrt(target.variance)).all(axis=1)]
    logp, grad = (np.array(part) for part in zip(*map(target.logp_and_grad, x), strict=True))
    metric = gaussian.fit(x, logp).metric
    assert gaussian.is_rough(metric, grad, surely=False)
    assert not gaussian.is_rough(metric, 0.1 * grad, surely=True)


def test_a_well_of_ripples_is_seen_whole_by_turning(seeds):
    target = targets.rough_well()
    options = {"integrator": "rotation", "chains": 6, "progress": False}
    result = mj.sample(target, seed=seeds(168), tune=1000, draws=2000, **options)
    assert result.warnings == []
    x = result.draws / np.sqrt(target.variance)
    # From start points near 0 the ripples would hide the well: its width is 100 times theirs.
    assert np.abs(x.std(axis=1) - 1).max() < 0.2
    assert np.abs(x.mean(axis=1)).max() < 0.25


def test_a_well_of_ripples_is_turned_in_and_seen_whole(seeds):
    target = targets.rough_well()
    with warnings.catch_warnings():  # of a chain that does not turn
        warnings.simplefilter("ignore", mj.SamplingWarning)
        result = mj.sample(target, seed=seeds(168), tune=1000, draws=2000, chains=6, progress=False)
    is_rotation = [tuned.integrator == "rotation" for tuned in result.tuned]
    assert np.mean(is_rotation) >= 0.5
    x = result.draws[np.array(is_rotation)] / np.sqrt(target.variance)
    # From start points near 0 the ripples would hide the well: its width is 100 times theirs.
    assert np.abs(x.std(axis=1) - 1).max() < 0.2
    assert np.abs(x.mean(axis=1)).max() < 0.25


@pytest.mark.parametrize("metric", ["low_rank", "diag"])
@pytest.mark.parametrize(
    "target",
    [
        targets.student_t(3.0, 2),
        targets.funnel(3),
        targets.banana(2, 1.0, 2.0),
        targets.correlated_gaussian([[1.0, 0.999], [0.999, 1.0]]),
    ],
    ids=lambda target: target.name,
)
def test_smooth_targets_are_not_turned_in(target, metric, seeds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mj.SamplingWarning)
        result = mj.sample(target, seed=seeds(169), metric=metric, draws=10, progress=False)
    assert all(tuned.integrator != "rotation" for tuned in result.tuned)


def test_a_rotation_that_is_asked_for_is_learnt_and_used(seeds):
    target = targets.log_gamma([1.0, 3.0], 2)
    with warnings.catch_warnings():  # of long stays in the tail, for which it was not made
        warnings.simplefilter("ignore", mj.SamplingWarning)
        result = mj.sample(
            target, seed=seeds(170), integrator="rotation", draws=4000, progress=False
        )
    assert all(tuned.integrator == "rotation" for tuned in result.tuned)
    means = result.draws.mean(axis=1)
    error = means.std(axis=0, ddof=1) / 2
    assert np.all(np.abs(means.mean(axis=0) - target.mean) < 10 * error)


def test_a_rotation_can_be_given_whole(seeds):
    metric = Metric.diagonal([1.0, 4.0]).centred([1.0, -2.0])
    result = mj.sample(
        targets.gaussian([1.0, 2.0], [1.0, -2.0]),
        seed=seeds(171),
        integrator="rotation",
        metric=metric,
        step_size=np.pi / 2,
        num_steps=1,
        refresh_rate=1.0,
        draw_interval=1.0,
        tune=0,
        draws=500,
        progress=False,
    )
    assert result.stats["acceptance_rate"].min() > 1 - 1e-12
    assert np.all(result.stats["n_steps"] == 1)
