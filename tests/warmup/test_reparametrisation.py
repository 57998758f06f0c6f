"""Reparametrisations from draws and gradients: right where they help, none where they do not."""

import dataclasses

import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.convergence import effective_size
from mjhmc_numba.coordinates import Reparametrisation
from mjhmc_numba.density import as_target
from mjhmc_numba.targets.distribution import compile_density
from mjhmc_numba.warmup import parents
from mjhmc_numba.warmup import reparametrisation as reparametrisation_tuner
from mjhmc_numba.warmup.metric import diagonal
from mjhmc_numba.warmup.parents import choose
from mjhmc_numba.warmup.reparametrisation import Parents, fit, in_coordinates
from tests.reparametrisations import SCHOOLS, centred, draws_and_gradients
from tests.statistical.estimates import batch_means, batch_z
from tests.synthetic import low_rank


def exact_draws(distribution, n, seed):
    draws = distribution.draw(np.random.default_rng(seed), n)
    return draws_and_gradients(as_target(distribution), draws)


def slopes(reparametrisation):
    """Of the log scales by their first scale parent, below and above its middle: (2, children)."""
    value, bend = reparametrisation.log_scale[:, 1:3].T / reparametrisation.knots[0, 3]
    return np.array([value - bend, value + bend])


# ------------------------------------------------------------------------- the fit


@pytest.mark.parametrize("n", [40, 400])
def test_on_a_funnel_the_reparametrisation_is_exact(n, seeds):
    x, grad = exact_draws(targets.funnel(6), n, seeds(130, n))
    reparametrisation = fit(x, grad, Parents(scale=(0,)))
    np.testing.assert_allclose(slopes(reparametrisation), 0.5, atol=0.05)
    z, g = in_coordinates(reparametrisation, x, grad)
    assert np.mean((z[:, 1:] + g[:, 1:]) ** 2) < 0.01
    assert np.mean((g[:, 0] + x[:, 0] / 9) ** 2) < 0.05


def test_groups_about_a_mean_become_non_centred_where_the_data_say_little(seeds):
    """In the funnel theta is mu + tau z; where tau is large the data hold it at their own scale."""
    rng = np.random.default_rng(seeds(131))
    mu, log_tau = rng.normal(5, 3, 600), rng.normal(0, 1.5, 600)
    precision = np.exp(-2 * log_tau)[:, None] + SCHOOLS[1] ** -2.0
    mean = (mu * np.exp(-2 * log_tau))[:, None] + SCHOOLS[0] / SCHOOLS[1] ** 2
    theta = mean / precision + rng.normal(size=(600, 8)) / np.sqrt(precision)
    x = np.column_stack([mu, log_tau, theta])
    target = as_target(centred, 10, (SCHOOLS,))
    reparametrisation = fit(*draws_and_gradients(target, x), Parents(scale=(1,), location=(0,)))
    np.testing.assert_allclose(reparametrisation.location[:, 1], 1.0, atol=0.02)
    below, above = slopes(reparametrisation)
    assert below.mean() == pytest.approx(1.07, abs=0.09)  # a straight line below is a bit too steep
    np.testing.assert_allclose(below, 1.0, atol=0.25)
    assert (above < below).all()
    assert (above > 0.4).all()


def test_the_fisher_divergence_is_smallest_where_it_says(seeds):
    """With a location that is known, and little noise: any other slope is worse."""
    x, grad = exact_draws(targets.funnel(4), 300, seeds(132))
    reparametrisation = fit(x, grad, Parents(scale=(0,)))

    def divergence(log_scale):
        other = dataclasses.replace(reparametrisation, log_scale=log_scale)
        z, g = in_coordinates(other, x, grad)
        return np.mean(z[:, 1:] ** 2 + g[:, 1:] ** 2)

    least = divergence(reparametrisation.log_scale)
    for change in (-0.1, 0.1):
        assert divergence(reparametrisation.log_scale * [1.0, 1.0 + change, 1.0]) > least
        assert divergence(reparametrisation.log_scale + [change, 0.0, 0.0]) > least


