"""Whether Stein's identity holds: what would make sharper estimates wrong is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from mjhmc_numba.estimates.blocks import blocks
from mjhmc_numba.estimates.error import most_worth, standard_error
from mjhmc_numba.estimates.errors import EstimateError, IdentityError
from mjhmc_numba.estimates.features import Whitening

__all__ = [
    "FEWEST_DRAWS_PER_CHAIN",
    "check_arrays",
    "check_gradients",
    "check_identity",
    "check_walls",
    "heavy_tail",
    "z_scores",
]

# Of 4,000 means over 4 chains of 50 stationary draws, intervals of 95 % cover 94.8 % where draws
# are independent and 92.4 % where they are worth a tenth; of 25 draws 93.8 and 92.0 %, of 12 92.1
# and 90.2 %. A single chain of 50 covers 93.5 and 77.5 %.
FEWEST_DRAWS_PER_CHAIN = 50
# Above it an average of so many draws says little (Vehtari et al. 2024, for importance ratios).
HEAVY_TAIL = 0.7
FALSE_ALARM = 1e-6  # probability that sound draws are refused: none of a million runs
# Directions that are followed to a wall: 128 gradients at first, few beside those of a run.
LOOKED_AT = 64
STEP_OUT = 1.0  # whitened units beyond the outermost draw: a wall further out cuts off less than it
# Log density lost on the way to a boundary where the density vanishes: what is left, 5e-5, makes a
# boundary term below the error of some thousand draws.
VANISHES = 10.0


def heavy_tail(size: np.ndarray) -> np.ndarray:
    """The largest shape of a tail that is taken, for so many effective draws: its estimate from
    3 sqrt(size) outermost ones is known to (1 + shape) / sqrt of their number.
    """
    return HEAVY_TAIL + (1.0 + HEAVY_TAIL) / np.sqrt(3.0 * np.sqrt(np.maximum(size, 1.0)))


def check_arrays(draws: np.ndarray, grads: np.ndarray) -> None:
    """Raise unless both are (chain, draw, d), long enough and finite."""
    if draws.ndim != 3 or grads.shape != draws.shape:
        raise EstimateError(
            f"Draws and gradients have the same shape (chain, draw, d), not {draws.shape} and "
            f"{grads.shape}."
        )
    if draws.shape[1] < FEWEST_DRAWS_PER_CHAIN:
        raise EstimateError(
            f"{draws.shape[1]} draws per chain are too few to tell an error from; make at least "
            f"{FEWEST_DRAWS_PER_CHAIN}."
        )
    for what, array in (("draws", draws), ("gradients", grads)):
        if not np.isfinite(array).all():
            bad = np.argwhere(~np.isfinite(array))
            chain, draw, j = bad[0].tolist()
            raise EstimateError(
                f"{len(bad)} of the {what} are not finite, the first in chain {chain}, draw "
                f"{draw}, dimension {j}."
            )


def check_gradients(x: np.ndarray, g: np.ndarray, names: Sequence[str]) -> None:
    """Raise where a gradient (n, d) does not vary: the density is flat, or a straight slope to a
    wall.
    """
    spread = x.std(axis=0)
    # Relative to the size of the numbers, some hundred roundings.
    still = spread <= 1e-14 * np.abs(x).max(axis=0)
    if still.any():
        raise EstimateError(f"The draws of {_listed(names, still)} do not vary.")
    # In units of the draws, where it is about 1 for a density without walls. A straight slope that
    # is computed as a sum of 1e6 terms varies by 1e-10.
    flat = g.std(axis=0) * spread <= 1e-9 * (1.0 + np.abs(g.mean(axis=0)) * spread)
    if flat.any():
        raise IdentityError(
            f"The gradient of {_listed(names, flat)} does not vary, so the density is flat or ends "
            "at a wall, where Stein's identity does not hold. Use plain averages, or give the "
            "variable a transform that takes its bounds to infinity."
        )


def check_identity(
    y: np.ndarray, u: np.ndarray, of_grads: np.ndarray, names: Sequence[str]
) -> None:
    """Raise if the mean of a gradient, or of 1 + y u, is surely not 0.

    Parameters
    ----------
    y, u : (chain, draw, d) array
        Whitened draws and gradients.
    of_grads : (d,) array
        The z-scores of gradients as they came, to name the culprit.
    """
    chains, draws, d = y.shape
    limit = _limit(d)
    largest = float(of_grads.max())
    for some in blocks(d, chains * draws):
        square = y[:, :, some] * u[:, :, some]
        square += 1.0
        for values in (u[:, :, some], square):
            largest = max(largest, float(z_scores(values, limit).max()))
    if largest <= limit:
        return
    worst = of_grads > limit
    if worst.any():
        what = f"The mean gradient of {_listed(names, worst)}"
    else:
        what = "The mean of 1 + y u, draws times gradients in whitened coordinates,"
    raise IdentityError(
        f"{what} is {largest:.1f} standard errors from 0, so Stein's identity does not hold for "
        "these draws: the density has a wall or does not vanish at its boundary, its tails are too "
        "heavy, or the chains have not converged. Use plain averages."
    )


def _limit(d: int) -> float:
    """The largest of 3 z-scores for each of d dimensions that is taken for chance."""
    return NormalDist().inv_cdf(1.0 - FALSE_ALARM / (6.0 * d))


def z_scores(values: np.ndarray, limit: float | None = None) -> np.ndarray:
    """(d,): means over their errors, or what they cannot be above, if that is below the limit."""
    limit = _limit(values.shape[2]) if limit is None else limit
    chains, draws, _ = values.shape
    mean = np.abs(values.mean(axis=(0, 1)))
    # A mean that ought to be 0 is a sum of thousands of terms, rounded each.
    rounding = np.maximum(1e-12 * np.abs(values).max(axis=(0, 1)), 1e-300)
    least = values.std(axis=(0, 1)) / np.sqrt(chains * draws * most_worth(chains * draws))
    z = mean / np.maximum(least, rounding)
    close = np.flatnonzero(z > limit)
    if len(close):
        error, _ = standard_error(values[:, :, close])
        z[close] = mean[close] / np.maximum(error, rounding[close])
    return z


def _listed(names: Sequence[str], chosen: np.ndarray) -> str:
    """Up to three names, and how many more."""
    at = np.flatnonzero(chosen).tolist()
    more = f" and {len(at) - 3} more" if len(at) > 3 else ""
    return ", ".join(names[j] for j in at[:3]) + more


def check_walls(
    logp: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    whitening: Whitening,
    names: Sequence[str],
) -> None:
    """Raise if the density ends at a wall next to the draws.

    A wall that few draws have felt moves the mean gradient by less than its error. So from the
    outermost draw along each whitened direction one goes further out, and where there is no
    density, to the boundary: at a wall it is as high there as at the draw.

    Parameters
    ----------
    logp : callable
        Log densities (n,) at points (n, d).
    x, y : (n, d) array
        Draws, and the same whitened.
    """
    d = x.shape[1]
    axes = np.unique(np.linspace(0, d - 1, min(d, LOOKED_AT)).astype(int))
    outermost = np.concatenate([y[:, axes].argmax(axis=0), y[:, axes].argmin(axis=0)])
    step = np.zeros((2 * len(axes), d))
    step[np.arange(2 * len(axes)), np.tile(axes, 2)] = np.repeat([STEP_OUT, -STEP_OUT], len(axes))
    inside, way = x[outermost], whitening.unwhiten(step) - whitening.unwhiten(np.zeros(d))
    outside = ~np.isfinite(logp(inside + way))
    if not outside.any():
        return
    inside, way = inside[outside], way[outside]
    low, high = np.zeros(len(way)), np.ones(len(way))
    for _ in range(40):  # to 1e-12 of the way
        middle = (low + high) / 2
        is_in = np.isfinite(logp(inside + middle[:, None] * way))
        low, high = np.where(is_in, middle, low), np.where(is_in, high, middle)
    lost = logp(inside) - logp(inside + low[:, None] * way)
    wall = lost < VANISHES
    if wall.any():
        culprit = np.zeros(d, bool)
        culprit[np.abs(way[wall] / whitening.scale).argmax(axis=1)] = True
        raise IdentityError(
            f"The density ends at a wall next to the draws, along {_listed(names, culprit)}, so "
            "Stein's identity does not hold. Use plain averages, or give the variable a transform "
            "that takes its bounds to infinity."
        )
