"""What costs a compiler long and changes nothing in the machine code of a density.

Numba copies a function that is marked to be inlined into its callers, again and again, before it
knows any types; LLVM inlines it anyway. And an assignment to a slice brings along the text of its
error message, put together from the shapes by string functions that take a second to compile. The
message of a density is never seen: its C function returns a code, and a caller that wants to
know more asks the density in Python.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from numba.core.compiler_lock import global_compiler_lock
from numba.core.untyped_passes import InlineInlinables
from numba.extending import overload
from numba.np import arrayobj

__all__ = ["shortcuts"]


def raise_different_shapes(source_shapes, index_shape):
    """What an assignment to a slice calls when the shapes differ."""
    raise ValueError("cannot assign slice from input of different size")


@overload(raise_different_shapes)
def _raise_different_shapes(source_shapes, index_shape):
    return raise_different_shapes


def _inline_nothing(self, state) -> bool:
    return False  # nothing was changed


@contextmanager
def shortcuts(*, inlining: bool = False) -> Iterator[None]:
    """Within it Numba compiles a density faster.

    Parameters
    ----------
    inlining : bool
        Inline what is marked to be, as Numba does. A function may need it to have types.
    """
    with global_compiler_lock:  # other threads wait for it before they compile anything
        run_pass, name = InlineInlinables.run_pass, "raise_with_shape_context"
        raising = getattr(arrayobj, name, None)  # another Numba may have another name for it
        if not inlining:
            InlineInlinables.run_pass = _inline_nothing
        setattr(arrayobj, name, raise_different_shapes)
        try:
            yield
        finally:
            InlineInlinables.run_pass = run_pass
            setattr(arrayobj, name, raising)
