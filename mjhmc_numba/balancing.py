"""Balancing functions as a user names or gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, njit
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.kernel.rates import BARKER, CUSTOM, METROPOLIS, SQRT

__all__ = ["NAMED", "Balancing", "resolve_rates"]


class Balancing(NamedTuple):
    """A balancing function as the kernel wants it."""

    code: int
    bound: float  # sup g, infinite for an unbounded g
    address: int = 0
    keepalive: Any = None


# Codes, and the largest value: 1 and 2 by derivation, sup min(1, t) and sup 2t / (1 + t).
NAMED = {
    "sqrt": Balancing(SQRT, np.inf),
    "metropolis": Balancing(METROPOLIS, 1.0),
    "barker": Balancing(BARKER, 2.0),
}


def resolve_rates(rates: str | Callable, bound: float | None = None) -> Balancing:
    """The balancing function called `rates`, or the user's own, checked.

    Parameters
    ----------
    rates : {"sqrt", "metropolis", "barker"} or callable
        A function is g(t) of t >= 0, and Numba can compile it.
    bound : float, optional
        The largest value of a user's own g, if it has one (then thinning is possible).
    """
    if isinstance(rates, str):
        if rates not in NAMED:
            raise SettingsError(f"rates={rates!r} is none of {', '.join(NAMED)}, nor a function.")
        if bound is not None:
            raise SettingsError(f"rates_bound goes with a function, not with rates={rates!r}.")
        return NAMED[rates]
    if not callable(rates):
        raise SettingsError(f"rates is a name or a function g(t), not {type(rates).__name__}.")
    python_g = rates.py_func if isinstance(rates, CPUDispatcher) else rates
    inner = rates if isinstance(rates, CPUDispatcher) else njit(rates)
    try:
        compiled = cfunc("float64(float64)")(lambda t: inner(t))
    except NumbaError as error:
        raise SettingsError(f"rates: Numba cannot compile {python_g.__name__}:\n{error}") from error
    _check_at_zero(inner)
    _check_balancing(compiled.ctypes, bound)
    return Balancing(CUSTOM, np.inf if bound is None else float(bound), compiled.address, compiled)


def _check_at_zero(g: Callable[[float], float]) -> None:
    """g(0) is asked for where the ratio of probabilities is below the smallest double."""
    try:
        value = g(0.0)
    except Exception as error:
        raise SettingsError(f"rates: g(0) raises {type(error).__name__}: {error}") from error
    if not (np.isfinite(value) and value >= 0):
        raise SettingsError(f"rates: g(0) must be finite and not negative, not {value}.")


def _check_balancing(g: Callable[[float], float], bound: float | None) -> None:
    """g(t) = t g(1/t), positive and finite, and nowhere above its bound."""
    grid = np.logspace(-6, 6, 241)  # 20 for each factor of 10
    values = np.array([g(t) for t in grid])
    mirrored = np.array([t * g(1.0 / t) for t in grid])
    if not np.all(np.isfinite(values) & (values > 0)):
        raise SettingsError("rates: g(t) must be positive and finite for every t > 0.")
    wrong = np.abs(values - mirrored) > 1e-9 * values  # beyond rounding, whatever g is made of
    if wrong.any():
        t = grid[wrong][np.argmin(np.abs(np.log(grid[wrong])))]
        raise SettingsError(
            f"rates: a balancing function obeys g(t) = t g(1/t), but at t = {t:.3g} "
            f"g(t) = {g(t):.6g} and t g(1/t) = {t * g(1 / t):.6g}."
        )
    if bound is not None and values.max() > bound * (1 + 1e-12):  # rounded a little up
        raise SettingsError(
            f"rates_bound={bound} is not a bound: g({grid[values.argmax()]:.3g}) = "
            f"{values.max():.6g}."
        )
