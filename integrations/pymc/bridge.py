"""A density of ours in the hands of PyMC's NUTS and of nutpie, through Python."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from mjhmc_numba.density import Target

__all__ = ["TargetOp", "model_of", "nutpie_model_of"]


class TargetOp(Op):
    """x -> (log density, its gradient)."""

    def __init__(self, target: Target):
        self.target = target

    def make_node(self, x):
        x = pt.as_tensor_variable(x)
        return Apply(self, [x], [pt.dscalar(), pt.dvector()])

    def perform(self, node, inputs, outputs):
        """Call the density."""
        logp, grad = self.target.logp_and_grad(inputs[0])
        outputs[0][0], outputs[1][0] = np.asarray(logp), grad

    def pullback(self, inputs, outputs, cotangents):
        """Of the log density; its second output is no function to be differentiated."""
        return [cotangents[0] * outputs[1]]

    if not hasattr(Op, "pullback"):  # PyTensor 2

        def L_op(self, inputs, outputs, cotangents):
            return self.pullback(inputs, outputs, cotangents)


def model_of(target: Target) -> pm.Model:
    """A PyMC model of one vector x."""
    with pm.Model() as model:
        x = pm.Flat("x", shape=target.ndim, initval=np.zeros(target.ndim))
        pm.Potential("density", TargetOp(target)(x)[0])
    return model


def nutpie_model_of(target: Target):
    """A model of one vector x for nutpie."""
    from nutpie.compiled_pyfunc import from_pyfunc

    def make_logp():
        return lambda x: target.logp_and_grad(x)

    def make_expand(*seeds):
        return lambda x: {"x": np.array(x)}

    return from_pyfunc(
        target.ndim,
        make_logp,
        make_expand,
        [np.dtype(float)],
        [(target.ndim,)],
        ["x"],
    )
