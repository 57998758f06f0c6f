r"""A reparametrisation from draws and gradients, for given parents.

In coordinates that suit the sampler the target is nearly standard normal, z = -grad. So location l,
shift t and log scale s of each child are fitted such that the mean of

.. math:: (e^{-s} (x - l) - t)^2 + (e^s \nabla_x\log\pi)^2

is smallest (the Fisher divergence from a standard normal, up to a constant; the measure that nutpie
has for its metric, see metric.py). For given l and t this is convex in the coefficients of s. For
given s, :math:`x + e^{2 s} \nabla_x\log\pi` is where the child would lie if its dimension were
normal given the others, and l and t are fitted to that. What of the coefficients is noise is told
by how they spread over the children (James and Stein 1961).
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from mjhmc_numba.coordinates import Reparametrisation
from mjhmc_numba.coordinates.reparametrisation import features
from mjhmc_numba.warmup.metric import scales

__all__ = ["BLOCK", "ROUNDS", "TRIAL_ROUNDS", "Parents", "fit", "in_coordinates"]

# Measured by the held-out loss (see parents.py) on a funnel, eight schools and slight dependences
# of 50 children, 3 seeds each.
# Features: constant from so many times the extent of the draws beyond them (1 to 64: no change),
# with bends of so many standard deviations (0.05 to 1: 0.343 to 0.313 on eight schools).
BEYOND, BEND = 4.0, 0.3
NEWTON_STEPS = 2  # of the fit of s, each time l and t have been fitted (1 to 4: no change)
# Of fitting them in turn, at most, and to see what they are worth: 2 rounds leave 0.331 on eight
# schools and 4 leave 0.325, as any more; funnels that draws of a chain have seen a part of take 12.
ROUNDS, TRIAL_ROUNDS = 12, 2
UNCHANGED = 0.01  # the fit ends when log scales change by less: 1 % of a scale (0 to 0.1: 0.006)
PULL = 1e-6  # of all coefficients towards 0, so that each is determined (0 to 0.01: no change)
BLOCK = 8  # draws, of which the next block is nearly independent (1 to 32: 0.002)


class Parents(NamedTuple):
    """Dimensions that the scales of the children depend on, and those that their locations do.

    A fixed location is not fitted: without location parents it is 0; with them, children that the
    first fit places near one of them lie there exactly, as in a hierarchy, and only the others are
    fitted. Deeper in a funnel than any draw has been nothing less than the exact location will do.
    """

    scale: tuple[int, ...] = ()
    location: tuple[int, ...] = ()
    fixed_location: bool = False

    @property
    def all(self) -> list[int]:
        return [*self.scale, *self.location]


def fit(
    x: np.ndarray, grad: np.ndarray, parents: Parents, rounds: int = ROUNDS
) -> Reparametrisation:
    """The reparametrisation with these parents.

    Parameters
    ----------
    x, grad : (n, d) arrays
        Draws and gradients of the log density there.
    parents : Parents
        What the children, all other dimensions, depend on.
    rounds : int
        Number of times that l, t and s are fitted in turn.
    """
    is_child = np.ones(x.shape[1], bool)
    is_child[parents.all] = False
    children = np.flatnonzero(is_child)
    scale_parents, location_parents = (
        np.array(k, np.int64) for k in (parents.scale, parents.location)
    )
    r, g = x[:, children], grad[:, children]
    knots = _knots(x[:, scale_parents])
    values, features_ = x[:, location_parents], features(x[:, scale_parents], knots)
    by_parent, by_feature = _Basis(values), _Basis(features_)
    by_both = _Basis(np.column_stack([values, features_])) if parents.location else by_feature
    log_scale = _first_log_scale(r, g, by_feature.F)
    is_zero = parents.fixed_location and not parents.location
    place = _Place(by_parent, by_both, np.full(children.size, is_zero))
    for _ in range(rounds):
        where = place.fit(r, g, by_feature.F @ log_scale.T)
        is_first = parents.fixed_location and not place.fixed.any()
        if is_first:
            place.fix_nearest()
        scaled = _LogScale(r - where, g, by_feature, log_scale)
        change = np.abs(scaled.coefficients - log_scale).max(initial=0.0)
        log_scale = scaled.coefficients
        if is_first:
            place.fix_alike(log_scale)
        if change < UNCHANGED:
            break
    log_scale = _shrunk(log_scale, scaled.noise())
    return Reparametrisation(
        children,
        location_parents,
        by_parent.raw(place.location),
        scale_parents,
        knots,
        by_feature.raw(log_scale),
        by_both.raw(place.shift),
    )


def _knots(u: np.ndarray) -> np.ndarray:
    """Of the features of parents u (n, k)."""
    low, high = u.min(axis=0), u.max(axis=0)
    beyond = BEYOND * (high - low)
    width = np.maximum(BEND * u.std(axis=0), 1e-300)
    return np.column_stack([low - beyond, _middle(u), high + beyond, width])


def _middle(a: np.ndarray) -> np.ndarray:
    """The median of each column; the upper one of two in the middle."""
    k = len(a) // 2
    return np.partition(a, k, axis=0)[k]


class _Basis:
    """The constant 1, and columns (n, p) with mean 0 and variance 1."""

    def __init__(self, columns: np.ndarray):
        self.mean, self.sd = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-300)
        self.F = np.column_stack([np.ones(len(columns)), (columns - self.mean) / self.sd])

    @cached_property
    def _pairs(self) -> np.ndarray:
        n, p = self.F.shape
        return (self.F[:, :, None] * self.F[:, None, :]).reshape(n, p * p)

    def products(self, weights: np.ndarray) -> np.ndarray:
        """(m, p, p): the mean of weight F F^T for each of the m columns of weights (n, m)."""
        n, p = self.F.shape
        return (weights.T @ self._pairs).reshape(-1, p, p) / n

    def raw(self, coefficients: np.ndarray) -> np.ndarray:
        """Those of the columns as they were."""
        raw = coefficients.copy()
        raw[:, 1:] /= self.sd
        raw[:, 0] -= raw[:, 1:] @ self.mean
        return raw


def _first_log_scale(x, grad, F) -> np.ndarray:
    """Least squares of -log |grad|, which varies as s does wherever the location is."""
    products = F.T @ F / len(F) + PULL * _but_first(F.shape[1])
    log_scale = np.linalg.solve(products, F.T @ -_log_size(grad) / len(F)).T
    log_scale[:, 0] = np.log(scales(x, grad))
    return log_scale


def _log_size(a: np.ndarray) -> np.ndarray:
    """The logarithm of |a|, the smallest taken as a hundredth of their median."""
    size = np.abs(a)
    return np.log(np.maximum(size, np.maximum(0.01 * _middle(size), 1e-300)))


def _noise(errors: np.ndarray, F: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """(m, p): the variances of coefficients that make the means of errors times F vanish.

    Draws are alike from one to the next, so that sums over blocks of them are what counts.

    Parameters
    ----------
    errors : (n, m) array
        Their mean times each feature is 0 at the fitted coefficients.
    F : (n, p) array
        The features.
    curvature : (m, p, p) or (p, p) array
        The derivative of those means by the coefficients; (p, p): the same for all.
    """
    sums = np.matmul(_in_blocks(errors).transpose(0, 2, 1), _in_blocks(F)) / len(F)
    inverse = np.linalg.inv(curvature)
    moved = np.matmul(sums.transpose(1, 0, 2), inverse)
    return np.einsum("mbp,mbp->mp", moved, moved)


def _in_blocks(a: np.ndarray) -> np.ndarray:
    """(b, BLOCK, m) from rows (n, m), the last block filled up with zeros."""
    filled = np.concatenate([a, np.zeros((-len(a) % BLOCK, a.shape[1]))])
    return filled.reshape(-1, BLOCK, a.shape[1])


class _Place:
    """Where the children would lie, in units of their scales: e^{-s} l + t, by least squares of l
    and t in turn. Where s varies little both could do the same; then l does it.

    Parameters
    ----------
    by_parent : _Basis
        That of l.
    by_both : _Basis
        That of t.
    fixed : (m,) array of bool
        Children whose location stays as it is, at first 0.
    """

    def __init__(self, by_parent: _Basis, by_both: _Basis, fixed: np.ndarray):
        self.by_parent, self.by_both, self.fixed = by_parent, by_both, fixed
        self.location = np.zeros((fixed.size, by_parent.F.shape[1]))
        self.shift = np.zeros((fixed.size, by_both.F.shape[1]))

    def fit(self, x: np.ndarray, grad: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Fit both anew to children and gradients (n, m) with log scales s; returns l + e^s t."""
        M, B, scale = self.by_parent.F, self.by_both.F, np.exp(s)
        inverse = 1.0 / scale
        wanted = x * inverse + scale * grad
        if not self.fixed.all():
            fitted = self._fitted_location(wanted, s, inverse)
            self.location = np.where(self.fixed[:, None], self.location, fitted)
        rest = wanted - (M @ self.location.T) * inverse if self.location.any() else wanted
        curvature = B.T @ B / len(x)
        self.shift = np.linalg.solve(curvature, B.T @ rest / len(x)).T
        noise = _noise(rest - B @ self.shift.T, B, curvature)
        self.shift = _shrunk(self.shift, noise)
        return M @ self.location.T + scale * (B @ self.shift.T)

    def fix_nearest(self) -> None:
        """From here on, children that depend on one parent by nearly 1 lie there exactly."""
        by_parent = self.by_parent
        raw = by_parent.raw(self.location)[:, 1:]
        nearest = np.round(raw)
        self.fixed = (nearest.sum(axis=1) == 1) & (np.abs(nearest).sum(axis=1) == 1)
        exact = np.column_stack([nearest @ by_parent.mean, nearest * by_parent.sd])
        self.location = np.where(self.fixed[:, None], exact, self.location)

    def fix_alike(self, log_scale: np.ndarray) -> None:
        """Fix those, too, whose scales vary at least half as much as those of fixed ones do, where
        most that do are fixed.

        Children of one group have one location. Two of 86 whose data are far from those of the
        others were fitted elsewhere, and kept a chain in the narrow end (radon_slopes_centred).

        Parameters
        ----------
        log_scale : (m, p) array
            Coefficients of s, the constant first.
        """
        slopes, was_fixed = log_scale[:, 1:], self.fixed
        for place in np.unique(self.location[was_fixed], axis=0):
            there = was_fixed & (self.location == place).all(axis=1)
            usual = slopes[there].mean(axis=0)
            alike = slopes @ usual > 0.5 * (usual @ usual)
            if there[alike].sum() > 0.5 * alike.sum():
                self.fixed = self.fixed | alike
                self.location[alike & ~was_fixed] = place

    def _fitted_location(
        self, wanted: np.ndarray, s: np.ndarray, inverse: np.ndarray
    ) -> np.ndarray:
        M, weights = self.by_parent.F, inverse * inverse
        rest = (wanted - self.by_both.F @ self.shift.T) * inverse
        curvature = self.by_parent.products(weights) * (1.0 + PULL * np.eye(M.shape[1]))
        location = np.linalg.solve(curvature, (rest.T @ M / len(s))[:, :, None])[:, :, 0]
        if M.shape[1] == 1:  # a constant is not shrunk
            return location
        rest -= weights * (M @ location.T)
        unit = np.exp(s.mean(axis=0))[:, None]
        return unit * _shrunk(location / unit, _noise(rest, M, curvature) / unit**2)


