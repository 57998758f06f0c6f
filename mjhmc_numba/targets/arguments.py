"""Checks of what the builders of distributions are given."""

import math

import numpy as np
from numpy.typing import ArrayLike

from mjhmc_numba.targets.distribution import Array

__all__ = ["dimension", "positive", "vector"]


def vector(value: ArrayLike, ndim: int, name: str) -> Array:
    """A float64 array of shape (ndim,), from a number or an array."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in ((), (ndim,)) or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be a finite number or have shape ({ndim},).")
    return np.full(ndim, array) if array.ndim == 0 else array.copy()


def positive(value: float, name: str) -> float:
    """The value, if it is positive and finite."""
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} must be positive and finite, not {value}.")
    return float(value)


def dimension(ndim: int, least: int = 1, name: str = "ndim") -> int:
    """The number, if it is whole and at least `least`."""
    if int(ndim) != ndim or ndim < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {ndim}.")
    return int(ndim)
