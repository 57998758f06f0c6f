"""Markov jump Hamiltonian Monte Carlo, compiled with Numba and tuned by itself."""

from mjhmc_numba.api import sample, sample_hmc
from mjhmc_numba.coordinates import Metric, Reparametrisation
from mjhmc_numba.errors import (
    GradientError,
    InitialPointError,
    MemoryRequestError,
    SamplingWarning,
    SettingsError,
    SlowDensityWarning,
    TargetError,
)
from mjhmc_numba.results import Result
from mjhmc_numba.settings import Settings
from mjhmc_numba.target import Target, as_target
from mjhmc_numba.tuned import Tuned

__version__ = "0.1.0"

__all__ = [
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
    "Target",
    "TargetError",
    "Tuned",
    "as_target",
    "sample",
    "sample_hmc",
]
