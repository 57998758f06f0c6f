"""PyTensor's machine in Python, without that in C being built first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["in_python_machine"]

MACHINE_IN_C = "pytensor.link.c.cvm"


@contextmanager
def in_python_machine() -> Iterator[None]:
    """Within it, what PyTensor compiles without Numba runs in its machine in Python.

    PyMC compiles initial points in the mode FAST_COMPILE, which runs there anyway. But PyTensor
    imports its machine in C before it looks which one it needs. The first time on a machine this
    calls the C compiler six times, about one of the nine CPU seconds of a whole run, and it raises
    where PyTensor's folder cannot be made. A program that has imported it already keeps it.
    """
    modules: dict[str, Any] = sys.modules
    if MACHINE_IN_C in modules:
        yield
        return
    modules[MACHINE_IN_C] = None  # an import raises ImportError, which PyTensor expects
    try:
        yield
    finally:
        if modules.get(MACHINE_IN_C) is None:
            modules.pop(MACHINE_IN_C, None)
