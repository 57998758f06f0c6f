"""Machine code only for what is called from outside; everything else is linked in.

Numba makes a library of every function: it links in all that the function calls, optimises the
whole and emits machine code, although only other compiled functions will ever call most of them.
Here a library puts that off until someone asks for an address. An entry point then collects the
code of everything below it, and is optimised and emitted once. The kernel compiles in a quarter
of the time, and its machine code does the same.

This leans on the inside of Numba. Where that is not as expected, or where the variable
MJHMC_NUMBA_DEFER is 0, Numba compiles in its own way.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache

import llvmlite.binding as ll
from numba.core import codegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment
from numba.core.registry import cpu_target

from mjhmc_numba.kernel.quick_passes import quick_passes
from mjhmc_numba.kernel.waiting import stop_if_cancelled

__all__ = ["can_defer", "deferred_libraries", "link_together"]

# What a module calls the places where it keeps the globals of its functions.
ENVIRONMENT_PREFIX = "_ZN08NumbaEnv"

# All of Numba's inside that is used here.
NEEDED_OF_LIBRARY = (
    "_ensure_finalized",
    "_finalize_final_module",
    "_get_module_for_linking",
    "_optimize_final_module",
    "_optimize_functions",
    "_raise_if_finalized",
    "get_pointer_to_function",
    "serialize_using_object_code",
)
NEEDED_OF_NEW_LIBRARY = ("_final_module", "_finalized", "_linking_libraries", "_reload_init")
NEEDED_OF_CODEGEN = ("_data_layout", "_engine", "_function_pass_manager", "_library_class")


class DeferredLibrary(codegen.JITCodeLibrary):
    """A library that is linked, optimised and emitted when an address in it is asked for."""

    _own_module = None
    _emitted = False
    held_back = False  # whether even functions that Python can call wait: see `link_together`

    def finalize(self):
        """Close the library; nothing is optimised yet."""
        stop_if_cancelled()
        self._raise_if_finalized()
        self._own_module = self._final_module
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._finalized = True

    def emit(self):
        """Link in all that is called, optimise, and emit machine code."""
        self._ensure_finalized()
        if self._emitted:
            return
        self._final_module = self._own_module.clone()
        self._final_module.name = self._own_module.name
        for library in self._below():
            self._final_module.link_in(_module_to_link(library), preserve=True)
        stop_if_cancelled()
        self._optimize_final_module()
        stop_if_cancelled()
        self._final_module.verify()
        self._finalize_final_module()
        self._set_environments()

    def get_pointer_to_function(self, name):
        """The address of a function, or 0 if there is none of that name."""
        self._ensure_finalized()
        if not self._emitted and (self.held_back or not _defines(self._own_module, name)):
            return 0  # an inner function has no wrapper, and so no reason to be emitted
        self.emit()
        return super().get_pointer_to_function(name)

    def serialize_using_object_code(self):
        self.emit()
        return super().serialize_using_object_code()

    def _get_module_for_linking(self):
        self.emit()
        return super()._get_module_for_linking()

    def _finalize_final_module(self):
        super()._finalize_final_module()
        self._emitted = True

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _below(self):
        """All libraries that this one needs, directly or not, callers before what they call.

        The linker leaves out what nobody has asked for yet, so the order matters.
        """
        seen, done, path = {self}, [], [(self, iter(self._linking_libraries))]
        while path:
            library, needed = path[-1]
            below = next((one for one in needed if one not in seen), None)
            if below is None:
                done.append(library)
                path.pop()
            else:
                seen.add(below)
                deferred = getattr(below, "_own_module", None) is not None
                path.append((below, iter(below._linking_libraries if deferred else ())))
        return done[-2::-1]

    def _set_environments(self):
        """Tell the machine code where the globals of all its functions are."""
        for variable in self._final_module.global_variables:
            if variable.name.startswith(ENVIRONMENT_PREFIX):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    self._codegen.set_env(variable.name, environment)


def _module_to_link(library):
    """The code of a library: its own alone where it is deferred, for `_below` lists the rest."""
    own = getattr(library, "_own_module", None)
    if own is None:
        return library._get_module_for_linking()
    module = own.clone()
    for function in module.functions:
        if not function.is_declaration and function.linkage == ll.Linkage.external:
            function.linkage = "linkonce_odr"
    return module


def _defines(module, name: str) -> bool:
    try:
        return not module.get_function(name).is_declaration
    except NameError:
        return False


@cache
def can_defer() -> bool:
    """Whether Numba's inside is as expected, and deferring is not switched off."""
    if os.environ.get("MJHMC_NUMBA_DEFER") == "0":
        return False
    try:
        generator = cpu_target.target_context.codegen()
        library = generator.create_library("probe")
        return (
            generator._library_class is codegen.JITCodeLibrary
            and all(callable(getattr(codegen.JITCodeLibrary, n)) for n in NEEDED_OF_LIBRARY)
            and all(hasattr(library, name) for name in NEEDED_OF_NEW_LIBRARY)
            and all(hasattr(generator, name) for name in NEEDED_OF_CODEGEN)
            and callable(generator._engine.is_symbol_defined)
            and callable(type(generator).set_env)
        )
    except Exception:  # whatever it is, it is not the Numba that we know
        return False


@contextmanager
def _deferring() -> Iterator[None]:
    generator = cpu_target.target_context.codegen()

    def set_env(name, environment):
        # What is not emitted yet has no address; `_set_environments` comes back to it.
        if generator._engine.is_symbol_defined(name):
            type(generator).set_env(generator, name, environment)

    with global_compiler_lock:  # other threads wait for it before they compile anything
        if generator._library_class is DeferredLibrary:
            yield
            return
        usual, collecting = generator._library_class, gc.isenabled()
        generator._library_class, generator.set_env = DeferredLibrary, set_env
        # A compiler makes many objects that stay: looking for garbage among them is in vain.
        gc.disable()
        try:
            with quick_passes():
                yield
        finally:
            generator._library_class = usual
            del generator.set_env
            if collecting:
                gc.enable()


def deferred_libraries():
    """A context within which Numba's libraries are deferred, where that is possible."""
    return _deferring() if can_defer() else nullcontext()


def link_together(compile_all: Callable[[], list]) -> list:
    """The results of compiling several functions, with one piece of machine code for all.

    To be called where libraries are deferred. `compile_all` returns Numba's compile results.
    """
    context = cpu_target.target_context
    DeferredLibrary.held_back = True
    try:
        results = compile_all()
    finally:
        DeferredLibrary.held_back = False
    library = context.codegen().create_library("together")
    library.enable_object_caching()
    for result in results:
        library._final_module.link_in(result.library._own_module.clone())
        for below in result.library._linking_libraries:
            library.add_linking_library(below)
    library.emit()
    return [
        result._replace(
            library=library,
            entry_point=context.get_executable(library, result.fndesc, result.environment),
        )
        for result in results
    ]
