"""Linear regression from moments, so that any folds are put together without their draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Moments", "solve"]


class Moments(NamedTuple):
    """Of one fold, about its own means: features, features x functions, functions."""

    gram: np.ndarray
    cross: np.ndarray
    square: np.ndarray
    draws: int

    @classmethod
    def of(cls, phi: np.ndarray, f: np.ndarray) -> Moments:
        """From features (p, n) and functions (q, n)."""
        n = f.shape[1]
        mean, f_mean = phi.mean(axis=1), f.mean(axis=1)
        gram = phi @ phi.T - n * np.outer(mean, mean)
        cross = phi @ f.T - n * np.outer(mean, f_mean)
        return cls(gram, cross, np.einsum("ij,ij->i", f, f) - n * f_mean**2, n)

    @classmethod
    def sum(cls, folds: Sequence[Moments]) -> Moments:
        """Of some folds together, each about its own means."""
        gram, cross, square, draws = (np.sum(parts, axis=0) for parts in zip(*folds, strict=True))
        return cls(gram, cross, square, int(draws))

    def without(self, fold: Moments) -> Moments:
        """Of all that are in this sum but one: no draw is looked at again."""
        return Moments(
            self.gram - fold.gram,
            self.cross - fold.cross,
            self.square - fold.square,
            self.draws - fold.draws,
        )

    def square_left(self, beta: np.ndarray) -> np.ndarray:
        """(q,): squares that are left of the functions with coefficients (p, q)."""
        p = len(beta)
        left = self.gram[:p, :p] @ beta - 2.0 * self.cross[:p]
        return np.maximum(self.square + np.einsum("ij,ij->j", beta, left), 0.0)


def solve(
    moments: Moments, size: int, ridge: float, functions: np.ndarray | slice = slice(None)
) -> np.ndarray:
    """Coefficients (size, q) of the first features, for some of the functions.

    The ridge is a share of the mean square of each feature.
    """
    gram = moments.gram[:size, :size].copy()
    square = np.diag(gram)
    gram[np.diag_indices(size)] = np.where(square > 0, square * (1.0 + ridge), 1.0)
    return np.linalg.solve(gram, moments.cross[:size, functions])
