"""A PyMC model becomes the one compiled form that the kernel calls."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from numba.core.errors import NumbaError
from numpy.linalg import LinAlgError
from numpy.typing import ArrayLike
from pymc.model import modelcontext
from pytensor.compile.sharedvalue import SharedVariable

from mjhmc_numba.density import Target
from mjhmc_numba.density.callback import PythonDensity
from mjhmc_numba.density.signature import NOT_FINITE, RAISED, evaluate
from mjhmc_numba.density.table import ArrayTable
from mjhmc_numba.errors import TargetError
from mjhmc_numba.initial import too_far
from mjhmc_numba.kernel.waiting import announced
from mjhmc_numba.pymc.diagnosis import PYTHON_MODE, explain_start
from mjhmc_numba.pymc.dimensions import with_dim_lengths
from mjhmc_numba.pymc.errors import ModelChangedError, ModelError, StartError
from mjhmc_numba.pymc.graph import (
    custom_ops,
    density_graph,
    rejects_by_raising,
    shared_variables,
)
from mjhmc_numba.pymc.layout import Layout, choose_value_vars
from mjhmc_numba.pymc.native import NativeCode, density_code
from mjhmc_numba.pymc.object_mode import collect_object_mode, not_native, warn_of_object_mode
from mjhmc_numba.pymc.op_functions import with_safe_cache
from mjhmc_numba.pymc.python_machine import in_python_machine

__all__ = ["ModelDensity", "model_lock"]

# What a density raises at an impossible point, as opposed to by mistake.
REJECTIONS = (AssertionError, LinAlgError, FloatingPointError)

# Held while a model holds other data than its own, and while its data is read.
model_lock = threading.RLock()


class ModelDensity:
    """The joint log density of a model and its gradient, as a function of one vector.

    It is compiled when first asked for, and again after it was pickled; where PyTensor's cache
    holds its machine code that takes milliseconds.

    A density owns the table of the arrays that it reads: data and the variables of other step
    methods. `update_data` and `update_others` change it, so only one chain at a time may run on
    it, and that is how the step method uses it. `with_data` and `snapshot` give densities with
    tables of their own on the same machine code; runs in the background take a snapshot each.

    Parameters
    ----------
    model : pymc.Model, optional
        that of the `with` block by default
    vars : sequence, optional
        variables to sample, or their names; all continuous ones by default
    initial_point : mapping, optional
        values of all value variables; fixes the shapes. PyMC's own by default
    compile_kwargs : mapping, optional
        handed to PyTensor's compilation; a `mode` must be one of Numba

    Attributes
    ----------
    layout : Layout
        names, shapes and dtypes of the variables in the vector
    ndim : int
        length of the vector
    custom_ops : list of str
        operations whose gradients neither PyTensor nor PyMC has written; known once compiled
    """

    _function: Any
    _python_function: Any
    _lock: Any

    def __init__(
        self,
        model: pm.Model | None = None,
        vars: Sequence | None = None,  # noqa: A002 (PyMC's word)
        *,
        initial_point: Mapping[str, np.ndarray] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
    ):
        self.model = modelcontext(model)
        value_vars = choose_value_vars(self.model, vars)
        if initial_point is None:
            with in_python_machine():
                initial_point = self.model.initial_point()
        point = dict(initial_point)
        self.compile_kwargs = dict(compile_kwargs or {})
        self.layout = Layout.of(self.model, value_vars, point)
        self._others = {v.name: np.array(point[v.name]) for v in self.model.value_vars}
        self._fingerprint = _fingerprint(self.model)
        self._pinned: dict[SharedVariable, np.ndarray] = {}
        self._code: NativeCode | None = None
        self._inputs: ArrayTable | None = None
        self.custom_ops: list[str] = []
        self._drop_machine_code()

    # ------------------------------------------------------------------ its form

    @property
    def ndim(self) -> int:
        return self.layout.ndim

    @property
    def value_vars(self) -> list:
        by_name = {v.name: v for v in self.model.value_vars}
        return [by_name[name] for name in self.layout.names]

    @property
    def address(self) -> int:
        """Address of the C function."""
        return self._compiled().address

    @property
    def table(self) -> np.ndarray:
        """Its last argument: records of the arrays that it reads."""
        self._compiled()
        return self._connected.entries

    @property
    def is_native(self) -> bool:
        """Whether it runs without Python."""
        return not isinstance(self._compiled(), PythonDensity)

    @property
    def facts(self) -> dict[str, str]:
        """What a person would like to know of it."""
        kind = "native" if self.is_native else "through Python, which is slow"
        sizes = zip(self.value_vars, self.layout.sizes, self.layout.shapes, strict=True)
        named = [
            f"{self.model.values_to_rvs[v].name}{f' ({n})' if shape else ''}"
            for v, n, shape in sizes
        ]
        return {"dimensions": f"{self.ndim:,}", "variables": ", ".join(named), "code": kind}

    @property
    def description(self) -> str:
        """The same in half a sentence."""
        facts = self.facts
        return f"{facts['dimensions']} dimensions of {facts['variables']}, {facts['code']}"

    def target(self, rebuild: tuple | None = None) -> Target:
        """The density as the sampler takes it; it keeps this density and reads its table.

        `rebuild`, (function, arguments), makes it again in another process where there is a
        shorter way than to send this density.
        """
        return Target.from_address(
            self.address,
            self.ndim,
            table=self.table,
            keepalive=self,
            error_at=self.error_at,
            names=list(self.layout.told),
            rebuild=rebuild or (ModelDensity.target, (self,)),
        )

    def logp_and_grad(self, x: ArrayLike) -> tuple[float, np.ndarray]:
        """Log density and gradient at x; raises what the density raises."""
        x = np.array(x, dtype=float)
        if x.shape != (self.ndim,):
            raise ModelError(f"A point has shape ({self.ndim},), not {x.shape}.")
        code, logp, grad = evaluate(self.address, x, self.table)
        if code == RAISED:
            raise self.error_at(x) or ModelError(f"The density raised an exception at x = {x}.")
        return logp, grad

    # ------------------------------------------------------------- what may change

    def update_others(self, point: Mapping[str, Any]) -> bool:
        """Take over variables that other step methods move; says whether any moved."""
        self._compiled()
        moved = False
        for k, source in enumerate(self._sources):
            if isinstance(source, str):
                moved |= self._set(k, point[source])
        return moved

    def _set(self, k: int, value) -> bool:
        try:
            return self._connected.set(k, value)
        except TargetError as error:
            raise ModelChangedError(f"{error} Compile the model again.") from None

    def other_variables(self) -> dict[str, np.ndarray]:
        """The variables that other step methods move, as this density sees them (copies)."""
        if self._inputs is None:
            return {}
        seen = zip(self._sources, self._inputs.arrays, strict=False)
        return {source: array.copy() for source, array in seen if isinstance(source, str)}

    def update_data(self, *, by_identity: bool = False) -> bool:
        """Take over data that changed in the model; says whether any did.

        With `by_identity` only arrays that were replaced (as `pm.set_data` does) are looked at,
        which is quick enough for every draw; without it all values are compared.
        """
        self._compiled()
        moved = False
        for k, source in enumerate(self._sources):
            if isinstance(source, str) or source in self._pinned:
                continue
            value = source.get_value(borrow=True)
            if by_identity and value is self._seen.get(k):
                continue
            self._seen[k] = value
            moved |= self._set(k, value)
        return moved

    def with_data(self, **data: Any) -> ModelDensity:
        """The same machine code on other data; this density and the model keep theirs."""
        new = self._with_own_table()
        values = with_dim_lengths(self.model, data)
        for shared in shared_variables(self.model):
            if shared.name in values:
                new._pin(shared, values[shared.name])
        return new

    def snapshot(self) -> ModelDensity:
        """The same machine code on the data of this moment, whatever becomes of the model's.

        It is for one run: its threads read a table that does not change, and what is computed of
        its draws later uses the data that they were made with.
        """
        with model_lock:
            new = self._with_own_table()
            new.update_data()
            for shared in shared_variables(self.model):
                new._pin(shared, new.data_value(shared))
        return new

    def _with_own_table(self) -> ModelDensity:
        self._compiled()
        new = object.__new__(ModelDensity)  # copy.copy would leave the machine code behind
        new.__dict__.update(self.__dict__)
        new._inputs = self._connected.copy()
        new._seen, new._pinned = {}, dict(self._pinned)
        if not self.is_native:
            new._machine_code = new._callback()
        return new

    def _pin(self, shared: SharedVariable, value) -> None:
        """Read this value from now on and not the model's."""
        if shared in self._sources:
            k = self._sources.index(shared)
            self._set(k, value)
            self._pinned[shared] = self._connected.arrays[k]  # one copy for both
        else:
            self._pinned[shared] = np.array(value, dtype=shared.type.dtype)

    def data_value(self, shared: SharedVariable) -> np.ndarray:
        """What this density reads for a shared variable of the model (not to be written)."""
        if shared in self._pinned:
            return self._pinned[shared]
        return np.asarray(shared.get_value(borrow=True))

    def check_unchanged(self) -> None:
        """Raise if the model has other variables or terms than when it was compiled."""
        now = _fingerprint(self.model)
        if len(now) == len(self._fingerprint) and all(
            a is b for a, b in zip(now, self._fingerprint, strict=True)
        ):
            return
        names = {v.name for v in now} ^ {v.name for v in self._fingerprint}
        what = f": {', '.join(sorted(names))}" if names else ""
        raise ModelChangedError(
            f"The model has changed since it was compiled{what}. Compile it again."
        )

    # ------------------------------------------------------------------ what fails

    def check_start(self, point: Mapping[str, Any]) -> np.ndarray:
        """The vector of `point`; raises `StartError` if the density is not finite there."""
        self.update_others(point)
        x = self.layout.ravel(point)
        try:
            logp, grad = self.logp_and_grad(x)
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            raise explain_start(self.model, point, np.nan, {}) from error
        if not (np.isfinite(logp) and np.isfinite(grad).all()):
            raise explain_start(self.model, point, logp, self.layout.unravel(grad))
        far = too_far(x, self.layout.told)
        if far is not None:
            raise StartError(far)
        return x

    def error_at(self, x: np.ndarray) -> BaseException | None:
        """The exception that the density raises at x, or None."""
        code = self._compiled()
        if isinstance(code, PythonDensity):
            return code.error_at(x)
        with self._lock:
            if self._python_function is None:
                graph = density_graph(self.model, self.value_vars, self.layout)
                self._python_function = graph.compile(self.model, mode=PYTHON_MODE)
            try:
                self._python_function(np.array(x, dtype=float), *self._free_arrays())
            except Exception as error:
                return error
        return None

    # ----------------------------------------------------------------- compilation

    def _drop_machine_code(self) -> None:
        self._machine_code: Any = None
        self._function = None
        self._python_function = None
        # PyTensor's functions are not reentrant, and snapshots share them.
        self._lock = threading.RLock()
        self._sources: list = []
        self._seen: dict[int, np.ndarray] = {}

    def __getstate__(self):
        state = self.__dict__.copy()
        for name in ("_machine_code", "_function", "_python_function", "_lock", "_seen"):
            del state[name]
        return state

    def __setstate__(self, state):
        sources = state["_sources"]
        self._drop_machine_code()
        self.__dict__.update(state, _sources=sources)

    @property
    def _n_free(self) -> int:
        """Number of arrays that may change; lifted constants come after them."""
        return len(self._sources)

    @property
    def _connected(self) -> ArrayTable:
        """The table of a density that is compiled."""
        assert self._inputs is not None
        return self._inputs

    def _free_arrays(self) -> list[np.ndarray]:
        return self._connected.arrays[: self._n_free]

    def _compiled(self):
        if self._machine_code is None and self._code is not None:
            self._machine_code = self._code.compile()
        if self._machine_code is None:
            self._compile()
        return self._machine_code

    def _compile(self) -> None:
        self.check_unchanged()
        with announced("gradient"):
            reasons = self._try_to_compile()
        if reasons:
            warn_of_object_mode(reasons)

    def _try_to_compile(self) -> list[str]:
        """Compile natively, or else for PyTensor; returns why not natively, if so."""
        graph = density_graph(self.model, self.value_vars, self.layout)
        arrays = self._inputs.arrays if self._inputs is not None else self._read(graph.sources)
        self._sources, self.custom_ops = graph.sources, custom_ops(graph.outputs)
        with collect_object_mode() as reasons:
            self._function = graph.compile(self.model, **self.compile_kwargs)
        fgraph = self._function.maker.fgraph
        reasons += not_native(fgraph, self.compile_kwargs)
        if not reasons:
            try:
                rejects = rejects_by_raising(graph.outputs)
                self._compile_natively(fgraph, arrays, NOT_FINITE if rejects else RAISED)
                return []
            except NumbaError as error:
                reasons.append(f"Numba refuses: {str(error).strip().splitlines()[0]}")
                self._function = graph.compile(self.model, mode=PYTHON_MODE)
        self._function = with_safe_cache(self._function)
        self._inputs = self._table(arrays[: self._n_free])
        self._machine_code = self._callback()
        return reasons

    def _compile_natively(self, fgraph, arrays, on_exception: int) -> None:
        code = density_code(fgraph, on_exception)
        machine_code = code.compile()
        self._inputs = self._table([*arrays[: self._n_free], *code.constants])
        self._code, self._machine_code, self._function = code, machine_code, None
        code.inner, code.constants = None, []

    def _table(self, arrays) -> ArrayTable:
        names = [s if isinstance(s, str) else s.name or "a shared variable" for s in self._sources]
        names += [f"constant {k}" for k in range(len(arrays) - len(names))]
        return ArrayTable(self.ndim, arrays, names)

    def _callback(self) -> PythonDensity:
        """PyTensor's own compiled function on the arrays of this density.

        An operation without native code runs in Numba's object mode; an exception there ends a
        process that has released the GIL. Behind a callback it is kept.
        """
        function, inputs = self._function, self._connected
        return PythonDensity(
            lambda x: function(x, *inputs.arrays),
            self.ndim,
            rejections=REJECTIONS,
            check_finite=True,
            lock=self._lock,
        )

    def _read(self, sources) -> list[np.ndarray]:
        return [
            self._others[source] if isinstance(source, str) else source.get_value(borrow=True)
            for source in sources
        ]


def _fingerprint(model) -> list:
    """All that the log density of a model is made of, to be compared by identity."""
    terms = model.basic_RVs + model.potentials
    values = [model.rvs_to_values[rv] for rv in model.basic_RVs]
    return terms + values
