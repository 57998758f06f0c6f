"""One seed of the user's, and one for each chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjhmc_numba.errors import SettingsError

__all__ = ["chain_seeds", "child_seed", "root_seed"]


def root_seed(seed: Any) -> np.random.SeedSequence:
    """The user's seed as NumPy's."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    try:
        return np.random.SeedSequence(seed)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"seed={seed!r} is none that NumPy takes: {error}") from error


def chain_seeds(root: np.random.SeedSequence, chains: int) -> list[np.random.SeedSequence]:
    """One seed per chain, the same for the first k of any number of chains, run after run."""
    return [child_seed(root, k) for k in range(chains)]


def child_seed(root: np.random.SeedSequence, k: int) -> np.random.SeedSequence:
    """The k-th child, whatever was spawned before."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, k))
