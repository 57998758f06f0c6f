import numpy as np
import pytest

from mjhmc_numba.estimates.features import Whitening
from mjhmc_numba.estimates.fit import better_system, deal_folds, residuals
from mjhmc_numba.estimates.regression import Moments, solve
from tests.estimates.known import TARGETS, exact_chains


@pytest.mark.parametrize("chains", [1, 2, 3, 4, 5, 9])
def test_folds_are_whole_chains_or_whole_blocks_of_chains(chains):
    fold = deal_folds(chains, 100)
    assert fold.shape == (chains, 100)
    assert len(np.unique(fold)) >= 4
    if chains >= 4:
        assert (fold == fold[:, :1]).all()
    else:
        assert (np.diff(fold, axis=1) >= 0).all()
        assert not set(fold[0]) & set(fold[1:].ravel())
    assert np.unique(fold, return_counts=True)[1].min() >= 25


def whitened(name, seed, draws=400):
    x, g = exact_chains(TARGETS[name](), np.random.default_rng(seed), 4, draws)
    x, g = x.reshape(-1, x.shape[2]), g.reshape(-1, x.shape[2])
    y, u = Whitening.fit(x, g).apply(x, g)
    f = (x - x.mean(axis=0)) / x.std(axis=0)
    return y, u, np.concatenate([f, f**2 - 1], axis=1), deal_folds(4, draws).ravel()


@pytest.mark.parametrize("name", ["log_gamma_3", "log_gamma_40"])
def test_coefficients_do_not_know_the_fold_that_they_are_applied_to(name, seeds):
    y, u, f, fold = whitened(name, seeds(11))
    other = f.copy()
    mine = fold == 2
    other[mine] = np.random.default_rng(1).normal(size=other[mine].shape)
    taken_off = (f - residuals(y, u, f.copy(), fold))[mine]
    again = (other - residuals(y, u, other.copy(), fold))[mine]
    np.testing.assert_allclose(again, taken_off, rtol=0, atol=1e-12)
    assert np.abs(taken_off).max() > 0.1


@pytest.mark.parametrize("name", ["log_gamma_3", "log_gamma_40"])
def test_what_is_left_varies_less(name, seeds):
    y, u, f, fold = whitened(name, seeds(12))
    left = residuals(y, u, f.copy(), fold)
    d = y.shape[1]
    share = left.var(axis=0) / f.var(axis=0)
    assert np.median(share[:d]) < 0.1
    assert np.median(share[d:]) < 0.6


def test_of_noise_nothing_is_explained(seeds):
    y, u, f, fold = whitened("log_gamma_3", seeds(13), draws=1000)
    noise = np.random.default_rng(seeds(14)).normal(size=(len(f), 20))
    left = residuals(y, u, noise.copy(), fold)
    assert abs(left.var(axis=0) / noise.var(axis=0) - 1).max() < 0.03


@pytest.mark.parametrize("d", [3, 30])
def test_a_function_in_the_span_of_the_features_is_explained_wholly(d, seeds):
    rng = np.random.default_rng(seeds(15, d))
    y = rng.normal(size=(4000, d))
    u = -y
    f = np.stack([y[:, 0] + 0.5 * y[:, 1], y[:, 2] ** 2 - 1], axis=1)
    left = residuals(y, u, f.copy(), deal_folds(4, 1000).ravel())
    assert left.std(axis=0).max() < (1e-8 if d == 3 else 0.03)


def test_with_more_dimensions_than_a_regression_takes_functions_find_their_own(seeds):
    rng = np.random.default_rng(seeds(16))
    y = rng.normal(size=(1200, 300))
    f = np.concatenate([y, y**2 - 1], axis=1)
    left = residuals(y, -y, f.copy(), deal_folds(4, 300).ravel())
    share = left.var(axis=0) / f.var(axis=0)
    assert np.median(share[:300]) < 1e-3
    assert np.max(share) < 1.05


def test_a_fold_is_taken_out_of_a_sum_without_its_draws(seeds):
    rng = np.random.default_rng(seeds(17))
    folds = [Moments.of(rng.normal(size=(6, n)), rng.normal(size=(3, n))) for n in (50, 80, 70)]
    rest = Moments.sum(folds).without(folds[1])
    for one, other in zip(rest, Moments.sum([folds[0], folds[2]]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_some_functions_and_features_are_solved_alone_as_among_others(seeds):
    rng = np.random.default_rng(seeds(18))
    phi = np.concatenate([rng.normal(size=(6, 90)), np.zeros((1, 90))])  # one that is always 0
    moments = Moments.of(phi, rng.normal(size=(4, 90)))
    chosen = np.array([True, False, True, False])
    whole = solve(moments, 7, 0.01)
    np.testing.assert_allclose(solve(moments, 7, 0.01, chosen), whole[:, chosen])
    np.testing.assert_allclose(solve(moments, 6, 0.01), whole[:6])
    assert (whole[6] == 0).all()


@pytest.mark.parametrize("name", ["log_gamma_3", "log_gamma_40"])
def test_the_coordinates_that_leave_less_are_taken_and_the_first_of_equals(name, seeds):
    y, u, f, fold = whitened(name, seeds(19))
    good, bad = (y, u), (y, np.random.default_rng(seeds(20)).normal(size=u.shape))
    assert better_system([bad, good], f, fold) is good
    assert better_system([good, bad], f, fold) is good
    same = (y.copy(), u.copy())
    assert better_system([good, same], f, fold) is good