class _LogScale:
    """Newton's method on the mean of (e^{-s} r)^2 + (e^s grad)^2, from given coefficients."""

    def __init__(self, r: np.ndarray, grad: np.ndarray, basis: _Basis, coefficients: np.ndarray):
        self.F = F = basis.F
        pull = PULL * _but_first(F.shape[1])
        for _ in range(NEWTON_STEPS):
            scale = np.exp(F @ coefficients.T)
            spread, steepness = (r / scale) ** 2, (scale * grad) ** 2
            self.errors = 2.0 * (steepness - spread)
            self.curvature = 4.0 * basis.products(spread + steepness) + pull
            slope = self.errors.T @ F / len(F) + coefficients @ pull
            step = np.linalg.solve(self.curvature, slope[:, :, None])[:, :, 0]
            longest = np.abs(step).max(axis=1, keepdims=True)
            coefficients = coefficients - step / np.maximum(longest, 1.0)
        self.coefficients = coefficients

    def noise(self) -> np.ndarray:
        """(m, p): the variances of the coefficients' noise."""
        return _noise(self.errors, self.F, self.curvature)


def _but_first(p: int) -> np.ndarray:
    return np.diag([0.0] + [1.0] * (p - 1))


def _shrunk(coefficients: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Coefficients pulled towards 0, feature by feature: by as much as their noise has of what
    they spread over the children (James and Stein). The first is a constant and stays.
    """
    signal = np.maximum(np.mean(coefficients**2 - noise, axis=0), 0.0)
    share = signal / np.maximum(signal + noise, 1e-300)
    share[:, 0] = 1.0
    return share * coefficients


def in_coordinates(
    reparametrisation: Reparametrisation | None, x: np.ndarray, grad: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draws and gradients of the density in other coordinates; None: as they are."""
    if reparametrisation is None:
        return x, grad
    shape = reparametrisation.shape(x)
    return reparametrisation.to_z(x, shape), reparametrisation.gradient_to_z(x, grad, shape)
