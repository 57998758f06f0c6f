"""An entry of a folder of PyMC models: how to build it, what is scored, what is known of it.

Each folder has a `models.py` with `MODELS[name]`. Data are in `data/`, known moments in
`references/`, as gzipped JSON.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm


def read(path: Path) -> dict[str, Any]:
    """What a file has, lists as arrays."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        stored = json.load(file)
    return {key: np.asarray(v) if isinstance(v, list) else v for key, v in stored.items()}


@dataclass(frozen=True)
class Reference:
    """Moments of the true posterior, one entry for each scalar parameter.

    Attributes
    ----------
    kind : str
        "posteriordb" (its 10 x 1000 reference draws), "exact" (closed form or quadrature, errors
        0) or "long-run" (a long run of NUTS on the same model).
    source : str
    names : array of str
        As `Posterior.param_names` gives them.
    mean, sd, mcse_mean : array
        Mean, standard deviation, and the Monte Carlo error of the mean.
    m2, sd_sq, mcse_m2 : array
        The same of x^2.
    var, sd_csq, mcse_var : array
        The same of (x - mean)^2.
    q05, q50, q95 : array or None
        Quantiles.
    """

    kind: str
    source: str
    names: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    mcse_mean: np.ndarray
    m2: np.ndarray
    sd_sq: np.ndarray
    mcse_m2: np.ndarray
    var: np.ndarray
    sd_csq: np.ndarray
    mcse_var: np.ndarray
    q05: np.ndarray | None = None
    q50: np.ndarray | None = None
    q95: np.ndarray | None = None

    def take(self, names: Sequence[str]) -> Reference:
        """The same for these names, in their order."""
        place = {name: i for i, name in enumerate(self.names)}
        chosen = [place[name] for name in names]
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {k: v[chosen] for k, v in values.items() if isinstance(v, np.ndarray)}
        return replace(self, **arrays)


@dataclass(frozen=True)
class Posterior:
    """A posterior; calling it builds a fresh model.

    Attributes
    ----------
    name : str
    build : callable
        Takes nothing and returns the model.
    var_names : list of str
        The variables that are scored, Deterministics among them.
    references : Path or None
        The folder with the known moments.
    """

    name: str
    build: Callable[[], pm.Model]
    var_names: list[str]
    references: Path | None = None

    def __call__(self) -> pm.Model:
        return self.build()

    @property
    def about(self) -> str:
        """One sentence."""
        return (self.build.__doc__ or "").strip()

    def param_names(self, shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
        """Names of the scored scalars, in the order of `numpy.ravel`, with indices from one."""
        return [
            var + (f"[{','.join(str(i + 1) for i in index)}]" if index else "")
            for var in self.var_names
            for index in np.ndindex(*shapes[var])
        ]

    def reference(self) -> Reference | None:
        """Known moments, if there are any."""
        if self.references is None:
            return None
        known = {field.name for field in fields(Reference)}
        stored = read(self.references / f"{self.name}.json.gz")
        return Reference(**{key: value for key, value in stored.items() if key in known})


def posterior(
    *var_names: str, references: Path | None = None
) -> Callable[[Callable[[], pm.Model]], Posterior]:
    """Make a posterior of the function that builds it, with the variables that are scored."""
    return lambda build: Posterior(build.__name__, build, list(var_names), references)


def collect(*modules) -> dict[str, Posterior]:
    """The posteriors of modules, by name."""
    found = [entry for module in modules for entry in vars(module).values()]
    return {entry.name: entry for entry in found if isinstance(entry, Posterior)}
