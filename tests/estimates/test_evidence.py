import math

import numpy as np
import pytest

from mjhmc_numba import Reparametrisation, targets
from mjhmc_numba.estimates import OverlapError, evaluate, log_marginal_likelihood
from tests.estimates.known import COVARIANCE, TARGETS, exact_chains


def log_integral_on_grid(target, reach, n=201):
    """Of a density in two dimensions, exponentially accurate where it vanishes at the edge."""
    side = np.linspace(-reach, reach, n)
    points = np.stack(np.meshgrid(side, side), axis=-1)
    logp, _ = evaluate(target, points)
    return math.log(np.exp(logp).sum()) + 2 * math.log(side[1] - side[0])


def known_evidence(name):
    target = TARGETS[name]()
    if name == "correlated_gaussian":
        return target, 3 * math.log(2 * math.pi) + np.linalg.slogdet(COVARIANCE)[1] / 2
    if name.startswith("log_gamma"):
        return target, sum(math.lgamma(a) for a in target.args[0])
    if name == "banana":
        return target, math.log(2 * math.pi)
    return target, log_integral_on_grid(target, 8.0)


@pytest.mark.parametrize(
    "name", ["correlated_gaussian", "log_gamma_3", "log_gamma_10", "banana", "two_modes"]
)
@pytest.mark.parametrize("stay", [0.0, 0.6])
def test_the_integral_is_known_to_its_error(name, stay, seeds):
    target, exact = known_evidence(name)
    x, g = exact_chains(target, np.random.default_rng(seeds(81)), 4, 400, stay)
    found = log_marginal_likelihood(x, target, grads=g, seed=seeds(82))
    assert abs(found.log_evidence - exact) < 5 * found.error
    assert found.error < 0.1


def test_errors_are_honest(seeds):
    """60 intervals of 2 errors; a share of 95 % is known to 0.03."""
    target, exact = known_evidence("log_gamma_3")
    covered = []
    for k in range(60):
        x, g = exact_chains(target, np.random.default_rng(seeds(83, k)), 4, 200, 0.5 * (k % 2))
        found = log_marginal_likelihood(x, target, grads=g, seed=seeds(84, k))
        covered.append(abs(found.log_evidence - exact) < 1.96 * found.error)
    assert np.mean(covered) > 0.95 - 4 * 0.03


def test_a_conjugate_model_has_its_evidence(seeds):
    """y | m ~ N(m, 1), m ~ N(0, 2**2): y is N(0, 1 + 4 J)."""
    y = np.array([0.3, -1.2, 2.0, 0.8])
    precision = len(y) + 0.25

    def density(m):
        log_prior = -0.5 * (m[0] / 2) ** 2 - math.log(2) - 0.5 * math.log(2 * math.pi)
        log_likelihood = -0.5 * np.sum((y - m[0]) ** 2) - 2 * math.log(2 * math.pi)
        return log_prior + log_likelihood, np.array([np.sum(y - m[0]) - m[0] / 4])

    covariance = np.eye(4) + 4.0
    exact = -0.5 * y @ np.linalg.solve(covariance, y) - 0.5 * np.linalg.slogdet(covariance)[1]
    exact -= 2 * math.log(2 * math.pi)
    x = y.sum() / precision + np.random.default_rng(seeds(85)).normal(size=(4, 200, 1)) / math.sqrt(
        precision
    )
    found = log_marginal_likelihood(x, density, seed=seeds(86))
    assert found.log_evidence == pytest.approx(exact, abs=max(5 * found.error, 1e-9))
    assert found.error < 1e-2
    assert "overlap 1" in repr(found)


def test_in_better_coordinates_the_error_is_smaller(seeds):
    target = targets.funnel(10, 2.0)
    exact = math.log(2 * math.sqrt(2 * math.pi)) + 4.5 * math.log(2 * math.pi)
    x, g = exact_chains(target, np.random.default_rng(seeds(87)), 4, 400)
    non_centred = Reparametrisation(
        children=np.arange(1, 10),
        location_parents=np.zeros(0, np.int64),
        location=np.zeros((9, 1)),
        scale_parents=np.array([0]),
        knots=np.array([[-40.0, 0.0, 40.0, 1.0]]),
        log_scale=np.tile([0.0, 0.5, 0.0], (9, 1)),
        shift=np.zeros((9, 3)),
    )
    found = log_marginal_likelihood(
        x, target, grads=g, reparametrisation=non_centred, seed=seeds(88)
    )
    assert abs(found.log_evidence - exact) < 5 * found.error
    assert found.overlap > 0.95


def test_where_the_proposal_does_not_overlap_it_is_refused(seeds):
    """A deep funnel in many dimensions: a Gaussian over it is nearly nowhere."""
    target = targets.funnel(80, 4.0)
    x, g = exact_chains(target, np.random.default_rng(seeds(90)), 4, 300)
    with pytest.raises(OverlapError, match="too little to know"):
        log_marginal_likelihood(x, target, grads=g, seed=seeds(91))
