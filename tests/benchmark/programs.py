"""The programs of the benchmark, imported as they import each other."""

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parents[2] / "examples" / "benchmark"


@contextmanager
def importable():
    """Their folder is on the path; afterwards their modules are forgotten."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROGRAMS))
        yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(PROGRAMS)):
            del sys.modules[name]
