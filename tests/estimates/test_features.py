import numpy as np
import pytest

from mjhmc_numba.estimates.features import Whitening, monomials, stein_features
from tests.estimates.known import COVARIANCE, TARGETS, exact_chains
from tests.statistical.estimates import batch_z


def laplacian_and_slope(f, y, u, h=1e-3):
    """Delta f + grad f . u at one point, by finite differences."""
    steps = h * np.eye(y.size)
    ahead = np.array([f(y + s) for s in steps])
    behind = np.array([f(y - s) for s in steps])
    return np.sum(ahead + behind - 2 * f(y)) / h**2 + (ahead - behind) @ u / (2 * h)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_features_are_the_stein_operator_applied_to_monomials(degree):
    rng = np.random.default_rng(degree)
    y, u = rng.normal(size=(2, 3, 4))
    terms = monomials(3, degree)
    features = stein_features(y, u, terms)
    assert features.shape == (len(terms), 4)
    for row, term in zip(features, terms, strict=True):
        for k in range(4):
            expected = laplacian_and_slope(lambda p, t=term: np.prod(p[t]), y[:, k], u[:, k])
            assert row[k] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_all_monomials_of_a_degree_are_there_once():
    assert [len(monomials(5, degree)) for degree in (1, 2, 3)] == [5, 15, 35]
    assert len(np.unique(monomials(5, 3), axis=0)) == 35


@pytest.mark.parametrize("name", ["log_gamma_3", "two_modes", "banana"])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_features_have_mean_zero(name, degree, seeds):
    target = TARGETS[name]()
    x, g = exact_chains(target, np.random.default_rng(seeds(1, degree)), 1, 40_000)
    y, u = Whitening.fit(x[0], g[0]).apply(x[0], g[0])
    features = stein_features(y.T, u.T, monomials(target.ndim, degree))
    assert max(abs(batch_z(row, 0.0)) for row in features) < 5


def test_on_a_gaussian_the_whitened_gradient_is_minus_the_draw(seeds):
    target = TARGETS["correlated_gaussian"]()
    x, g = (a[0] for a in exact_chains(target, np.random.default_rng(seeds(2)), 1, 500))
    whitening = Whitening.fit(x, g)
    y, u = whitening.apply(x, g)
    offset = (y + u).mean(axis=0)
    # Up to the ridge, which is a hundredth of the share of noise.
    np.testing.assert_allclose(y + u, np.broadcast_to(offset, y.shape), atol=0.02)
    root = whitening.inverse * whitening.scale
    np.testing.assert_allclose(root.T @ root, COVARIANCE, rtol=0.02, atol=0.01)


@pytest.mark.parametrize("name", ["correlated_gaussian", "log_gamma_40"])
def test_unwhitening_is_the_inverse_and_has_the_stated_volume(name, seeds):
    x, g = (a[0] for a in exact_chains(TARGETS[name](), np.random.default_rng(seeds(3)), 1, 300))
    whitening = Whitening.fit(x, g)
    y, _ = whitening.apply(x, g)
    np.testing.assert_allclose(whitening.unwhiten(y), x, rtol=1e-9, atol=1e-9)
    jacobian = whitening.unwhiten(np.eye(x.shape[1])) - whitening.unwhiten(np.zeros(x.shape[1]))
    assert whitening.log_volume() == pytest.approx(np.linalg.slogdet(jacobian)[1])
