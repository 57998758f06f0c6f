"""What the case studies share: an entry of `MODELS`, and how data are simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm


@dataclass(frozen=True)
class CaseStudy:
    """A posterior; calling it builds a fresh model.

    Attributes
    ----------
    name : str
    build : function that simulates the data and returns the model
    var_names : the variables that are scored, Deterministics among them
    """

    name: str
    build: Callable[[], pm.Model]
    var_names: list[str]

    def __call__(self) -> pm.Model:
        return self.build()

    def param_names(self, shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
        """Names of the scored scalars, in the order of `numpy.ravel`, with indices from one."""
        return [
            var + (f"[{','.join(str(i + 1) for i in index)}]" if index else "")
            for var in self.var_names
            for index in np.ndindex(*shapes[var])
        ]

    def reference(self) -> None:
        """No moments are known."""


def case_study(*var_names: str) -> Callable[[Callable[[], pm.Model]], CaseStudy]:
    """Make a case study of the function that builds it, with the variables that are scored."""
    return lambda build: CaseStudy(build.__name__, build, list(var_names))


def simulator(seed: int) -> np.random.RandomState:
    """A source of random data; NumPy has promised that its streams will never change."""
    return np.random.RandomState(seed)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))
