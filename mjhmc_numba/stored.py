"""Draws of a run on disk: what a store holds, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mjhmc_numba.convergence import nested_r_hat_of
from mjhmc_numba.results import Result
from mjhmc_numba.stats import STATISTICS
from mjhmc_numba.storage import Group, open_store
from mjhmc_numba.tuned import Tuned

__all__ = ["Stored", "from_store", "groups_of", "stored_groups"]

NUMBERS_AT_ONCE = 1 << 20  # of a store in memory: 8 MB, two chunks of it


def stored_groups(ndim: int) -> dict[str, Group]:
    """What is stored of a run: one variable "x", and the statistics."""
    x = (("x_dim_0",), (ndim,), np.dtype(float))
    stats = {row.name: ((), (), np.dtype(row.dtype)) for row in STATISTICS}
    return {"posterior": Group({"x": x}), "sample_stats": Group(stats)}


def groups_of(data: Any) -> dict[str, Any]:
    """The datasets of what ArviZ holds, by the names of their groups."""
    if hasattr(data, "children"):  # a DataTree, of ArviZ 1.x
        return {name: node.to_dataset() for name, node in data.children.items()}
    return {name: data[name] for name in data.groups()}


def from_store(path: Any) -> Any:
    """The draws of a store, also while they are made: InferenceData or DataTree.

    They are cut to draws that are there, and read from the disk when they are used.
    """
    import arviz

    groups = open_store(path)
    if int(arviz.__version__.split(".")[0]) < 1:
        return arviz.InferenceData(**groups)
    from xarray import DataTree

    return DataTree.from_dict({f"/{name}": group for name, group in groups.items()})


@dataclass(eq=False)
class Stored:
    """Draws of several chains on disk.

    Parameters
    ----------
    path : Path
        The store, in zarr.
    thinned : Result
        Some of the draws, evenly spaced, in memory, by which they were judged; with all else that
        a `Result` knows of the run.
    """

    path: Path
    thinned: Result

    def __repr__(self) -> str:
        return f"<Stored: {len(self.chains)} chains x {self.draws} draws in {self.path}>"

    @property
    def draws(self) -> int:
        """Draws of each chain."""
        return self.thinned.stored or 0

    @property
    def chains(self) -> list[int]:
        """The number of each chain."""
        return self.thinned.chains

    @property
    def tuned(self) -> list[Tuned]:
        """What each chain ran with after its warm-up."""
        return self.thinned.tuned

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the draws, and what to do."""
        return self.thinned.warnings

    @property
    def interrupted(self) -> bool:
        """Whether the run was cut short by the user."""
        return self.thinned.interrupted

    @property
    def gradients(self) -> dict[str, int]:
        """Gradients of all chains, in the warm-up and after it."""
        return self.thinned.gradients

    def nested_r_hat(self, superchains: Sequence[int] | None = None) -> np.ndarray:
        """R-hat of many short chains, from all draws; see `Result.nested_r_hat`."""
        x = open_store(self.path)["posterior"]["x"]
        groups = self.thinned.superchains_of(superchains)
        means, variances = np.zeros((2, *np.delete(x.shape, 1)))
        at_once = max(NUMBERS_AT_ONCE // max(x[0].size, 1), 1)
        for first in range(0, len(x), at_once):
            some = slice(first, first + at_once)
            draws = x[some].values
            means[some] = draws.mean(axis=1)
            if draws.shape[1] > 1:
                variances[some] = draws.var(axis=1, ddof=1)
        return nested_r_hat_of(means, variances, groups)

    def to_arviz(self) -> Any:
        """All draws for ArviZ, read from the disk when they are used."""
        return from_store(self.path)
