"""Markov jump HMC for PyMC models.

Two ways to sample: `MJHMC`, a step method for `pm.sample`, which goes with all that PyMC offers and
beside other step methods; and `sample`, whole chains in native code, which is quicker.
"""

try:
    import pymc as _  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("pymc", "pytensor", "matplotlib"):
        raise
    raise ModuleNotFoundError(
        f"mjhmc_numba.pymc needs {error.name}, which is not installed: "
        "pip install 'mjhmc_numba[pymc]'",
        name=error.name,
    ) from None

from mjhmc_numba.estimates import Until
from mjhmc_numba.pymc.calibration import Calibration, sbc
from mjhmc_numba.pymc.compare import Comparison, compare
from mjhmc_numba.pymc.compiled import CompiledModel, compile  # noqa: A004
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.drop_in import sample
from mjhmc_numba.pymc.estimates import estimates, log_marginal_likelihood
from mjhmc_numba.pymc.expand import Expansion
from mjhmc_numba.pymc.mapping import Mapped
from mjhmc_numba.pymc.registration import Registration, fit_bambi, register
from mjhmc_numba.pymc.report import report
from mjhmc_numba.pymc.sampler import MJHMCSampler
from mjhmc_numba.pymc.sampling import Sampling
from mjhmc_numba.pymc.step import MJHMC
from mjhmc_numba.pymc.weighted import resample, weighted_summary

__all__ = [
    "Calibration",
    "Comparison",
    "CompiledModel",
    "Expansion",
    "MJHMC",
    "MJHMCSampler",
    "Mapped",
    "ModelDensity",
    "Registration",
    "Sampling",
    "Until",
    "compare",
    "compile",
    "estimates",
    "fit_bambi",
    "log_marginal_likelihood",
    "register",
    "report",
    "resample",
    "sample",
    "sbc",
    "weighted_summary",
]
