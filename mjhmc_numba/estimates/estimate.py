r"""Expectations from draws and gradients, sharper than averages of the draws.

For any coefficients the control variates :math:`\phi = \Delta f + \nabla f \cdot \nabla\log\pi`
have mean zero, so :math:`g - \beta\cdot\phi` has the mean of g; regression finds coefficients that
leave little of its variance (Assaraf and Caffarel 1999; Mira, Solgi and Imparato 2013; Oates,
Girolami and Chopin 2017; South et al. 2022, 2023). No further gradient is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from mjhmc_numba.coordinates import Reparametrisation
from mjhmc_numba.estimates import checks
from mjhmc_numba.estimates.blocks import blocks
from mjhmc_numba.estimates.error import in_pieces, monte_carlo_error
from mjhmc_numba.estimates.errors import EstimateError, IdentityError
from mjhmc_numba.estimates.features import Whitening
from mjhmc_numba.estimates.fit import better_system, deal_folds, residuals
from mjhmc_numba.estimates.functions import Functions, as_columns
from mjhmc_numba.estimates.gradients import evaluate
from mjhmc_numba.estimates.table import Estimates
from mjhmc_numba.results import Result

__all__ = ["estimate"]

ROUNDING_OF_MEANS = 4 * np.finfo(float).eps  # of a mean of draws and one of squares, twice each
MOST_COVARIANCES = 40  # functions: 780 products are a regression of the size of the others


class _Averages(NamedTuple):
    """Of standardised functions: mean, its error, gain, effective draws, shape of the tails."""

    mean: np.ndarray
    error: np.ndarray
    gain: np.ndarray
    ess: np.ndarray
    tail: np.ndarray


def estimate(
    draws: np.ndarray | Result,
    grads: np.ndarray | None = None,
    functions: Functions = None,
    *,
    density=None,
    names: Sequence[str] | None = None,
    covariances: bool = False,
    reparametrisation: Reparametrisation | None = None,
    if_refused: str = "raise",
    cores: int | None = None,
) -> Estimates:
    """Means and standard deviations of functions of the draws, with Monte Carlo errors.

    Parameters
    ----------
    draws : (chain, draw, d) array or Result
        Of any sampler, unweighted, on all of space (variables with bounds transformed).
    grads : (chain, draw, d) array, optional
        Gradients of the log density there; if not given, those that a `Result` has, or computed
        from `density`.
    functions : None, array, callable, or mapping of names to these
        See `as_columns`; the draws themselves by default.
    density : Target or callable, optional
        See `evaluate`. With it, walls are looked for as well.
    names : sequence of str, optional
        Of the dimensions.
    covariances : bool
        Whether to estimate the covariances of all functions too.
    reparametrisation : Reparametrisation, optional
        Used where it brings more than the coordinates of the draws; that of the first chain for
        a `Result`.
    if_refused : {"raise", "plain"}
        What to do where Stein's identity does not hold: raise `IdentityError`, or return plain
        averages with the sentence in `refused`.
    cores : int, optional
        Threads for gradients.

    Returns
    -------
    Estimates
    """
    if if_refused not in ("raise", "plain"):
        raise EstimateError(f'if_refused is "raise" or "plain", not {if_refused!r}.')
    if isinstance(draws, Result):
        names = draws.names if names is None else names
        reparametrisation = reparametrisation or draws.tuned[0].reparametrisation
        grads = draws.stats.get("gradient") if grads is None else grads
        draws = draws.draws
    draws = np.asarray(draws, dtype=float)
    if grads is None:
        if density is None:
            raise EstimateError("Give the gradients at the draws, or the density.")
        _, grads = evaluate(density, draws, cores)
    grads = np.asarray(grads, dtype=float)
    checks.check_arrays(draws, grads)
    names = [f"x[{j}]" for j in range(draws.shape[2])] if names is None else list(names)
    values, columns = as_columns(functions, draws, names)
    if covariances and len(columns) > MOST_COVARIANCES:
        raise EstimateError(
            f"Covariances of {len(columns)} functions are too many; choose {MOST_COVARIANCES}."
        )
    # Small matrices: more threads would wait for each other longer than they work.
    with _blas().limit(limits=1, user_api="blas"):
        refused, whitened = "", []
        try:
            whitened = _whitened(draws, grads, density, names, reparametrisation)
        except IdentityError as error:
            if if_refused == "raise":
                raise
            refused = str(error)
        return _tabulate(values, columns, whitened, refused, covariances)


@cache
def _blas() -> ThreadpoolController:
    """NumPy's matrices. To look for them takes a fifth of the time of a small model's estimates."""
    return ThreadpoolController()


def _whitened(draws, grads, density, names, reparametrisation) -> list[tuple]:
    """Checked y and u (n, d) in each system of coordinates."""
    shape, d = draws.shape, draws.shape[2]
    # Each dimension in one piece of memory, as all that follows goes along the draws; copies, which
    # are written over.
    y, u = (np.array(a.transpose(2, 0, 1), order="C").reshape(d, -1).T for a in (draws, grads))
    checks.check_gradients(y, u, names)
    of_grads = checks.z_scores(u.reshape(shape))
    others = [] if reparametrisation is None else [_in_coordinates(reparametrisation, y, u)]
    whitening = Whitening.fit(y, u)
    whitening.apply_in_place(y, u)
    checks.check_identity(y.reshape(shape), u.reshape(shape), of_grads, names)
    if density is not None:
        x = draws.reshape(-1, d)
        checks.check_walls(lambda p: evaluate(density, p, 1)[0], x, y, whitening, names)
    for z, by_z in others:
        Whitening.fit(z, by_z).apply_in_place(z, by_z)
    return [(y, u), *others]


def _in_coordinates(found: Reparametrisation, x, g) -> tuple[np.ndarray, np.ndarray]:
    """Positions and gradients (n, d) in coordinates that were found."""
    z, gz = np.empty_like(x), np.empty_like(g)
    for some in blocks(*x.shape):
        shape = found.shape(x[some])
        z[some] = found.to_z(x[some], shape)
        gz[some] = found.gradient_to_z(x[some], g[some], shape)
    return z, gz


def _tabulate(values, names, systems, refused: str, covariances: bool) -> Estimates:
    """Averages of the functions, of their squares and products, put together."""
    q = len(names)
    finite = np.isfinite(values).all(axis=(0, 1))
    if not finite.all():
        values = np.where(finite, values, 0.0)
    centre, scale = values.mean(axis=(0, 1)), values.std(axis=(0, 1))
    varies = scale > ROUNDING_OF_MEANS * np.abs(centre)
    i, j = np.triu_indices(q, 1) if covariances else (np.zeros(0, int),) * 2
    f = in_pieces(np.empty((*values.shape[:2], 2 * q + len(i))))
    z, squares, products = f[:, :, :q], f[:, :, q : 2 * q], f[:, :, 2 * q :]
    np.subtract(values, centre, out=z)
    z /= np.where(varies, scale, np.inf)
    np.multiply(z, z, out=squares)
    squares -= 1.0
    np.multiply(z[:, :, i], z[:, :, j], out=products)
    level = products.mean(axis=(0, 1))
    products -= level
    a = _average(f, systems)
    rounding = ROUNDING_OF_MEANS * (1.0 + np.abs(centre) / np.where(varies, scale, 1.0))
    error = np.where(varies, np.maximum(a.error[:q], rounding), 0.0)
    # About the plain mean the square is too large by how far that is from the mean.
    variance = 1.0 + a.mean[q : 2 * q] - a.mean[:q] ** 2 + a.error[:q] ** 2
    variance = np.where(variance > 0, variance, 1.0)
    error_sd = np.hypot(a.error[q : 2 * q], 2 * a.mean[:q] * a.error[:q]) / (2 * np.sqrt(variance))
    error_sd = np.where(varies, np.maximum(error_sd, ROUNDING_OF_MEANS), 0.0)
    too_heavy = a.tail > checks.heavy_tail(a.ess)
    heavy, heavy_square = too_heavy[:q], too_heavy[q : 2 * q]
    return Estimates(
        names=names,
        mean=np.where(finite, centre + scale * a.mean[:q], np.nan),
        sd=np.where(finite, scale * np.sqrt(variance), np.nan),
        mcse_mean=np.where(finite & ~heavy, scale * error, np.nan),
        mcse_sd=np.where(finite & ~heavy & ~heavy_square, scale * error_sd, np.nan),
        gain=np.where(finite & varies, a.gain[:q], 1.0),
        gain_sd=np.where(finite & varies, a.gain[q : 2 * q], 1.0),
        ess=np.where(finite, a.ess[:q], np.nan),
        notes=_notes(names, finite, heavy, heavy_square, a.tail),
        refused=refused,
        **_covariances(a, i, j, level, scale, variance, error_sd) if covariances else {},
    )


def _average(f: np.ndarray, systems: list[tuple]) -> _Averages:
    """Of functions (chain, draw, k) of unit scale, which are written over: sharpened, where that is
    an improvement.
    """
    error, ess, tail = monte_carlo_error(f)
    mean = f.mean(axis=(0, 1))
    if not systems:
        return _Averages(mean, error, np.ones_like(mean), ess, tail)
    fold, flat = deal_folds(*f.shape[:2]).ravel(), f.reshape(-1, f.shape[2])
    sharp = residuals(*better_system(systems, flat, fold), flat, fold)
    sharp_error = np.maximum(monte_carlo_error(sharp.reshape(f.shape)).error, ROUNDING_OF_MEANS)
    better = (sharp_error < error) & (tail <= checks.heavy_tail(ess))
    gain = np.where(better, (error / sharp_error) ** 2, 1.0)
    mean = np.where(better, sharp.mean(axis=0), mean)
    return _Averages(mean, np.where(better, sharp_error, error), gain, ess, tail)


def _covariances(a: _Averages, i, j, level, scale, variance, error_sd) -> dict[str, np.ndarray]:
    """Symmetric matrices of covariances and their errors."""
    q = len(scale)
    covariance, error = np.diag(variance), np.diag(2 * np.sqrt(variance) * error_sd)
    value = level + a.mean[2 * q :] - a.mean[i] * a.mean[j]
    by_means = np.hypot(a.mean[i] * a.error[j], a.mean[j] * a.error[i])
    covariance[i, j] = covariance[j, i] = value
    error[i, j] = error[j, i] = np.hypot(a.error[2 * q :], by_means)
    size = np.outer(scale, scale)
    return {"covariance": covariance * size, "mcse_covariance": error * size}


def _notes(names, finite, heavy, heavy_square, tail) -> dict[str, str]:
    notes = {}
    for k, name in enumerate(names):
        if not finite[k]:
            notes[name] = "some values are not finite."
        elif heavy[k]:
            notes[name] = (
                f"its tails are so heavy (Pareto shape {tail[k]:.2f}) that these draws do not tell "
                "the error of its mean; the plain average is given."
            )
        elif heavy_square[k]:
            notes[name] = (
                f"the tails of its square are so heavy (Pareto shape {tail[len(names) + k]:.2f}) "
                "that these draws do not tell the error of its sd; the plain one is given."
            )
    return notes
