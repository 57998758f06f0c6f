"""How the kernel is compiled: lazily, with the GIL released, and cached on disk.

Python calls a few entry points (`chain.py`); they are compiled together, into one piece of
machine code. The functions below them are linked in and have none of their own, unless Python
calls them too, as the tests do. An entry of the cache is valid for one state of all sources of
`kernel/`: Numba's own cache looks at the file of the function alone and not at the files of those
it calls.
"""

import hashlib
from collections.abc import Mapping

from numba import config, njit, types
from numba.core import typed_passes, untyped_passes
from numba.core.compiler import CompilerBase, CompileResult, compile_result
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.serialize import dumps

from mjhmc_numba.kernel import store
from mjhmc_numba.kernel.deferred import can_defer, deferred_libraries, link_together
from mjhmc_numba.kernel.waiting import compile_in_thread

__all__ = ["FASTMATH", "StoredCode", "compile_together", "kernel_jit"]

# Sums may be reordered and products fused, so that dot products vectorise. NaN and infinity
# keep their meaning: energies rely on them.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}


# Of Numba's passes those that a kernel function needs. The others are for closures, generators,
# `with`, expressions of whole arrays, and branches that are known before there are types.
PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class _KernelCompiler(CompilerBase):
    """A compiler with the passes of `PASSES` alone."""

    def define_pipelines(self):
        passes = PassManager("kernel")
        for one_pass in PASSES:
            passes.add_pass(one_pass, one_pass.__name__)
        passes.finalize()
        return [passes]


class StoredCode:
    """What Numba asks its cache, answered by our own store.

    Parameters
    ----------
    name : str
        Of the function, as unique as its code.
    """

    cache_path = None

    def __init__(self, name: str):
        self.name = name

    def _file(self, sig) -> str:
        return f"{self.name}-{hashlib.sha256(repr(sig).encode()).hexdigest()[:16]}"

    def holds(self, sig) -> bool:
        """Whether there is machine code for a signature."""
        return store.holds(self._file(sig))

    def load_overload(self, sig, target_context):
        """The machine code for a signature, or None."""
        target_context.refresh()
        data = store.load(self._file(sig))
        return None if data is None else CompileResult._rebuild(target_context, *data)

    def save_overload(self, sig, data):
        """Save the machine code for a signature, unless it is bound to this process."""
        if not data.library.has_dynamic_globals and not data.lifted:
            store.save(self._file(sig), data._reduce())

    def enable(self):
        """Numba asks for it; the store knows by itself."""

    disable = flush = enable


class _InnerDispatcher(CPUDispatcher):
    """A kernel function as other compiled functions see it: without wrappers for Python and C."""

    def get_call_template(self, args, kws):
        # Numba would compile `row(a, p, 1)` and `row(a, p, 2)` one by one, for the literals.
        return super().get_call_template(tuple(types.unliteral(a) for a in args), kws)

    def compile(self, sig):
        with deferred_libraries():
            return super().compile(sig)


class _KernelDispatcher(CPUDispatcher):
    """A kernel function as Python sees it: an entry point, with machine code of its own."""

    def __init__(self, py_func, types_of_locals=None, targetoptions=None):
        options = dict(targetoptions or {}, no_cfunc_wrapper=True)
        super().__init__(py_func, types_of_locals, options, _KernelCompiler)
        inner_options = options | {"no_cpython_wrapper": True}
        self.inner = _InnerDispatcher(py_func, types_of_locals, inner_options, _KernelCompiler)

    @property
    def _numba_type_(self):
        return types.Dispatcher(self.inner)

    def compile(self, sig):
        with deferred_libraries():
            return super().compile(sig)


def kernel_jit(function):
    """Compile a kernel function lazily, with the GIL released, and cache it on disk."""
    if can_defer() and not config.DISABLE_JIT:
        dispatcher = _KernelDispatcher(function, targetoptions=OPTIONS | {"nopython": True})
    else:
        dispatcher = njit(**OPTIONS)(function)
    dispatcher._cache = StoredCode(_unique_name(function))
    return dispatcher


def _unique_name(function) -> str:
    """A name that no other function has: those made by one `def` differ in what they close over."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    code = function.__code__
    content = repr((function.__qualname__, code.co_firstlineno)).encode() + dumps(cells)
    module = function.__module__.rpartition(".")[2]
    return f"{module}.{function.__name__}-{hashlib.sha256(content).hexdigest()[:12]}"


def compile_together(entry_points: Mapping) -> None:
    """Load entry points from the cache or compile them, all into one piece of machine code.

    Parameters
    ----------
    entry_points : Mapping
        From a function of `kernel_jit` to the tuple of types of its arguments.
    """
    if all(types_ in entry.overloads for entry, types_ in entry_points.items()):
        return
    if not can_defer():
        compile_in_thread("sampler", lambda: [e.compile(t) for e, t in entry_points.items()])
        return
    names = [(entry.py_func.__name__, types_) for entry, types_ in entry_points.items()]
    name = f"entry_points-{hashlib.sha256(repr(names).encode()).hexdigest()[:16]}"
    data = store.load(name)
    if data is None:
        results = compile_in_thread("sampler", lambda: _compile_entries(entry_points, name))
        counts = "_cache_misses"
    else:
        results, counts = _load_entries(*data), "_cache_hits"
    with global_compiler_lock:
        for (entry, types_), result in zip(entry_points.items(), results, strict=True):
            if types_ not in entry.overloads:
                getattr(entry, counts)[types_] += 1
                entry.add_overload(result)


def _compile_entries(entry_points: Mapping, name: str) -> list[CompileResult]:
    compilers = [(entry._compiler, types_) for entry, types_ in entry_points.items()]
    with deferred_libraries():
        cpu_target.target_context.refresh()
        results = link_together(lambda: [c.compile(types_, None) for c, types_ in compilers])
        reduced = [result._reduce() for result in results]
    store.save(name, (reduced[0][0], [parts[1:] for parts in reduced]))
    return results


@global_compiler_lock
def _load_entries(libdata, entries) -> list[CompileResult]:
    context = cpu_target.target_context
    context.refresh()
    library = context.codegen().unserialize_library(libdata)
    results = []
    for fndesc, env, signature, objectmode, lifted, annotation, reload_init, envs in entries:
        for function in reload_init:
            function()
        results.append(
            compile_result(
                typing_context=context.typing_context,
                target_context=context,
                library=library,
                environment=env,
                entry_point=context.get_executable(library, fndesc, env),
                fndesc=fndesc,
                type_annotation=annotation,
                signature=signature,
                objectmode=objectmode,
                lifted=lifted,
                reload_init=reload_init,
                referenced_envs=envs,
            )
        )
        for one in envs:
            context.codegen().set_env(one.env_name, one)
    return results
