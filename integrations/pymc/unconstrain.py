"""From the variables of a posterior back to the vector that the density takes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.transforms import LogTransform
from pytensor.compile.mode import Mode
from pytensor.graph import clone_replace

from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.errors import ExpansionError, UnknownVariableError
from mjhmc_numba.pymc.expand import make_runner
from mjhmc_numba.pymc.graph import expansion_graph
from mjhmc_numba.pymc.layout import Layout

__all__ = ["unconstrain"]

AS_IT_IS = Mode(linker="py", optimizer=None)


def unconstrain(density: ModelDensity, posterior: Mapping[str, np.ndarray]) -> np.ndarray:
    """Draws (chain, draw, d) of the raveled value variables.

    Parameters
    ----------
    density : ModelDensity
        Of all free variables of the model.
    posterior : mapping of str to array
        Free variables by name, each (chain, draw, ...), as any sampler stores them. A value
        variable (``sigma_log__``) is used as it is; without it, PyMC's transform makes it
        of its variable and of those that its bounds depend on.
    """
    model, layout = density.model, density.layout
    variables = {model.rvs_to_values[rv].name: rv for rv in model.free_RVs}
    missing = [name for name in layout.names if name not in posterior]
    absent = [variables[name].name for name in missing if variables[name].name not in posterior]
    if absent:
        raise UnknownVariableError(
            f"The posterior lacks {', '.join(absent)}: all free variables of the model are needed."
        )
    values = {
        name: np.asarray(posterior[name], float) for name in layout.names if name in posterior
    }
    values |= _value_variables(density, posterior, [variables[name] for name in missing])
    shape = next(iter(values.values())).shape[:2]
    draws = np.empty((*shape, layout.ndim))
    for name, part, inner in zip(layout.names, layout.slices, layout.shapes, strict=True):
        if values[name].shape != (*shape, *inner):
            raise ExpansionError(
                f"{name} has shape {values[name].shape[2:]} in each draw, but {inner} in the model."
            )
        draws[:, :, part] = values[name].reshape(*shape, -1)
        if not np.isfinite(draws[:, :, part]).all():
            raise ExpansionError(
                f"Some draws of {variables[name].name} lie on the bounds of its support, where "
                "rounding took them, so they cannot be transformed back. Sample with "
                'idata_kwargs={"include_transformed": True}.'
            )
    return draws


def _value_variables(density: ModelDensity, posterior, wanted: list) -> dict[str, np.ndarray]:
    """Value variables (chain, draw, ...) by name, from the variables that they transform."""
    model = density.model
    values, rest = {}, []
    for rv in wanted:
        if type(model.rvs_to_transforms[rv]) is LogTransform:  # needs no graph
            with np.errstate(all="ignore"):
                values[model.rvs_to_values[rv].name] = np.log(np.asarray(posterior[rv.name]))
        else:
            rest.append(rv)
    return values | (_transformed(density, posterior, rest) if rest else {})


def _transformed(density: ModelDensity, posterior, wanted: list) -> dict[str, np.ndarray]:
    """The same through PyTensor, for any transform."""
    model = density.model
    outputs = [
        model.rvs_to_transforms[rv].forward(rv, *rv.owner.inputs).astype("float64") for rv in wanted
    ]
    sources = [rv for rv in model.free_RVs if rv.name in posterior]
    arrays = {rv.name: np.asarray(posterior[rv.name]) for rv in sources}
    shape = next(iter(arrays.values())).shape[:2]
    # The variables themselves are random: plain inputs of their types take their places.
    plain = {rv: rv.type(name=rv.name) for rv in sources}
    outputs = clone_replace(outputs, plain, rebuild_strict=False)
    inputs = list(plain.values())
    layout = Layout(
        tuple(v.name for v in inputs),
        tuple(arrays[v.name].shape[2:] for v in inputs),
        tuple(v.dtype for v in inputs),
    )
    graph = expansion_graph(model, inputs, layout, [pt.as_tensor(out) for out in outputs])
    flat = np.concatenate([a.reshape(shape[0] * shape[1], -1) for a in arrays.values()], axis=1)
    data = [density.data_value(source) for source in graph.sources]
    with np.errstate(all="ignore"):
        # Used once: what rewriting the graph would save is less than it costs.
        results = make_runner(density, graph, mode=AS_IT_IS)(flat.astype(float), data)
    return {
        model.rvs_to_values[rv].name: result.reshape(*shape, *result.shape[1:])
        for rv, result in zip(wanted, results, strict=True)
    }
