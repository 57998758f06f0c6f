"""From raveled draws to all variables of the posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba.core.errors import NumbaError
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

from mjhmc_numba.kernel.waiting import announced
from mjhmc_numba.pymc.density import ModelDensity, model_lock
from mjhmc_numba.pymc.diagnosis import PYTHON_MODE
from mjhmc_numba.pymc.errors import ExpansionError, UnknownVariableError
from mjhmc_numba.pymc.graph import PureGraph, expansion_graph
from mjhmc_numba.pymc.native_loop import VARYING_SHAPE, NativeLoop
from mjhmc_numba.pymc.object_mode import collect_object_mode
from mjhmc_numba.pymc.op_functions import with_safe_cache

__all__ = ["Expansion", "make_runner"]

# Bytes of output between two looks at the keyboard and at the progress; bounds what NumPy
# needs for intermediate results. 4,000 draws of 500 Deterministics take 25, 14, 13 and 18 ms with
# 0.06, 1, 4 and 16 MB.
CHUNK_BYTES = 2**22


class Expansion:
    """Computes what is stored of a draw: untransformed variables and Deterministics.

    A variable without a transform is a part of the vector and is copied. The rest is computed
    by NumPy for many draws at once, which needs no compilation. Loops (a `scan`) are compiled
    instead and run draw by draw in native code.

    Parameters
    ----------
    density : ModelDensity
        the density of all free variables of a model
    var_names : sequence of str, optional
        what to compute; all free variables and Deterministics by default
    include_transformed : bool
        whether the value variables (``sigma_log__``) are stored too
    take_transformed : bool
        whether `var_names` may name them

    Attributes
    ----------
    names : list of str
        what is computed, in this order
    """

    def __init__(
        self,
        density: ModelDensity,
        var_names: Sequence[str] | None = None,
        *,
        include_transformed: bool = False,
        take_transformed: bool = False,
    ):
        self.density = density
        self.names = _choose(density.model, var_names, include_transformed, take_transformed)
        self._computed = [name for name in self.names if name not in density.layout.names]
        self._runner: Any = None
        self._sources: list = []

    def __getstate__(self):
        return self.__dict__ | {"_runner": None, "_sources": []}

    def __call__(
        self,
        draws: np.ndarray,
        progress: Callable[[int], None] | None = None,
        *,
        density: ModelDensity | None = None,
        in_place: bool = False,
    ) -> dict[str, np.ndarray]:
        """Variables by name, each of shape (chain, draw, *shape).

        Those that are parts of the vector are views of the draws.

        Parameters
        ----------
        draws : ndarray
            (chain, draw, ndim)
        progress : callable, optional
            told the number of draws done, now and then
        density : ModelDensity, optional
            what the draws were made with, if it is a snapshot with data of its own
        in_place : bool
            whether the draws may be written over: a variable then lies where its transform lay
        """
        draws = np.ascontiguousarray(draws, dtype=float)
        if draws.ndim != 3 or draws.shape[2] != self.density.ndim:
            raise ExpansionError(
                f"Draws have shape (chain, draw, {self.density.ndim}), not {draws.shape}."
            )
        self.density.check_unchanged()
        values = self.density.layout.unravel(draws)
        rows = draws.reshape(-1, self.density.ndim)
        computed = self._compute(rows, progress, density or self.density, in_place)
        for name, array in computed.items():
            values[name] = array.reshape(draws.shape[:2] + array.shape[1:])
        return {name: values[name] for name in self.names}

    def _compute(
        self, draws, progress, density: ModelDensity, in_place: bool
    ) -> dict[str, np.ndarray]:
        if not self._computed:
            return {}
        self.prepare()
        arrays = [density.data_value(source) for source in self._sources]
        # One draw tells shapes and dtypes; without any draw, the origin does.
        first = self._run(draws[:1] if len(draws) else np.zeros((1, self.density.ndim)), arrays)
        free = self._places(draws) if in_place else {}
        outputs = [
            _room(free.get(name), len(draws), one.shape[1:], one.dtype)
            for name, one in zip(self._computed, first, strict=True)
        ]
        chunk = max(1, CHUNK_BYTES // max(1, sum(a.nbytes for a in first)))
        for start in range(0, len(draws), chunk):
            stop = min(start + chunk, len(draws))
            parts = self._run(draws[start:stop], arrays)
            if free:  # what is a view of these draws must not change as they are written over
                parts = [np.array(p) if np.may_share_memory(p, draws) else p for p in parts]
            for name, output, part in zip(self._computed, outputs, parts, strict=True):
                if part.shape[1:] != output.shape[1:]:
                    raise ExpansionError(f"{name}: {VARYING_SHAPE}")
                output[start:stop] = part
            if progress is not None:
                progress(stop)
        return dict(zip(self._computed, outputs, strict=True))

    def _places(self, draws: np.ndarray) -> dict[str, np.ndarray]:
        """For each variable the part of the draws (n, d) that holds its transform, where that is
        not kept itself.
        """
        model, layout = self.density.model, self.density.layout
        parts = dict(zip(layout.names, layout.slices, strict=True))
        values = {rv.name: model.rvs_to_values[rv].name for rv in model.free_RVs}
        return {
            name: draws[:, parts[value]]
            for name, value in values.items()
            if value in parts and value not in self.names
        }

    def _run(self, draws, arrays) -> list[np.ndarray]:
        try:
            with np.errstate(all="ignore"):
                return self._runner(draws, arrays)
        except ExpansionError:
            raise
        except Exception as error:
            raise ExpansionError(
                f"One of {', '.join(self._computed)} cannot be computed from the draws: {error}"
            ) from error

    def width(self, *, in_place: bool) -> int:
        """Numbers per draw that take memory of their own, as far as their shapes are known before
        anything is computed.
        """
        model, layout = self.density.model, self.density.layout
        sizes = dict(zip(layout.names, layout.sizes, strict=True))
        variables = {v.name: v for v in (*model.free_RVs, *model.deterministics)}
        total = 0
        for name in self.names:
            variable, value, size = variables.get(name), name, sizes.get(name, 0)
            if variable is not None:
                value = model.rvs_to_values.get(variable, variable).name
                shape = variable.type.shape
                size = sizes.get(value, 0) if None in shape else int(np.prod(shape, dtype=int))
            fits = sizes.get(value) == size and (value == name or value not in self.names)
            total += 0 if in_place and fits else size
        return total

    def prepare(self) -> None:
        """Compile what is needed; if it was not done ahead, the first call does."""
        with model_lock:
            if self._computed and self._runner is None:
                with announced("Deterministics"):
                    self._prepare()

    def _prepare(self) -> None:
        density = self.density
        by_name = {v.name: v for v in density.model.unobserved_value_vars}
        outputs = [by_name[name] for name in self._computed]
        graph = expansion_graph(density.model, density.value_vars, density.layout, outputs)
        self._sources = graph.sources
        self._runner = make_runner(density, graph)


def _room(place: np.ndarray | None, n: int, shape: tuple[int, ...], dtype) -> np.ndarray:
    """An array (n, *shape): at a place (n, k) if it fits there, or a new one."""
    if place is None or place.dtype != dtype or place.shape[1] != np.prod(shape, dtype=int):
        return np.empty((n, *shape), dtype)
    return place.reshape(n, *shape)


class _Vectorised:
    """NumPy on many draws at once."""

    def __init__(self, model, graph: PureGraph, mode):
        draws = pt.TensorType("float64", shape=(None, graph.x.type.shape[0]))("draws")
        outputs = vectorize_graph(graph.outputs, {graph.x: draws})
        # What does not depend on x has not become an array of draws.
        self._is_batched = [
            batched.type.ndim > single.type.ndim
            for batched, single in zip(outputs, graph.outputs, strict=True)
        ]
        batched = PureGraph(draws, graph.arrays, graph.sources, outputs)
        self._function = batched.compile(model, mode=mode)

    def __call__(self, draws, arrays) -> list[np.ndarray]:
        results = self._function(draws, *arrays)
        return [
            result if batched else np.broadcast_to(result, (len(draws), *np.shape(result)))
            for result, batched in zip(results, self._is_batched, strict=True)
        ]


class _OneByOne:
    """PyTensor's own function, draw by draw."""

    def __init__(self, function):
        self._function = function

    def __call__(self, draws, arrays) -> list[np.ndarray]:
        results = [self._function(x, *arrays) for x in draws]
        columns = list(zip(*results, strict=True))
        for column in columns:
            if len({value.shape for value in column}) > 1:
                raise ExpansionError(VARYING_SHAPE)
        return [np.stack(column) for column in columns]


