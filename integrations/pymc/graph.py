"""The log density of a model, and what is stored of a draw, as pure graphs.

A pure graph has one float64 vector x and a list of arrays as its only inputs. The arrays are what
the model keeps outside: `pm.Data`, lengths of mutable dimensions, and the variables that other
step methods move. They are inputs and not constants, so they change without recompilation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytensor.tensor as pt
from pymc.logprob.utils import CheckParameterValue
from pymc.pytensorf import compile as pymc_compile
from pymc.pytensorf import rewrite_pregrad
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph import clone_replace
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.random.type import RandomType

from mjhmc_numba.pymc.errors import RandomDensityError
from mjhmc_numba.pymc.layout import Layout

__all__ = [
    "PureGraph",
    "density_graph",
    "expansion_graph",
    "rejects_by_raising",
    "shared_variables",
]

# Where PyTensor keeps what fails on a matrix that is not positive definite or singular.
MATRIX_ROOMS = ("pytensor.tensor.slinalg", "pytensor.tensor.nlinalg", "pytensor.tensor.linalg")


@dataclass
class PureGraph:
    """Outputs as a function of x and arrays.

    Attributes
    ----------
    x : TensorVariable
        The float64 vector.
    arrays : list of TensorVariable
        One input variable for each array.
    sources : list of shared variable or str
        Where each array comes from: a shared variable, or the name of a value variable.
    outputs : list of TensorVariable
        What is computed.
    """

    x: Any
    arrays: list
    sources: list
    outputs: list

    def compile(self, model, **kwargs):
        """PyTensor's own compiled function of (x, *arrays)."""
        kwargs.setdefault("mode", "NUMBA")
        with model:
            return pymc_compile(
                [self.x, *self.arrays], self.outputs, on_unused_input="ignore", **kwargs
            )


def density_graph(model, value_vars: Sequence, layout: Layout) -> PureGraph:
    """Log density and gradient with respect to the raveled `value_vars`."""
    logp = rewrite_pregrad(model.logp())
    grads = pt.grad(logp, list(value_vars), disconnected_inputs="ignore")
    grad = pt.concatenate([_tensor(g).ravel().astype("float64") for g in grads])
    return _purify(model, [_tensor(logp).astype("float64"), grad], value_vars, layout)


def expansion_graph(model, value_vars: Sequence, layout: Layout, outputs: Sequence) -> PureGraph:
    """`outputs`, each a function of value variables, as functions of the raveled vector."""
    return _purify(model, [_tensor(out) for out in outputs], value_vars, layout)


def shared_variables(model) -> list[SharedVariable]:
    """All that a model keeps outside of its graph: data, lengths of dimensions, what a user shares.

    The states of random generators are left out.
    """
    terms = [*model.basic_RVs, *model.potentials, *model.deterministics]
    values = [model.rvs_to_values[rv] for rv in model.basic_RVs]
    lengths = [v for v in model.dim_lengths.values() if v is not None]
    found = graph_inputs([*terms, *values, *model.data_vars, *lengths])
    return [
        v
        for v in dict.fromkeys(found)
        if isinstance(v, SharedVariable) and not isinstance(v.type, RandomType)
    ]


def rejects_by_raising(outputs: Sequence) -> bool:
    """Whether an exception of this graph means an impossible point rather than a mistake.

    Assertions and decompositions of matrices raise where the density is zero or not defined.
    To be asked before PyTensor rewrites the graph, as it adds assertions about shapes. PyMC's
    own checks of parameters become -inf and never raise.
    """
    for node in {v.owner for v in ancestors(outputs) if v.owner is not None}:
        core = node.op.core_op if isinstance(node.op, Blockwise) else node.op
        if isinstance(core, CheckAndRaise) and not isinstance(core, CheckParameterValue):
            return True
        if type(core).__module__.startswith(MATRIX_ROOMS):
            return True
        if isinstance(core, HasInnerGraph) and rejects_by_raising(core.inner_outputs):
            return True
    return False


def _tensor(variable):
    return pt.as_tensor(variable, allow_xtensor_conversion=True)


def _purify(model, outputs, value_vars, layout) -> PureGraph:
    inputs = list(graph_inputs(outputs))
    shared = [v for v in inputs if isinstance(v, SharedVariable)]
    if any(isinstance(v.type, RandomType) for v in shared):
        raise RandomDensityError(
            "The log density of this model draws random numbers (a minibatch or a simulator), so "
            "no exact sampler that follows gradients applies. Give it all data, or a density."
        )
    ours = set(value_vars)
    others = [v for v in model.value_vars if v in inputs and v not in ours]
    x = pt.TensorType("float64", shape=(layout.ndim,))("x")
    replace = {v: v.type(name=v.name) for v in shared}
    for v, shape, part in zip(value_vars, layout.shapes, layout.slices, strict=True):
        replace[v] = v.type.filter_variable(x[part].reshape(shape).astype(v.dtype))
    pure = clone_replace(outputs, replace, rebuild_strict=False)
    return PureGraph(
        x,
        [replace[v] for v in shared] + others,
        shared + [v.name for v in others],
        pure,
    )