def test_coefficients_that_are_noise_are_taken_back(seeds):
    rng = np.random.default_rng(seeds(133))
    noise = np.full((40, 3), 0.04)
    coefficients = 0.2 * rng.normal(size=(40, 3)) + [3.0, 0.0, 2.0]
    shrunk = reparametrisation_tuner._shrunk(coefficients, noise)
    assert np.array_equal(shrunk[:, 0], coefficients[:, 0])  # a constant
    assert np.abs(shrunk[:, 1]).mean() < 0.5 * np.abs(coefficients[:, 1]).mean()
    np.testing.assert_allclose(shrunk[:, 2], coefficients[:, 2], rtol=0.02)


# -------------------------------------------------------------------------- the choice


@pytest.mark.parametrize("n", [96, 150, 600])
def test_the_parent_of_a_funnel_is_found(n, seeds):
    x, grad = exact_draws(targets.funnel(10), n, seeds(134, n))
    reparametrisation = choose(x, grad, None, low_rank)
    assert reparametrisation.scale_parents.tolist() == [0]
    assert reparametrisation.location_parents.size == 0


PLAIN = {
    "normal": targets.standard_normal(20),
    "correlated": targets.correlated_gaussian(np.full((8, 8), 0.9) + 0.1 * np.eye(8)),
    "scales": targets.log_gaussian(ndim=20, log_conditioning=6),
    "log_gamma": targets.log_gamma(2.0, 20),
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("n", [48, 300])
def test_there_is_no_reparametrisation_where_no_scale_depends_on_anything(name, n, seeds):
    """A multivariate Student t is none of these: its scales depend on all other dimensions."""
    x, grad = exact_draws(PLAIN[name], n, seeds(135, n, list(PLAIN).index(name)))
    assert choose(x, grad, None, low_rank) is None


def slightly_driven(rows, n, rng):
    """Draws and gradients of heavy tails, whose log scales go up or down by 0.08 with the first
    dimension: what a reparametrisation gains is little in each child.
    """
    df, slope = 8, 0.08 * np.where(np.arange(rows) % 2, 1, -1)
    u, z = rng.normal(size=(n, 1)), rng.standard_t(df, size=(n, rows))
    by_z, scale = -(df + 1) * z / (df + z * z), np.exp(slope * u)
    by_u = -u - ((by_z * z + 1) @ slope)[:, None]
    return np.column_stack([u, z * scale]), np.column_stack([by_u, by_z / scale])


def test_a_small_gain_in_many_children_counts_where_many_draws_tell_it(seeds):
    x, grad = slightly_driven(200, 1600, np.random.default_rng(seeds(140)))
    assert choose(x, grad, None, low_rank).scale_parents.tolist() == [0]


@pytest.mark.parametrize("n", [48, 96])
def test_few_draws_lead_to_no_wrong_parent(n, seeds):
    for k in range(4):
        x, grad = slightly_driven(100, n, np.random.default_rng(seeds(149, n, k)))
        chosen = choose(x, grad, None, low_rank)
        assert chosen is None or chosen.parents == [0]


def test_draws_that_are_not_finite_or_do_not_move_give_no_reparametrisation(seeds):
    x, grad = exact_draws(targets.funnel(5), 60, seeds(136))
    for bad in (np.zeros_like(x), np.full_like(x, 1e100)):
        assert choose(bad, grad, None, low_rank) is None
        assert choose(x, bad, None, low_rank) is None


# --------------------------------------------------------------------------- the whole


def test_a_centred_funnel_is_sampled_as_well_as_a_normal(seeds):
    """Four chains of 1000 draws, each nearly independent, with about one gradient per draw."""
    result = mj.sample(targets.funnel(10), seed=seeds(137), progress=False)
    assert result.stats["n_steps"].mean() < 3
    v = result.draws[:, :, 0]
    assert abs(batch_z(v, 0.0, batches=64)) < 5
    assert abs(batch_z(v**2, 9.0, batches=64)) < 5
    z = result.draws[:, :, 1] * np.exp(-v / 2)
    assert abs(batch_z(z**2, 1.0, batches=64)) < 5


@compile_density
def non_centred(x, grad, y_and_error):
    """The groups of `centred` by x = (mu, log tau, (theta - mu) / tau)."""
    n = x.size - 2
    tau = np.exp(x[1])
    grad[0], grad[1] = -x[0] / 25.0, -x[1] / 4.0
    logp = -0.5 * x[0] * x[0] / 25.0 - 0.5 * x[1] * x[1] / 4.0
    for j in range(n):
        error, z = y_and_error[1, j], x[2 + j]
        off = (y_and_error[0, j] - x[0] - tau * z) / error
        logp -= 0.5 * (z * z + off * off)
        grad[0] += off / error
        grad[1] += off / error * tau * z
        grad[2 + j] = -z + off / error * tau
    return logp


def centred_draws(seed):
    """Of one chain, by the non-centred density."""
    options = {"chains": 1, "draws": 500, "reparametrisation": "none", "progress": False}
    x = mj.sample(non_centred, ndim=10, args=(SCHOOLS,), seed=seed, **options).draws[0].copy()
    x[:, 2:] = x[:, :1] + np.exp(x[:, 1:2]) * x[:, 2:]
    return draws_and_gradients(as_target(centred, 10, (SCHOOLS,)), x)


def test_in_a_funnel_the_location_is_the_mean_of_the_groups(seeds):
    """Nothing less is near enough where the scale is smaller than in any draw."""
    x, grad = centred_draws(seeds(144))
    known = fit(x, grad, Parents(scale=(1,), location=(0,)))
    assert np.abs(known.location[:, 0]).max() > 1e-4
    reparametrisation = choose(x, grad, known, low_rank)
    assert (
        reparametrisation.scale_parents.tolist(),
        reparametrisation.location_parents.tolist(),
    ) == ([1], [0])
    np.testing.assert_allclose(reparametrisation.location, [[0.0, 1.0]] * 8, atol=1e-12)
    deep = np.array([4.0, -12.0, *np.full(8, 4.0)])
    assert np.abs(reparametrisation.to_z(deep)[2:]).max() < 1


def test_in_a_funnel_about_zero_the_location_is_zero(seeds):
    x, grad = exact_draws(targets.funnel(10), 200, seeds(145))
    reparametrisation = choose(x, grad, None, low_rank)
    assert np.abs(reparametrisation.location).max() < 1e-12


def test_a_location_that_is_something_else_is_fitted(seeds):
    x, grad = centred_draws(seeds(146))
    offset = np.linspace(-3, 3, 8)
    x += np.array([0, 0, *offset])
    known = fit(x, grad, Parents(scale=(1,), location=(0,)))
    reparametrisation = choose(x, grad, known, low_rank)
    assert (
        reparametrisation.scale_parents.tolist(),
        reparametrisation.location_parents.tolist(),
    ) == ([1], [0])
    np.testing.assert_allclose(reparametrisation.location[:, 0], offset, atol=0.05)


@pytest.mark.filterwarnings("ignore:.*met a divergence:mjhmc_numba.SamplingWarning")
def test_in_a_deep_funnel_scale_and_location_parent_are_found_together(seeds):
    """Neither brings much without the other. Chains that have both know the whole of log tau."""
    result = mj.sample(centred, ndim=10, args=(SCHOOLS,), seed=seeds(148), progress=False)
    found = [
        t.reparametrisation is not None and t.reparametrisation.parents == [1, 0]
        for t in result.tuned
    ]
    assert sum(found) >= 3
    log_tau = result.draws[found, :, 1]
    assert (effective_size(log_tau[:, :, None])[0] / log_tau.size) > 0.02


def test_a_reparametrisation_that_was_given_makes_groups_about_a_mean_non_centred(seeds):
    """All else is tuned in its coordinates; the draws are those of the centred density."""
    ones, zeros = np.ones(8), np.zeros(8)
    knots = np.array([[-100.0, 0.0, 100.0, 0.1]])
    reparametrisation = Reparametrisation(
        np.arange(2, 10),
        np.array([0]),
        np.column_stack([zeros, ones]),  # mu
        np.array([1]),
        knots,
        np.column_stack([-10.0 * ones, 0.1 * ones, zeros]) + zeros[:, None],  # log tau
        np.zeros((8, 4)),
    )
    offset = reparametrisation.shape(np.zeros(10))[1]
    reparametrisation.log_scale[:, 0] -= offset
    options = {"ndim": 10, "args": (SCHOOLS,), "draws": 4000, "progress": False}
    known = mj.sample(non_centred, seed=seeds(138), reparametrisation="none", **options).draws
    ours = mj.sample(centred, seed=seeds(139), reparametrisation=reparametrisation, **options)
    assert all(t.reparametrisation is reparametrisation for t in ours.tuned)
    theta = known[:, :, :1] + np.exp(known[:, :, 1:2]) * known[:, :, 2:]
    pairs = [(ours.draws[:, :, j], known[:, :, j]) for j in (0, 1)]
    pairs += [(ours.draws[:, :, 2 + j], theta[:, :, j]) for j in range(8)]
    for a, b in pairs:
        for power in (1, 2):
            errors = [np.std(batch_means(v**power, batches=64)) / 8.0 for v in (a, b)]
            gap = np.mean(a**power) - np.mean(b**power)
            assert abs(gap) < 5 * np.hypot(*errors)


def groups_of_which_two_are_far(rng, n=200):
    """Twenty groups about a mean, and data that say little and put two of them far from it."""
    y, sigma = rng.normal(0.0, 1.0, 20), 1.5
    y[:2] = 20.0, -20.0
    mu, log_tau = rng.normal(0.0, 0.5, n), rng.normal(-0.5, 0.5, n)
    precision = np.exp(-2 * log_tau)[:, None] + sigma**-2.0
    mean = ((mu * np.exp(-2 * log_tau))[:, None] + y / sigma**2) / precision
    theta = mean + rng.normal(size=(n, 20)) / np.sqrt(precision)
    data = np.array([y, np.full(20, sigma)])
    x = np.column_stack([mu, log_tau, theta])
    return draws_and_gradients(as_target(centred, 22, (data,)), x)


def test_groups_that_the_data_pull_away_have_the_location_of_the_others(seeds, monkeypatch):
    samples = [groups_of_which_two_are_far(np.random.default_rng(seeds(138, k))) for k in range(20)]
    tied = Parents(scale=(1,), location=(0,), fixed_location=True)

    def locations():
        return np.array([fit(*draws, tied).location[:, 1] for draws in samples])

    np.testing.assert_array_equal(locations(), 1.0)
    monkeypatch.setattr(reparametrisation_tuner._Place, "fix_alike", lambda self, log_scale: None)
    np.testing.assert_array_equal(locations()[:, 2:], 1.0)
    assert (locations()[:, :2] != 1.0).any()


def test_children_whose_scales_vary_otherwise_keep_their_locations():
    basis = reparametrisation_tuner._Basis(np.ones((9, 1)))
    place = reparametrisation_tuner._Place(basis, basis, np.zeros(6, bool))
    place.fixed[:2] = True
    place.location[:2] = [0.0, 1.0]
    place.fix_alike(np.array([[0.0, slope] for slope in (1.0, 0.9, 0.7, 0.3, 0.0, -1.1)]))
    np.testing.assert_array_equal(place.fixed, [True, True, True, False, False, False])
    np.testing.assert_array_equal(place.location[:3], [[0.0, 1.0]] * 3)
    np.testing.assert_array_equal(place.location[3:], 0.0)


def test_of_children_that_are_alike_most_must_be_fixed():
    basis = reparametrisation_tuner._Basis(np.ones((9, 1)))
    place = reparametrisation_tuner._Place(basis, basis, np.zeros(4, bool))
    place.fixed[:2] = True
    place.location[:2] = [0.0, 1.0]
    place.fix_alike(np.ones((4, 2)))
    np.testing.assert_array_equal(place.fixed, [True, True, False, False])


def test_nothing_is_tried_where_a_metric_leaves_little_over(seeds, monkeypatch):
    """A search takes longer than most windows of a cheap density."""
    x = np.random.default_rng(seeds(139)).normal(size=(200, 8))
    x[:, 1] += x[:, 0]
    grad = -x
    grad[:, 1] = -(x[:, 1] - x[:, 0])
    grad[:, 0] += x[:, 1] - x[:, 0]
    monkeypatch.setattr(parents, "fit", None)
    assert choose(x, grad, None, low_rank) is None


@pytest.mark.parametrize("loses", [False, True])
def test_with_a_parent_that_loses_no_other_is_tried(loses, seeds, monkeypatch):
    x, grad = exact_draws(targets.funnel(6), 200, seeds(140))
    choice = parents._Choice(x, grad, diagonal)
    now = parents._Tried(Parents(), None, (x, grad), choice.held_out)
    found = choice._tried(Parents(scale=(0,)))
    if loses:
        found.inner = x, 3.0 * grad
    assert (now.gain(found)[0] < 0) == loses
    tried = []
    monkeypatch.setattr(parents, "fit", lambda *args: tried.append(args[2]) or fit(*args))
    choice._next_two(now, [found], [0, 1])
    assert bool(tried) != loses
