"""Where a chain on a model starts, and its random stream: the same for both ways to sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable

from mjhmc_numba.density import Target
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.gradient_check import gradient_fault
from mjhmc_numba.initial import Region, first_finite, is_finite
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.errors import ModelGradientError, StartError, UnknownVariableError

__all__ = [
    "JITTER_RETRIES",
    "chain_seed",
    "check_custom_gradients",
    "check_initvals",
    "find_start",
    "jitter_tries",
    "start_region",
]

JITTER = 1.0  # starts are uniform within this distance in each unconstrained dimension, as PyMC's
JITTER_RETRIES = 50  # PyMC makes 10 and Stan 100; each takes one gradient


def jitter_tries(jitter: bool, retries: int) -> int:
    """Random starts to try: one and, as PyMC counts, `retries` more; 0 without jitter."""
    if not isinstance(retries, (int, np.integer)) or isinstance(retries, bool) or retries < 0:
        raise SettingsError(f"jitter_max_retries is a whole number >= 0, not {retries!r}.")
    return 1 + int(retries) if jitter else 0


def chain_seed(rng: np.random.Generator) -> np.random.SeedSequence:
    """The seed of a chain, from the generator that PyMC gives it."""
    return np.random.SeedSequence(rng.integers(2**32, size=4).tolist())


def check_initvals(initvals: Any, chains: int | None) -> None:
    """Raise unless these are values by name, or such values for each of `chains` chains (any
    number of them, if that is None).
    """
    if initvals is None or isinstance(initvals, Mapping):
        each = [initvals]
    elif isinstance(initvals, Sequence) and not isinstance(initvals, (str, bytes)):
        each = list(initvals)
        if chains is not None and len(each) != chains:
            raise StartError(f"initvals are {len(each)} for {chains} chains.")
    else:
        raise StartError(
            "initvals is a mapping of names to values, or a sequence with one for each chain, "
            f"not {type(initvals).__name__}."
        )
    for values in each:
        if values is None:
            continue
        if not isinstance(values, Mapping):
            raise StartError(f"The initvals of a chain are a mapping, not {values!r}.")
        for name in values:
            if not isinstance(name, (str, Variable)):
                raise UnknownVariableError(f"initvals has {name!r}, which is no name.")


def start_region(density: ModelDensity, point: Mapping[str, Any], *, jitter: bool) -> Region:
    """Where chains start whose initial point this is."""
    return Region(density.layout.ravel(point), JITTER if jitter else 0.0)


def find_start(
    density: ModelDensity,
    target: Target,
    point: Mapping[str, Any],
    rng: np.random.Generator,
    *,
    tries: int,
) -> np.ndarray:
    """A vector with a finite density: the first of `tries` around `point`, or that without any.

    Raises
    ------
    StartError
        if the density is not finite at `point` either; names the term
    """
    region = start_region(density, point, jitter=tries > 0)
    if not tries:
        x = region.centre
        return x if is_finite(target, x) else density.check_start(point)
    x, is_found, _ = first_finite(target, region, rng, tries)
    if is_found:
        return x
    density.check_start(point)
    raise StartError(
        f"The log density is finite at the initial point, but at none of {tries} random "
        "points around it. Give initvals further inside the support, or jitter=False."
    )


def check_custom_gradients(density: ModelDensity, target: Target, x: np.ndarray) -> None:
    """Raise if the gradient is wrong beside x, where some of it was written by hand.

    The directions of the comparison are always the same: the chain's own stream is not touched.
    """
    if not density.custom_ops:
        return
    fault = gradient_fault(target, x, np.random.default_rng(0))
    if fault is not None:
        raise ModelGradientError(
            f"{fault} The model has operations with gradients of their own: "
            f"{', '.join(density.custom_ops)}. Correct them (pytensor.gradient.verify_grad tests "
            "one alone), or pass check_gradient=False if the density is not smooth there."
        )
