"""Markov jump HMC for PyMC models."""

from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.expand import Expansion

__all__ = ["Expansion", "ModelDensity"]
