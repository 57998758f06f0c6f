import numpy as np
import pytest
from numba import njit

from mjhmc_numba import as_target
from mjhmc_numba.estimates import EstimateError, evaluate
from tests.estimates.known import TARGETS


@pytest.mark.parametrize("cores", [1, 3])
def test_many_points_have_the_densities_and_gradients_of_each(cores, seeds):
    target = TARGETS["log_gamma_10"]()
    x = target.draw(np.random.default_rng(seeds(61)), 1200).reshape(3, 400, 10)
    logp, grad = evaluate(target, x, cores)
    for at in ((0, 0), (1, 399), (2, 17)):
        one_logp, one_grad = target.logp_and_grad(x[at])
        assert logp[at] == pytest.approx(one_logp, rel=1e-13)
        np.testing.assert_allclose(grad[at], one_grad, rtol=1e-13)


def test_a_function_of_python_will_do():
    logp, grad = evaluate(lambda x: (-0.5 * x @ x, -x), np.ones((5, 2)))
    np.testing.assert_array_equal(logp, -1.0)
    np.testing.assert_array_equal(grad, -1.0)


def test_outside_the_support_the_log_density_is_minus_infinity():
    @njit
    def half(x, grad):
        grad[0] = -1.0
        return -x[0] if x[0] > 0 else np.nan

    logp, _ = evaluate(as_target(half, 1), np.array([[1.0], [-1.0]]))
    np.testing.assert_array_equal(logp, [-1.0, -np.inf])


@njit
def fussy(x, grad):
    grad[0] = -x[0]
    if x[0] > 3:
        raise ValueError("more than three")
    return -0.5 * x[0] ** 2


@pytest.mark.parametrize("cores", [1, 2])
def test_what_the_density_raises_is_raised(cores):
    points = np.zeros((1000, 1))
    points[700] = 4.0
    with pytest.raises(ValueError, match="more than three"):
        evaluate(as_target(fussy, 1), points, cores)


def test_the_dimensions_must_agree():
    with pytest.raises(EstimateError, match="has 3 dimensions, the draws 2"):
        evaluate(TARGETS["log_gamma_3"](), np.zeros((4, 2)))
