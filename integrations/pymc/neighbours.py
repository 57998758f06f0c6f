"""What one data set has taught, carried over to another of the same model.

Both posteriors are described by their modes and the curvatures there (Laplace), in coordinates in
which that of the first is about standard normal. The affine map that takes one description to the
other takes draws of the first posterior to about draws of the second, and the Gaussian that the
warm-up has found of the first to one of the second. Chains start and move by these; where they are
wrong the draws are exact all the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mjhmc_numba.coordinates import Draws, Metric, Transform
from mjhmc_numba.density import Target
from mjhmc_numba.tuned import Tuned

__all__ = ["Laplace", "Neighbour"]

MOST_OF_HESSIAN = 50  # dimensions: it takes 100 gradients, as some draws of a warm-up
MOST_STEPS = 12  # of Newton's method; quadratic near the mode, it takes 3 to 5
SMALL_DECREMENT = 1e-3  # of log density that another step would gain: far below a draw's 0.5 d
DIFFERENCE = 1e-3  # of z, in standard deviations: the error of a central difference is its square
SHORTEST = 2.0**-6  # of a step of Newton's method; if that does not rise, no neighbour is near
FLATTEST, STEEPEST = 1e-3, 1e3  # curvatures; beyond them the posteriors are no neighbours


class Laplace(NamedTuple):
    """Mode of a density, and a root of its inverse curvature there: R R' = H^-1."""

    mode: np.ndarray
    root: np.ndarray
    gradients: int

    @classmethod
    @np.errstate(all="ignore")  # a density that rises for ever
    def of(cls, target: Target, coordinates: Transform, z: np.ndarray) -> Laplace | None:
        """That of a target in other coordinates, sought from z on; None where none is found."""
        here, gradients = _at(target, coordinates, z[None]), 1
        for _ in range(MOST_STEPS):
            values, vectors = np.linalg.eigh(_curvature(target, coordinates, here.x[0]))
            gradients += 2 * z.size
            if not np.isfinite(values).all():
                return None
            slope = vectors.T @ here.grad[0]
            step = slope / np.clip(abs(values), FLATTEST, STEEPEST)
            if slope @ step < 2 * SMALL_DECREMENT:
                if values[0] < FLATTEST or values[-1] > STEEPEST:
                    return None
                return cls(here.x[0], (vectors * values**-0.5) @ vectors.T, gradients)
            there, tries = _uphill(target, coordinates, here, vectors @ step)
            gradients += tries
            if there is None:
                return None
            here = there
        return None


class Neighbour(NamedTuple):
    """A posterior that was sampled: what it was tuned to, and its description."""

    tuned: Tuned
    laplace: Laplace

    @classmethod
    def of(cls, target: Target, tuned: Tuned) -> Neighbour | None:
        """That of a target; None where it has no description that would serve."""
        if target.ndim > MOST_OF_HESSIAN:
            return None
        found = Laplace.of(target, tuned.transform, np.zeros(target.ndim))
        return None if found is None else cls(tuned, found)

    def carry(self, target: Target, draws: np.ndarray) -> tuple[Tuned, np.ndarray, int] | None:
        """What to run a neighbouring target with, and where draws (n, d) lie there.

        Returns
        -------
        tuned : Tuned
        draws : (n, d) array
        gradients : int
            That it took.
        """
        coordinates, mine = self.tuned.transform, self.laplace
        other = Laplace.of(target, coordinates, mine.mode)
        if other is None:
            return None
        linear = other.root @ np.linalg.inv(mine.root)

        def carried(z: np.ndarray) -> np.ndarray:
            return other.mode + (z - mine.mode) @ linear.T

        metric = self.tuned.metric
        about = metric.unwhiten(linear.T).T  # columns are images of unit vectors
        centre = metric.centre + metric.unwhiten(carried(np.zeros(metric.ndim)))
        covariance = about @ about.T
        if metric.rank == 0 and self.tuned.integrator != "rotation":
            changed = Metric.diagonal(np.diag(covariance))
        else:
            changed = Metric.dense(0.5 * (covariance + covariance.T))
        tuned = self.tuned.replace(metric=changed.centred(centre))
        return tuned, coordinates.to_x(carried(coordinates.to_z(draws))), other.gradients


def _at(target: Target, coordinates: Transform, z: np.ndarray) -> Draws:
    """Log density and gradient at points z (n, d)."""
    x = coordinates.to_x(z)
    found = [target.logp_and_grad(row) for row in x]
    logp, grad = (np.array(column) for column in zip(*found, strict=True))
    logp, grad = logp + coordinates.log_volume(x), coordinates.gradient_to_z(x, grad)
    return Draws(z, grad, logp, coordinates)


def _curvature(target: Target, coordinates: Transform, z: np.ndarray) -> np.ndarray:
    """Minus the Hessian of the log density at z, by central differences of the gradient."""
    steps = DIFFERENCE * np.eye(z.size)
    grad = _at(target, coordinates, np.concatenate([z + steps, z - steps])).grad
    hessian = (grad[: z.size] - grad[z.size :]) / (2 * DIFFERENCE)
    return (
        -0.5 * (hessian + hessian.T) if np.isfinite(hessian).all() else np.full_like(steps, np.nan)
    )


def _uphill(
    target: Target, coordinates: Transform, here: Draws, step: np.ndarray
) -> tuple[Draws | None, int]:
    """Along a step as far as the density rises, and gradients taken."""
    length, tries = 1.0, 0
    while length >= SHORTEST:
        there = _at(target, coordinates, here.x + length * step)
        tries += 1
        if there.logp[0] > here.logp[0] and np.isfinite(there.grad).all():
            return there, tries
        length /= 2
    return None, tries
