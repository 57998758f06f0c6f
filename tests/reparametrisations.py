"""Reparametrisations for tests, and the densities that they make."""

import numpy as np

from mjhmc_numba.coordinates import Reparametrisation
from mjhmc_numba.targets.distribution import compile_density


def random_reparametrisation(
    ndim, seed=3, children=None, location_parents=1, scale_parents=1, size=0.4
):
    """A reparametrisation far from none: the first dimensions depend on the last."""
    rng = np.random.default_rng(seed)
    parents = np.arange(ndim - location_parents - scale_parents, ndim)
    children = np.arange(parents[0]) if children is None else np.array(children)
    knots = np.column_stack(
        [
            rng.uniform(-4, -2, scale_parents),
            rng.uniform(-0.5, 0.5, scale_parents),
            rng.uniform(2, 4, scale_parents),
            rng.uniform(0.3, 0.8, scale_parents),
        ]
    )
    m = children.size
    return Reparametrisation(
        children,
        parents[:location_parents],
        size * rng.normal(size=(m, 1 + location_parents)),
        parents[location_parents:],
        knots,
        0.5 * size * rng.normal(size=(m, 1 + 2 * scale_parents)),
        size * rng.normal(size=(m, 1 + location_parents + 2 * scale_parents)),
    )


@compile_density
def centred(x, grad, y_and_error):
    """Groups about a mean, centred: x = (mu, log tau, theta); mu and log tau have normal priors."""
    n = x.size - 2
    mu, tau = x[0], np.exp(x[1])
    grad[0], grad[1] = -mu / 25.0, -x[1] / 4.0 - n
    logp = -0.5 * mu * mu / 25.0 - 0.5 * x[1] * x[1] / 4.0 - n * x[1]
    for j in range(n):
        away, error = (x[2 + j] - mu) / tau, y_and_error[1, j]
        off = (y_and_error[0, j] - x[2 + j]) / error
        logp -= 0.5 * (away * away + off * off)
        grad[0] += away / tau
        grad[1] += away * away
        grad[2 + j] = -away / tau + off / error
    return logp


SCHOOLS = np.array(
    [[28.0, 8, -3, 7, -1, 1, 18, 12], [15.0, 10, 16, 11, 9, 11, 10, 18]],
)


def draws_and_gradients(target, draws):
    """The gradients of a target at draws (n, d) of it."""
    return draws, np.array([target.logp_and_grad(x)[1] for x in draws])
