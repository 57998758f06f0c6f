"""Why a log density is not finite at a point: which term, which data, which gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant

from mjhmc_numba.pymc.errors import DataError, StartError

__all__ = ["PYTHON_MODE", "explain_start"]

# No compilation: slow to run, but it runs once, and every exception is the operation's own.
PYTHON_MODE = Mode(linker="py", optimizer="fast_compile")


def explain_start(
    model, point: Mapping[str, Any], logp: float, grad: Mapping[str, np.ndarray]
) -> StartError:
    """The error that says why the density is not finite at `point`.

    Parameters
    ----------
    model : pm.Model
        The model.
    point : mapping of str to array
        Values of all its value variables.
    logp : float
        Log density there.
    grad : mapping of str to ndarray
        Gradient there, by variable.

    Returns
    -------
    StartError
        A `DataError` where observed values or data are not finite.
    """
    terms = [] if np.isfinite(logp) else _bad_terms(model, point)
    slopes = [] if terms else _bad_elements(grad)
    bad_data = _bad_data(model)
    if bad_data:
        return DataError(
            f"{'; '.join(bad_data)}. The log density is {logp} with it{_because(terms)}. Remove "
            "those rows, or mask them (numpy.ma) so that PyMC imputes them."
        )
    if terms or not np.isfinite(logp):
        what = f"The log density is {logp} at the initial point{_because(terms)}."
    else:
        what = (
            f"The log density is {logp} at the initial point, but its gradient is not finite: "
            f"{'; '.join(slopes)}."
        )
    return StartError(
        f"Initial evaluation of the model failed. {what}\nInitial point: {_show(point)}\nGive "
        "initvals= within the support, or check the priors and the data of the named terms "
        "(model.debug() shows their parameters)."
    )


def _because(terms: list[str]) -> str:
    return f": {'; '.join(terms)}" if terms else ""


def _bad_terms(model, point) -> list[str]:
    """Terms of the log density that are not finite at the point."""
    terms = model.basic_RVs + model.potentials
    found = []
    for term, graph in zip(terms, model.logp(terms, sum=False), strict=True):
        try:
            evaluate = model.compile_fn(
                graph, inputs=model.value_vars, mode=PYTHON_MODE, on_unused_input="ignore"
            )
            value = np.asarray(evaluate(dict(point)))
        except Exception as error:  # the term cannot even be computed: that is the answer
            text = str(error).strip().splitlines() or [""]
            found.append(f"the term of {term.name} raises {type(error).__name__}: {text[0]}")
            continue
        bad = ~np.isfinite(value)
        if bad.any():
            found.append(f"the term of {term.name} is {value[bad].ravel()[0]}{_where(bad)}")
    return found


def _where(bad: np.ndarray) -> str:
    if bad.ndim == 0:
        return ""
    first = ",".join(map(str, np.argwhere(bad)[0]))
    return f" in {bad.sum()} of {bad.size} elements, first at [{first}]"


def _bad_data(model) -> list[str]:
    """Observed values and data containers with NaN or infinite elements."""
    found = []
    observed = {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs}
    containers = {v.name: v for v in model.data_vars}
    for kind, variables in (("Observed values of", observed), ("Data", containers)):
        for name, variable in variables.items():
            value = _value_of(variable)
            if value is None or value.dtype.kind != "f":
                continue
            bad = ~np.isfinite(value)
            if bad.any():
                found.append(f"{kind} {name}: {value[bad].ravel()[0]}{_where(bad)}")
    return found


def _value_of(variable) -> np.ndarray | None:
    while variable.owner is not None and len(variable.owner.inputs) == 1:
        variable = variable.owner.inputs[0]  # a cast of the data
    if isinstance(variable, SharedVariable):
        return np.asarray(variable.get_value(borrow=True))
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    return None


def _bad_elements(grad: Mapping[str, np.ndarray]) -> list[str]:
    found = []
    for name, values in grad.items():
        bad = ~np.isfinite(values)
        if bad.any():
            found.append(f"{name}: {np.asarray(values)[bad].ravel()[0]}{_where(bad)}")
    return found


def _show(point) -> str:
    shown = []
    for name, value in point.items():
        value = np.asarray(value)
        text = np.array2string(value.ravel()[:8], precision=4, separator=", ")
        shown.append(f"{name} = {text if value.ndim else value.item()}")
        if value.size > 8:
            shown[-1] += f" ... ({value.size} values)"
    return "; ".join(shown)
