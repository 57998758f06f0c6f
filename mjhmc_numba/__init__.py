"""Markov jump Hamiltonian Monte Carlo, compiled with Numba and tuned by itself."""

from importlib import import_module
from types import ModuleType

from mjhmc_numba.api import run_chain, sample
from mjhmc_numba.combining import combine
from mjhmc_numba.coordinates import Metric, Reparametrisation
from mjhmc_numba.density import Target, as_target
from mjhmc_numba.errors import (
    CheckpointError,
    GradientError,
    InitialPointError,
    MemoryRequestError,
    SamplingWarning,
    SettingsError,
    SlowDensityWarning,
    StorageError,
    StuckError,
    TargetError,
)
from mjhmc_numba.estimates import Until
from mjhmc_numba.results import Result
from mjhmc_numba.settings import Settings
from mjhmc_numba.stored import Stored, from_store
from mjhmc_numba.tuned import Tuned

__version__ = "0.2.0"

__all__ = [
    "CheckpointError",
    "GradientError",
    "InitialPointError",
    "MemoryRequestError",
    "Metric",
    "Reparametrisation",
    "Result",
    "SamplingWarning",
    "Settings",
    "SettingsError",
    "SlowDensityWarning",
    "StuckError",
    "StorageError",
    "Stored",
    "Target",
    "TargetError",
    "Tuned",
    "Until",
    "as_target",
    "combine",
    "run_chain",
    "from_store",
    "sample",
]

# Modules that are imported when they are first asked for.
_LAZY = ("finite_ladder", "plots", "reference", "targets", "weights")


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
