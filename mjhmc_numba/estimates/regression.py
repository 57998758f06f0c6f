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

    def square_left(self, beta: np.ndarray) -> np.ndarray:
        """(q,): squares that are left of the functions with coefficients (p, q)."""
        p = len(beta)
        left = self.gram[:p, :p] @ beta - 2.0 * self.cross[:p]
        return np.maximum(self.square + np.einsum("ij,ij->j", beta, left), 0.0)


def solve(folds: Sequence[Moments], size: int, ridge: float) -> np.ndarray:
    """Coefficients (size, q) of the first features, from some folds."""
    gram, cross = folds[0].gram[:size, :size].copy(), folds[0].cross[:size].copy()
    for m in folds[1:]:
        gram += m.gram[:size, :size]
        cross += m.cross[:size]
    gram[np.diag_indices(size)] += ridge * sum(m.draws for m in folds)
    return np.linalg.solve(gram, cross)
