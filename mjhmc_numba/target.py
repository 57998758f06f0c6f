"""Moved to `mjhmc_numba.density`."""

from mjhmc_numba.density import Target, as_target

__all__ = ["Target", "as_target"]