def make_runner(density: ModelDensity, graph: PureGraph, mode=PYTHON_MODE) -> Callable:
    """(vectors (n, ...), arrays) -> outputs of the graph for each of them."""
    runner = None if _has_loops(graph) else _vectorised_runner(density.model, graph, mode)
    return runner if runner is not None else _compiled_runner(density, graph)


def _vectorised_runner(model, graph: PureGraph, mode):
    """All draws at once; None where PyTensor cannot vectorise an operation (it raises any of
    these then), and the caller compiles the graph for one draw instead: the same values.
    """
    try:
        return _Vectorised(model, graph, mode)
    except (NotImplementedError, TypeError, ValueError):
        return None


def _compiled_runner(density: ModelDensity, graph: PureGraph):
    with collect_object_mode() as reasons:
        function = graph.compile(density.model, **density.compile_kwargs)
    if not reasons:
        try:
            return NativeLoop(function.maker.fgraph)
        except NumbaError:
            function = graph.compile(density.model, mode=PYTHON_MODE)
    return _OneByOne(with_safe_cache(function))


def _has_loops(graph: PureGraph) -> bool:
    nodes = {v.owner for v in ancestors(graph.outputs) if v.owner is not None}
    return any(isinstance(node.op, HasInnerGraph) for node in nodes)


def _choose(model, var_names, include_transformed, take_transformed) -> list[str]:
    free = [rv.name for rv in model.free_RVs]
    deterministics = [d.name for d in model.deterministics]
    transformed = [v.name for v in model.value_vars if v.name not in free]
    if var_names is None:
        return (transformed if include_transformed else []) + free + deterministics
    asked = [name for name in var_names if name in transformed]
    if asked and not take_transformed:
        raise UnknownVariableError(
            f"{', '.join(asked)} is the transform of a variable; draws are kept of the variable. "
            'idata_kwargs={"include_transformed": True} keeps both, without var_names=.'
        )
    unknown = [n for n in var_names if n not in {*free, *deterministics, *asked}]
    if unknown:
        raise UnknownVariableError(
            f"The model has no variable {', '.join(unknown)}; it has "
            f"{', '.join(free + deterministics)}."
        )
    return list(var_names)
