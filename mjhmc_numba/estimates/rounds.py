"""As many draws as an error needs, and no more.

A caller that can continue chains gives `refine` a function that makes more draws of them. After
each round the sharpened errors say how many are still needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mjhmc_numba.convergence import split_r_hat
from mjhmc_numba.estimates.errors import EstimateError
from mjhmc_numba.estimates.estimate import estimate
from mjhmc_numba.estimates.functions import Functions, as_columns
from mjhmc_numba.estimates.table import Estimates

__all__ = ["Refined", "Round", "refine"]

CAREFUL = 1.2  # times the draws that the errors ask for, as they are known only roughly
MOST_GROWTH = 2.0  # of the number of draws in one round

More = Callable[[int], tuple[np.ndarray, np.ndarray]]


class Round(NamedTuple):
    """Where it stands after a round.

    Parameters
    ----------
    draws : int
        Per chain, so far.
    error : float
        The largest Monte Carlo error over its tolerance: 1 is small enough.
    r_hat : float
        The largest split R-hat.
    """

    draws: int
    error: float
    r_hat: float


class Refined(NamedTuple):
    """What `refine` returns.

    Parameters
    ----------
    estimates : Estimates
        From all draws.
    draws, grads : (chain, draw, d) array
    rounds : list of Round
    met : bool
        False if the cap came before the tolerance.
    """

    estimates: Estimates
    draws: np.ndarray
    grads: np.ndarray
    rounds: list[Round]
    met: bool


def refine(
    more: More,
    tolerance: float,
    functions: Functions = None,
    *,
    in_sd: bool = True,
    first: int = 250,
    most: int = 10_000,
    r_hat: float = 1.01,
    names: Sequence[str] | None = None,
    report: Callable[[Round], None] | None = None,
    **options,
) -> Refined:
    """Draw in rounds until the errors of means are below a tolerance.

    Parameters
    ----------
    more : callable
        n -> draws and gradients (chain, n, d) that continue the chains.
    tolerance : float
        Largest Monte Carlo error of any mean.
    functions : see `estimate`
        Callables of the draws, or None; arrays belong to one round and are refused.
    in_sd : bool
        Whether the tolerance is in standard deviations of each function, or absolute.
    first, most : int
        Draws per chain in the first round and in all.
    r_hat : float
        The largest split R-hat of the functions that is taken for convergence; without it no
        error counts.
    names : sequence of str, optional
        Of the dimensions.
    report : callable, optional
        Told of each round.
    **options
        See `estimate`.
    """
    if not tolerance > 0:
        raise EstimateError(f"A tolerance is positive, not {tolerance}.")
    if isinstance(functions, np.ndarray):
        raise EstimateError("Give functions of the draws, which are not known yet, not arrays.")
    draws, grads = more(min(first, most))
    rounds: list[Round] = []
    while True:
        found = estimate(draws, grads, functions, names=names, **options)
        rounds.append(_round(found, draws, functions, tolerance, in_sd))
        if report is not None:
            report(rounds[-1])
        met = rounds[-1].error <= 1.0 and rounds[-1].r_hat <= r_hat
        n = draws.shape[1]
        if met or n >= most:
            return Refined(found, draws, grads, rounds, met)
        growth = min(CAREFUL * rounds[-1].error ** 2, MOST_GROWTH)
        wanted = min(max(math.ceil(n * growth), n + first), most)
        new_draws, new_grads = more(wanted - n)
        draws = np.concatenate([draws, new_draws], axis=1)
        grads = np.concatenate([grads, new_grads], axis=1)


def _round(found: Estimates, draws, functions, tolerance: float, in_sd: bool) -> Round:
    unit = np.where(found.sd > 0, found.sd, 1.0) if in_sd else 1.0
    error = found.mcse_mean / (tolerance * unit)
    values, _ = as_columns(functions, draws, [""] * draws.shape[2])
    ratios = split_r_hat(values)
    moving = np.isfinite(ratios)
    worst = float(ratios[moving].max()) if moving.any() else 1.0
    # An error that is not known is not small.
    return Round(draws.shape[1], float(np.where(np.isnan(error), np.inf, error).max()), worst)
