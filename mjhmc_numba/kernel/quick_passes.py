"""Numba's passes over a function, without what is done for those who watch.

Numba announces every pass with the types of all arguments as text, works out after most of them
which variables a block may meet although the next pass changes that, and compares compiler flags
one by one, ten thousand times. A sixth of the time to compile the kernel goes there; the machine
code is the same without.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from inspect import signature
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.transforms import canonicalize_cfg

__all__ = ["quick_passes"]

_postprocess, _same_flags = PostProcessor.run, TargetConfig.__eq__


def _run_pass(self, index, one_pass, state) -> None:
    """In place of `PassManager._runPass`: no events, no times, no checks of what a pass did."""
    one_pass.analysis = self._analysis
    one_pass.run_initialization(state)
    one_pass.run_pass(state)
    one_pass.run_finalizer(state)


def _run_postprocessor(self, emit_dels=False, extend_lifetimes=False) -> None:
    """In place of `PostProcessor.run`: what is alive where a block begins is left out.

    Only generators and object mode read that.
    """
    flags = ConfigStack.top_or_none()
    if self.func_ir.is_generator or flags is None or flags.force_pyobject:
        _postprocess(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = VariableLifetime(self.func_ir.blocks)
    self.func_ir.generator_info = None
    if emit_dels:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


def _equal(self, other) -> bool:
    """In place of `TargetConfig.__eq__`: flags that are set to the same are equal."""
    if self is other or (type(self) is type(other) and self._values == other._values):
        return True
    return _same_flags(self, other)


@cache
def _hash_of_names(kind: type[TargetConfig]) -> int:
    return hash(tuple(sorted(kind.options)))


def _hash(self) -> int:
    """In place of `TargetConfig.__hash__`: the same number, that of the names of all flags."""
    kind: Any = type(self)
    return _hash_of_names(kind)


REPLACED = (
    (PassManager, "_runPass", _run_pass),
    (PostProcessor, "run", _run_postprocessor),
    (TargetConfig, "__eq__", _equal),
    (TargetConfig, "__hash__", _hash),
)


@cache
def _are_as_expected() -> bool:
    """Whether Numba's methods take what ours take; another Numba keeps its own."""
    pairs = [(getattr(owner, name), quick) for owner, name, quick in REPLACED]
    return all(len(signature(a).parameters) == len(signature(b).parameters) for a, b in pairs)


@contextmanager
def quick_passes() -> Iterator[None]:
    """Within it Numba's passes run without the rest."""
    if not _are_as_expected():
        yield
        return
    with global_compiler_lock:  # other threads wait for it before they compile anything
        usual = [getattr(owner, name) for owner, name, _ in REPLACED]
        for owner, name, quick in REPLACED:
            setattr(owner, name, quick)
        try:
            yield
        finally:
            for (owner, name, _), method in zip(REPLACED, usual, strict=True):
                setattr(owner, name, method)
