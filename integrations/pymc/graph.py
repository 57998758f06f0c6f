"""The log density of a model, and what is stored of a draw, as pure graphs.

A pure graph has one float64 vector x and a list of arrays as its only inputs. The arrays are what
the model keeps outside: `pm.Data`, lengths of mutable dimensions, and the variables that other
step methods move. They are inputs and not constants, so they change without recompilation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytensor.tensor as pt
from pymc.logprob.utils import CheckParameterValue
from pymc.pytensorf import compile as pymc_compile
from pymc.pytensorf import rewrite_pregrad
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import NullTypeGradError
from pytensor.graph import clone_replace
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.random.type import RandomType

from mjhmc_numba.pymc.errors import MissingGradientError, RandomDensityError
from mjhmc_numba.pymc.layout import Layout

__all__ = [
    "PureGraph",
    "custom_ops",
    "density_graph",
    "expansion_graph",
    "rejects_by_raising",
    "shared_variables",
]

# Who writes operations whose gradients are tested.
TRUSTED_PACKAGES = ("pytensor", "pymc")

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
    grads = _gradients(logp, value_vars)
    grad = pt.concatenate([_tensor(g).ravel().astype("float64") for g in grads])
    return _purify(model, [_tensor(logp).astype("float64"), grad], value_vars, layout)


def _gradients(logp, value_vars: Sequence) -> list:
    try:
        return pt.grad(logp, list(value_vars), disconnected_inputs="ignore")
    except (NotImplementedError, NullTypeGradError) as error:
        raise MissingGradientError(
            f"{_op_that_failed(error)} of the model has no gradient ({error}), so no sampler that "
            "follows gradients applies. Give it one, write it in terms of other operations, or "
            "sample the variables that it depends on by pm.Slice or pm.DEMetropolisZ."
        ) from error


def _op_that_failed(error: Exception) -> str:
    """The operation whose gradient PyTensor was asking for, if it was one at a time."""
    name, trace = "An operation", error.__traceback__
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        node = frame.f_locals.get("node")
        if frame.f_globals.get("__name__") == "pytensor.gradient" and node is not None:
            name = f"The operation {node.op}"
    return name


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
    return any(
        (isinstance(op, CheckAndRaise) and not isinstance(op, CheckParameterValue))
        or type(op).__module__.startswith(MATRIX_ROOMS)
        for op in _operations(outputs)
    )


def custom_ops(outputs: Sequence) -> list[str]:
    """Operations that come neither with PyTensor nor with PyMC, and so with gradients of their
    authors.
    """
    return sorted(
        {
            str(op)
            for op in _operations(outputs)
            if type(op).__module__.partition(".")[0] not in TRUSTED_PACKAGES
        }
    )


def _operations(outputs: Sequence) -> Iterator[Any]:
    """All operations of a graph and of graphs within it; those over a batch are their core."""
    for node in {v.owner for v in ancestors(outputs) if v.owner is not None}:
        core = node.op.core_op if isinstance(node.op, Blockwise) else node.op
        yield core
        if isinstance(core, HasInnerGraph):
            yield from _operations(core.inner_outputs)


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
