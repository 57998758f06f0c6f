"""How the value variables of a model lie in one vector, and which of them are ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import pymc as pm
from pymc.pytensorf import continuous_types
from pymc.sampling import mcmc
from pymc.step_methods.compound import Competence
from pytensor.graph.traversal import ancestors

from mjhmc_numba.pymc.errors import (
    DiscreteVariableError,
    ModelChangedError,
    NoVariableError,
    OtherMethodError,
    UnknownVariableError,
)

__all__ = ["Layout", "check_all_ours", "choose_value_vars", "step_methods"]


@dataclass(frozen=True)
class Layout:
    """Names, shapes and dtypes of the value variables, in the order of the raveled vector.

    `told` has a name for each dimension as the model's author knows it, for messages: the random
    variable ``theta[Choate]`` and not its value variable ``theta_log__[0]``. In a hierarchy the
    prior of a variable depends on another.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    told: tuple[str, ...] = ()
    is_hierarchy: bool = False

    @classmethod
    def of(cls, model: Any, value_vars: Sequence[Any], point: Mapping[str, np.ndarray]) -> Layout:
        shapes = tuple(np.shape(point[v.name]) for v in value_vars)
        told = [_told(model, v, shape) for v, shape in zip(value_vars, shapes, strict=True)]
        return cls(
            tuple(v.name for v in value_vars),
            shapes,
            tuple(v.dtype for v in value_vars),
            tuple(name for of_variable in told for name in of_variable),
            _is_hierarchy(model),
        )

    @property
    def sizes(self) -> list[int]:
        return [int(np.prod(shape, dtype=int)) for shape in self.shapes]

    @property
    def ndim(self) -> int:
        return sum(self.sizes)

    @property
    def slices(self) -> list[slice]:
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    @property
    def labels(self) -> list[str]:
        """One name for each dimension of the vector, such as ``theta[2,0]``."""
        pairs = zip(self.names, self.shapes, strict=True)
        return [label for name, shape in pairs for label in _labels(name, map(range, shape))]

    def ravel(self, point: Mapping[str, Any], out: np.ndarray | None = None) -> np.ndarray:
        """The float64 vector of the variables in `point`."""
        x = np.empty(self.ndim) if out is None else out
        for name, shape, part in zip(self.names, self.shapes, self.slices, strict=True):
            value = np.asarray(point[name])
            if value.shape != shape:
                raise ModelChangedError(
                    f"{name} has shape {value.shape} and had {shape} when the model was compiled. "
                    "Compile the model again."
                )
            x[part] = value.ravel()
        return x

    def unravel(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Variables by name from vectors (..., ndim), each of shape (..., *shape); views of them
        where no other dtype is asked for.
        """
        x = np.asarray(x)
        return {
            name: x[..., part].reshape(x.shape[:-1] + shape).astype(dtype, copy=False)
            for name, shape, dtype, part in zip(
                self.names, self.shapes, self.dtypes, self.slices, strict=True
            )
        }


def _is_hierarchy(model: Any) -> bool:
    free = set(model.free_RVs)
    return any(v in free for rv in free if rv.owner for v in ancestors(rv.owner.inputs))


def _labels(name: str, coords: Iterable[Iterable]) -> list[str]:
    """One for each number of a variable."""
    indices = product(*coords)
    return [f"{name}[{','.join(map(str, index))}]" if index else name for index in indices]


# Transforms whose values are not those of the variable one by one.
_MIXING = ("simplex", "zerosum")


def _told(model: Any, value: Any, shape: tuple[int, ...]) -> list[str]:
    """Names of the numbers of a value variable as the model's author knows them."""
    rv = model.values_to_rvs[value]
    known, transform = rv.type.shape, model.rvs_to_transforms[rv]
    fits = len(known) == len(shape) and all(
        n in (None, size) for n, size in zip(known, shape, strict=True)
    )
    if not fits or getattr(transform, "name", None) in _MIXING:
        n = int(np.prod(shape, dtype=int))
        return [f"{rv.name} (number {k + 1} of {n}, unconstrained)" for k in range(n)]
    dims = model.named_vars_to_dims.get(rv.name, ())
    coords = [model.coords.get(dim) for dim in dims] or [None] * len(shape)
    fitting = [
        range(size) if of_dim is None or len(of_dim) != size else of_dim
        for of_dim, size in zip(coords, shape, strict=True)
    ]
    return _labels(rv.name, fitting)


def choose_value_vars(model, vars=None) -> list:  # noqa: A002 (PyMC's word)
    """The value variables to sample: those of `vars`, or all that are continuous.

    Parameters
    ----------
    model : pm.Model
        The model.
    vars : variable or str, or sequence of these, optional
        Random variables, value variables or names; all continuous ones by default.

    Returns
    -------
    list of TensorVariable
        Value variables, each once.
    """
    if not model.free_RVs:
        why = "all its variables are observed" if model.observed_RVs else "it is empty"
        raise NoVariableError(f"The model has nothing to sample: {why}.")
    if vars is None:
        chosen = [v for v in model.value_vars if v.dtype in continuous_types]
        left = [v for v in chosen if _method_of_its_own(model, v) is None]
        if chosen and not left:
            raise _other_method(model, chosen)
        chosen = left
        if not chosen:
            raise NoVariableError(
                "The model has no continuous variable, only discrete ones: "
                f"{_names(model.free_RVs)}. A sampler that follows gradients cannot move them."
            )
        return chosen
    if isinstance(vars, str) or not isinstance(vars, list | tuple):
        vars = [vars]  # noqa: A001
    chosen = list(dict.fromkeys(_value_var(model, v) for v in vars))
    if not chosen:
        raise NoVariableError("vars is empty: give at least one continuous variable.")
    others = [v for v in chosen if _method_of_its_own(model, v) is not None]
    if others:
        raise _other_method(model, others)
    discrete = [v for v in chosen if v.dtype not in continuous_types]
    if discrete:
        raise DiscreteVariableError(
            f"{_names(discrete)} is discrete and has no gradient. Leave it to another step method, "
            "or sum it out of the model."
        )
    return chosen


def check_all_ours(model) -> None:
    """Raise if a variable of the model belongs to another step method."""
    others = [v for v in model.value_vars if _method_of_its_own(model, v) is not None]
    if others:
        raise _other_method(model, others)


def step_methods() -> list:
    """What `pm.sample` assigns from now: a package may have put another list in its place."""
    owner = mcmc if hasattr(mcmc, "STEP_METHODS") else pm  # PyMC 6, or 5
    return owner.STEP_METHODS


def _method_of_its_own(model, value_var) -> str | None:
    """Name of the step method that claims a continuous variable as its own, as PGBART does.

    The density of such a variable need not say what it is distributed as.
    """
    if value_var.dtype not in continuous_types:
        return None
    variable = model.values_to_rvs[value_var]
    for method in step_methods():
        if max(method._competence(variable, True)) > Competence.PREFERRED:
            return method.__name__
    return None


def _other_method(model, value_vars) -> OtherMethodError:
    claims = [(model.values_to_rvs[v].name, _method_of_its_own(model, v)) for v in value_vars]
    named = ", ".join(f"{name} ({method})" for name, method in claims)
    return OtherMethodError(
        f"{named}: this step method claims the variable, whose density alone does not say how it "
        "is distributed. Use pm.sample(step=MJHMC()), which leaves it to that method."
    )


def _names(variables) -> str:
    return ", ".join(v.name for v in variables)


def _value_var(model, wanted):
    by_name = {}
    for rv in model.free_RVs:
        value = model.rvs_to_values[rv]
        by_name[rv.name] = by_name[value.name] = value
    if isinstance(wanted, str) and wanted in by_name:
        return by_name[wanted]
    value = model.rvs_to_values.get(wanted, wanted)
    if any(value is v for v in by_name.values()):
        return value
    name = wanted if isinstance(wanted, str) else getattr(wanted, "name", None) or repr(wanted)
    if name in {rv.name for rv in model.observed_RVs}:
        what = "is observed"
    elif name in {d.name for d in model.deterministics}:
        what = "is a Deterministic"
    else:
        what = "is not in the model"
    raise UnknownVariableError(f"{name} {what}; the free variables are {_names(model.free_RVs)}.")
