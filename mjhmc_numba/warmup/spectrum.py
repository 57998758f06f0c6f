r"""The covariance of a target from draws and gradients: a diagonal and a few directions.

That the geometric mean of what draws and gradients say minimises the Fisher divergence, and that a
few directions beside a diagonal suffice, is taken from nuts-rs and nutpie (see metric.py). The
ridge that is made for the noise is our own.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.coordinates import Draws, Metric
from mjhmc_numba.coordinates.metric import geometric_mean
from mjhmc_numba.warmup.metric import (
    STRONGEST,
    centre,
    diagonal,
    gradients,
    row_space,
    scales,
    strong_space,
)

__all__ = [
    "COARSE_DETAIL",
    "FINE_DETAIL",
    "LOW_RANK_FROM",
    "Detail",
    "Spectrum",
    "centred_metric",
    "estimate",
    "spectrum",
]

# All chosen by trial on the models of the benchmark.
# In more dimensions than the first, a spectrum is estimated from the second number of draws.
FEWER_DRAWS_FROM, ENOUGH_DRAWS = 600, 256
LOW_RANK_FROM = 16  # draws; a diagonal is used before

# Of the estimate of a spectrum, see `_covariance`.
PASSES = 8  # estimates in turn, at most
# The ridge of the first pass, that of later ones per unit of noise, and the smallest, which keeps
# matrices positive definite in spite of rounding: some hundred times that of a float64, 2e-16.
FIRST_RIDGE, RIDGE, LEAST_RIDGE = 0.1, 0.3, 1e-13
STRONG = 3.0  # directions with eigenvalues outside [1/STRONG, STRONG] are whitened for the next


class Detail(NamedTuple):
    """Which directions are kept: those with eigenvalues outside [1/cutoff, cutoff], strongest
    first; after `few` of them only those outside [1/STRONG, STRONG], and `max_rank` at most.
    """

    cutoff: float
    few: int
    max_rank: int


# A dozen directions take a tenth of the time that a cheap density does; more must be worth it.
COARSE_DETAIL = Detail(cutoff=1.5, few=12, max_rank=64)
# For the harmonic integrator, whose kicks come from all that the metric leaves over.
FINE_DETAIL = Detail(cutoff=1.02, few=128, max_rank=128)


class Spectrum(NamedTuple):
    """A covariance S C S, where S is a diagonal scale and C has these eigenvalues along the
    orthonormal rows of `directions`, and 1 elsewhere. Those within [1/edge, edge] may be noise.
    """

    scale: np.ndarray
    directions: np.ndarray
    eigenvalues: np.ndarray
    edge: float = 1.0

    def metric(self, detail: Detail) -> Metric:
        """The scale, and the directions that are worth it."""
        strength = np.abs(np.log(self.eigenvalues))
        strongest = np.argsort(-strength)[: detail.max_rank]
        cutoff = max(detail.cutoff, self.edge)
        least = np.full(len(strongest), cutoff)
        least[detail.few :] = max(cutoff, STRONG)
        kept = strongest[strength[strongest] > np.log(least)]
        return Metric(
            self.scale, np.ascontiguousarray(self.directions[kept]), self.eigenvalues[kept]
        )


class _Moments(NamedTuple):
    """Second moments (d, d) of n centred draws z and gradients q: of z, of q, and the trace of
    those between them, which no change of coordinates changes.
    """

    z: np.ndarray
    q: np.ndarray
    trace: float
    n: int

    @classmethod
    def of(cls, z: np.ndarray, q: np.ndarray) -> _Moments:
        return cls(z.T @ z / len(z), q.T @ q / len(z), float(np.sum(z * q)) / len(z), len(z))

    def whitened(self, root: np.ndarray, inverse: np.ndarray) -> _Moments:
        """By a covariance with this symmetric root, and its inverse."""
        return self._replace(z=inverse @ self.z @ inverse, q=root @ self.q @ root)

    @property
    def distance(self) -> float:
        """How far draws and gradients are from those of a standard normal, z = -q, squared."""
        total = np.trace(self.z) + np.trace(self.q) + 2.0 * self.trace
        return max(float(total), 0.0) / len(self.z)  # rounding may leave less than nothing

    def distance_along(self, values: np.ndarray, vectors: np.ndarray) -> float:
        """The distance once they are whitened by that covariance."""
        spread = np.einsum("ij,ij->j", vectors, self.z @ vectors)
        steepness = np.einsum("ij,ij->j", vectors, self.q @ vectors)
        total = np.sum(spread / values + steepness * values) + 2.0 * self.trace
        return max(float(total), 0.0) / len(values)


def _covariance(moments: _Moments) -> tuple[np.ndarray, np.ndarray, float]:
    """Eigenvalues and eigenvectors (rows) of the covariance of draws with gradients, and the
    eigenvalue that noise may make.

    It is the geometric mean of the draws' covariance and the gradients' inverse covariance. Both
    are noise where draws are few: a ridge on each pulls the estimate towards the isotropic one.
    That is too much where the target is far from isotropic, so the estimate is made again in the
    space that the strong directions of the last one whiten, as long as this brings draws and
    gradients closer to what they are on a standard normal, z = -q. What remains between them is
    noise, and the ridge is made for it: on a Gaussian the estimate becomes exact.
    """
    d = len(moments.z)
    share = min(1.0, d / moments.n)  # of the noise that an estimate of so many dimensions follows
    values, vectors = np.ones(d), np.eye(d)
    root, here, noise = vectors, moments, moments.distance
    for k in range(PASSES):
        if k:
            level = _middle(values)
            is_strong = np.abs(np.log(values / level)) > math.log(STRONG)
            guess = np.where(is_strong, values, level)
            root = (vectors * np.sqrt(guess)) @ vectors.T
            here = moments.whitened(root, (vectors / np.sqrt(guess)) @ vectors.T)
            before, noise = noise, here.distance
            if share < 1.0:  # with all directions it is smaller, but some of that is only apparent
                noise = min(noise, moments.distance_along(values, vectors) / (1.0 - share))
            if noise > 0.5 * before:
                break
        amount = share * (RIDGE * min(noise, 1.0) if k else FIRST_RIDGE)
        ridge = max(amount, LEAST_RIDGE * np.trace(here.q), LEAST_RIDGE) * np.eye(d)
        try:
            mean = geometric_mean(here.z + ridge, here.q + ridge)
        except np.linalg.LinAlgError:
            if k == 0:  # draws that are not finite
                raise
            break  # what is left of the noise is rounding
        sigma = root @ mean @ root if k else mean
        values, vectors = np.linalg.eigh((sigma + sigma.T) / 2)
        values = np.clip(values, LEAST_RIDGE, 1.0 / LEAST_RIDGE)
    # The largest eigenvalue of noise with this variance alone (Marchenko and Pastur 1967).
    edge = (1.0 + math.sqrt(share * min(noise, 1.0))) ** 2
    return values, vectors.T, edge


def _middle(ascending: np.ndarray) -> float:
    """The median."""
    n = len(ascending)
    return float(ascending[(n - 1) // 2] + ascending[n // 2]) / 2


def spectrum(x: np.ndarray, grad: np.ndarray, *, only_strong: bool = False) -> Spectrum:
    """The covariance of the target, in the space that the diagonal scales.

    A few stiff directions shorten every scale of the diagonal a little; most eigenvalues then lie
    about a common level. The scale is made such that this level is 1.

    Parameters
    ----------
    x, grad : (n, d) arrays
        Draws and gradients of the log density there.
    only_strong : bool
        Look for the strongest directions alone, at a cost of n d each in place of d^3 for all.
    """
    scale = scales(x, grad)
    if x.shape[1] > FEWER_DRAWS_FROM and len(x) > ENOUGH_DRAWS:  # cubic in the smaller of the two
        rows = np.linspace(0, len(x) - 1, ENOUGH_DRAWS).astype(int)
        x, grad = x[rows], grad[rows]
    grad = gradients(x, grad)
    z = (x - x.mean(axis=0)) / scale
    q = (grad - grad.mean(axis=0)) * scale
    # The estimate acts in the span of the data; where that is all of space, use it as it is.
    basis = None
    if only_strong and x.shape[1] > 2 * STRONGEST:
        basis = row_space(np.concatenate([strong_space(z), strong_space(q)]))
    elif 2 * len(x) < x.shape[1]:
        basis = row_space(np.concatenate([z, q]))
    if basis is not None:
        z, q = z @ basis.T, q @ basis.T
    eigenvalues, directions, edge = _covariance(_Moments.of(z, q))
    if basis is not None:
        directions = directions @ basis
    level = _middle(eigenvalues)
    return Spectrum(scale * math.sqrt(level), directions, eigenvalues / level, edge)


def estimate(x: np.ndarray, grad: np.ndarray, form: Any, *, only_strong: bool = False) -> Spectrum:
    """The target's covariance, as far as so many draws tell it.

    Parameters
    ----------
    x, grad : (n, d) arrays
        Draws and gradients of the log density there.
    form : {"low_rank", "diag"}
        Of the metric.
    only_strong : bool
        See `spectrum`.
    """
    if form == "diag" or len(x) < LOW_RANK_FROM:
        flat = diagonal(x, grad)
        return Spectrum(flat.scale, flat.directions, flat.eigenvalues)
    return spectrum(x, grad, only_strong=only_strong)


def centred_metric(estimated: Spectrum, detail: Detail, draws: Draws) -> Metric:
    """The metric of a covariance, with the centre of these draws."""
    metric = estimated.metric(detail)
    return metric.centred(centre(metric, draws.x, draws.grad))
