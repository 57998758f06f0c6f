"""Small models that between them meet every kind of variable and data.

Matrix products are left out: they take longest to compile, and are PyTensor's to test.
"""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.raise_op import Assert


def gaussian():
    """A correlated pair and a scale, beside a matrix: (x, s) with known moments."""
    with pm.Model(coords={"side": ["left", "right"]}) as model:
        x = pm.Normal("x", [1.0, -2.0], [1.0, 0.5], dims="side")
        pm.Normal("m", x[0], 1.0, shape=(2, 2))
        pm.Deterministic("twice", 2 * x, dims="side")
    return model


def wall():
    """A normal distribution cut off where its density is largest: steps leave the support."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, initval=1.0)
        pm.Potential("wall", pm.math.switch(x > 0, 0.0, -np.inf))
    return model


def funnel():
    """Neal's funnel, centred: the scale of x is exp(v / 2)."""
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        pm.Normal("x", 0, pm.math.exp(v / 2), shape=9)
    return model


def regression():
    """Regression on a matrix and a number that can be changed."""
    rng = np.random.default_rng(1)
    with pm.Model(coords={"column": ["a", "b", "c"]}) as model:
        x = pm.Data("x", rng.normal(size=(40, 3)))
        width = pm.Data("width", 2.0)
        beta = pm.Normal("beta", 0, width, dims="column")
        sigma = pm.HalfNormal("sigma", 1)
        mu = pm.Deterministic("mu", (x * beta).sum(axis=1))
        pm.Normal("y", mu, sigma, observed=pm.Data("seen", rng.normal(size=40)))
    return model


def constrained():
    """An ordered vector, a simplex, an interval, and a potential."""
    with pm.Model() as model:
        ordered = pm.distributions.transforms.ordered
        pm.Normal("o", 0, 1, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
        w = pm.Dirichlet("w", np.ones(3))
        u = pm.Uniform("u", -1, 2)
        pm.Potential("tilt", w[0] * u)
        pm.Deterministic("half", w / 2)
        pm.Deterministic("above", w > u)
        pm.Deterministic("count", (w > u).sum())
        pm.Deterministic("fixed", pt.as_tensor([1.0, 2.0]))
    return model


def cholesky():
    """A covariance matrix by its Cholesky factor, and a custom distribution."""

    def logp(value, scale):
        return -pt.log(pt.cosh(value / scale)) - pt.log(np.pi * scale)

    with pm.Model() as model:
        sd = pm.Exponential.dist(1.0)
        pm.LKJCholeskyCov("c", n=2, eta=2.0, sd_dist=sd, compute_corr=False)
        pm.CustomDist("s", 1.5, logp=logp, initval=0.3)
    return model


def mixed():
    """Continuous variables next to discrete ones that another step method moves."""
    with pm.Model() as model:
        k = pm.Bernoulli("k", 0.4)
        z = pm.Categorical("z", [0.2, 0.3, 0.5], shape=5)
        a = pm.Normal("a", 2.0 * k, 1)
        b = pm.Normal("b", a + pt.as_tensor([-1.0, 0.0, 1.0])[z], 0.5, shape=5)
        pm.Normal("y", b, 1, observed=np.arange(5.0))
    return model


def large_data(shift=0.0):
    """Enough observations that they are no constants of the machine code."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=np.linspace(-1, 1, 500) + shift)
    return model


def asserting():
    """A density that raises an AssertionError for x > 3."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("p", -0.1 * Assert("x must be small")(x, pt.le(x, 3.0)))
    return model


class Halved(Op):
    """x / 2 in Python alone; raises for x > 5."""

    __props__ = ()

    def make_node(self, x):
        x = pt.as_tensor(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        if np.any(inputs[0] > 5):
            raise ArithmeticError("more than five")
        outputs[0][0] = np.asarray(inputs[0] / 2)

    def pullback(self, inputs, outputs, cotangents):
        return [cotangents[0] / 2]

    if not hasattr(Op, "pullback"):  # PyTensor 2
        L_op = pullback


def in_python():
    """A model with an operation that has no native code."""
    with pm.Model() as model:
        scale = pm.Data("scale", 1.0)
        x = pm.Normal("x", 0, scale, shape=2)
        pm.Potential("p", -pt.sum(Halved()(x) ** 2))
        pm.Deterministic("h", Halved()(x))
    return model


def looping():
    """A Deterministic that is computed by a loop."""
    with pm.Model() as model:
        rho = pm.Uniform("rho", 0, 1)
        noise = pm.Normal("noise", 0, 1, shape=6)
        path = pytensor.scan(
            lambda e, last, r: r * last + e,
            sequences=[noise],
            outputs_info=[pt.as_tensor(0.0, dtype="float64")],
            non_sequences=[rho],
            return_updates=False,
        )
        pm.Deterministic("path", path)
    return model


ORDINARY = {f.__name__: f for f in (regression, constrained, cholesky, mixed, large_data)}
