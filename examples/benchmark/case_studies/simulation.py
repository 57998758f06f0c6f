"""What the case studies share: how data are simulated."""

from __future__ import annotations

import numpy as np


def simulator(seed: int) -> np.random.RandomState:
    """A source of random data; NumPy has promised that its streams will never change."""
    return np.random.RandomState(seed)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))
