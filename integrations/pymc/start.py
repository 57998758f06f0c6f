"""Where a chain on a model starts, and its random stream: the same for both ways to sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mjhmc_numba.density import Target
from mjhmc_numba.errors import InitialPointError
from mjhmc_numba.initial import Region, first_finite, is_finite
from mjhmc_numba.pymc.density import ModelDensity

__all__ = ["chain_seed", "find_start", "start_region"]

JITTER = 1.0  # starts are uniform within this distance in each unconstrained dimension, as PyMC's
JITTER_TRIES = 50


def chain_seed(rng: np.random.Generator) -> np.random.SeedSequence:
    """The seed of a chain, from the generator that PyMC gives it."""
    return np.random.SeedSequence(rng.integers(2**32, size=4).tolist())


def start_region(density: ModelDensity, point: Mapping[str, Any], *, jitter: bool) -> Region:
    """Where chains start whose initial point this is."""
    return Region(density.layout.ravel(point), JITTER if jitter else 0.0)


def find_start(
    density: ModelDensity,
    target: Target,
    point: Mapping[str, Any],
    rng: np.random.Generator,
    *,
    jitter: bool,
) -> np.ndarray:
    """A vector with a finite density: at `point`, or at random around it.

    Raises
    ------
    StartError
        if the density is not finite at `point` either; names the term
    """
    region = start_region(density, point, jitter=jitter)
    if not jitter:
        x = region.centre
        return x if is_finite(target, x) else density.check_start(point)
    x, is_found, _ = first_finite(target, region, rng, JITTER_TRIES)
    if is_found:
        return x
    density.check_start(point)
    raise InitialPointError(
        f"The log density is finite at the initial point, but at none of {JITTER_TRIES} random "
        "points around it. Give initvals further inside the support, or jitter=False."
    )
