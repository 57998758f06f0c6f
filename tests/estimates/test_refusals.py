"""Where Stein's identity does not hold, nothing is sharpened, and a sentence says why."""

import math

import numpy as np
import pytest

from mjhmc_numba import targets
from mjhmc_numba.estimates import IdentityError, checks, estimate
from mjhmc_numba.estimates.error import standard_error
from tests.estimates.known import TARGETS, exact_chains


def test_a_wall_at_the_mode_is_refused(seeds):
    x = np.abs(np.random.default_rng(seeds(51)).normal(size=(4, 500, 2)))
    with pytest.raises(IdentityError, match=r"mean gradient of a, b is .* standard errors from 0"):
        estimate(x, -x, names=["a", "b"])


def test_a_wall_far_out_is_found_by_the_density(seeds):
    """Cut at -3, the mean gradient is 0.004 from 0: 0.2 standard errors."""

    def density(x):
        inside = x[0] > -3.0
        return (-0.5 * x @ x if inside else -math.inf), -x

    x = np.random.default_rng(seeds(52)).normal(size=(2100, 2))
    x = x[x[:, 0] > -3.0][:2000].reshape(4, 500, 2)
    with pytest.raises(IdentityError, match=r"ends at a wall next to the draws, along x\[0\]"):
        estimate(x, density=density)


def test_a_boundary_where_the_density_vanishes_is_no_wall(seeds):
    """Gamma(8) as it is: x**7 e**-x on x > 0."""

    def density(x):
        if x[0] <= 0:
            return -math.inf, np.zeros(1)
        return 7 * math.log(x[0]) - x[0], 7 / x - 1

    x = np.random.default_rng(seeds(53)).gamma(8.0, size=(4, 500, 1))
    found = estimate(x, density=density)
    assert abs(found.mean[0] - 8) < 5 * found.mcse_mean[0]
    assert found.gain[0] > 5


def test_a_flat_density_between_walls_is_refused(seeds):
    x = np.random.default_rng(seeds(54)).random(size=(4, 500, 2))
    with pytest.raises(IdentityError, match=r"gradient of x\[0\], x\[1\] does not vary"):
        estimate(x, np.zeros_like(x))


def test_a_slope_that_ends_at_walls_is_refused(seeds):
    """exp(x) on [0, 1]: the gradient is 1 everywhere."""
    x = np.log1p((math.e - 1) * np.random.default_rng(seeds(55)).random(size=(4, 500, 1)))
    with pytest.raises(IdentityError, match="does not vary"):
        estimate(x, np.ones_like(x))


def test_a_symmetric_density_between_walls_is_refused(seeds):
    """A normal cut at both sides: the mean gradient is 0 by symmetry, that of 1 + y u is not."""
    x = np.random.default_rng(seeds(56)).normal(size=(4000, 1))
    x = x[np.abs(x[:, 0]) < 1.0][:2000].reshape(4, 500, 1)
    with pytest.raises(IdentityError, match="standard errors from 0"):
        estimate(x, -x)


def test_draws_of_another_density_are_refused(seeds):
    x = np.random.default_rng(seeds(57)).normal(size=(4, 500, 3)) + 0.5
    with pytest.raises(IdentityError, match="have not converged"):
        estimate(x, -x)


def test_plain_averages_are_returned_with_the_sentence_on_request(seeds):
    x = np.abs(np.random.default_rng(seeds(58)).normal(size=(4, 500, 2)))
    found = estimate(x, -x, if_refused="plain")
    assert "standard errors from 0" in found.refused
    np.testing.assert_allclose(found.mean, x.mean(axis=(0, 1)))
    np.testing.assert_array_equal(found.gain, 1.0)
    assert found.refused in repr(found)


def test_heavy_tails_have_no_error(seeds):
    target = targets.student_t(1.0, 2)  # Cauchy: no mean
    x, g = exact_chains(target, np.random.default_rng(seeds(59)), 4, 1000)
    found = estimate(x, g, if_refused="plain")
    assert np.isnan(found.mcse_mean).all()
    np.testing.assert_array_equal(found.gain, 1.0)
    assert "tails are so heavy" in found.notes["x[0]"]


@pytest.mark.parametrize("name", TARGETS)
def test_sound_draws_are_not_refused(name, seeds):
    for k in range(5):
        rng = np.random.default_rng(seeds(60, k))
        target = TARGETS[name]()
        x, g = exact_chains(target, rng, 4, 300, stay=0.2 * k)
        assert estimate(x, g, density=target, if_refused="plain").refused == ""


def test_a_bound_on_the_z_score_refuses_what_the_score_itself_does(seeds):
    rng = np.random.default_rng(seeds(60))
    values = rng.normal(size=(4, 300, 60)) + np.linspace(0.0, 0.4, 60)
    for t in range(1, 300):  # half of them in slow chains
        values[:, t, ::2] = 0.9 * values[:, t - 1, ::2] + 0.1 * values[:, t, ::2]
    error, _ = standard_error(values)
    exact = np.abs(values.mean(axis=(0, 1))) / error
    for limit in (2.0, 6.0):
        found = checks.z_scores(values, limit)
        np.testing.assert_array_equal(found > limit, exact > limit)
        assert 0 < (exact > limit).sum() < 60
        np.testing.assert_allclose(found[found > limit], exact[exact > limit])
