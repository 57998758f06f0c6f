"""Where a chain runs: a reparametrisation of the density, and an affine map that whitens it."""

from mjhmc_numba.coordinates.draws import Draws
from mjhmc_numba.coordinates.metric import Metric
from mjhmc_numba.coordinates.reparametrisation import Reparametrisation
from mjhmc_numba.coordinates.transform import Transform

__all__ = ["Draws", "Metric", "Reparametrisation", "Transform"]
