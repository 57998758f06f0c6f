"""Linear regression from moments, so that any folds are put together without their draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        return cls.of_parts([(phi, f)])

    @classmethod
    def of_parts(cls, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> Moments:
        """The same from features and functions of some draws at a time."""
        gram = cross = square = total = f_total = np.zeros(())
        n = 0
        for phi, f in parts:  # in double precision from here on, whatever the features have
            gram = gram + phi @ phi.T
            cross = cross + phi @ f.T
            square = square + np.einsum("ij,ij->i", f, f)
            total, f_total = total + phi.sum(axis=1), f_total + f.sum(axis=1)
            n += f.shape[1]
        gram -= np.outer(total / n, total)
        cross -= np.outer(total / n, f_total)
        return cls(gram, cross, square - f_total**2 / n, n)

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
