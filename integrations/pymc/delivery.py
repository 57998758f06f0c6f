"""What becomes of the draws of a run: what `pm.sample` returns, or a store."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mjhmc_numba.errors import SettingsError, StorageError
from mjhmc_numba.pymc.density import ModelDensity
from mjhmc_numba.pymc.expand import Expansion
from mjhmc_numba.pymc.jump_record import add_record
from mjhmc_numba.pymc.packaging import to_arviz
from mjhmc_numba.results import Result
from mjhmc_numba.run import finish_store
from mjhmc_numba.stats import STATISTICS
from mjhmc_numba.storage import Group, Store
from mjhmc_numba.storage.zarr_store import GROUPS
from mjhmc_numba.stored import from_store, groups_of

__all__ = ["Delivery"]


@dataclass
class Delivery:
    """Draws of the unconstrained variables in, all variables of the model out.

    It owns the snapshot of the density that the chains run on, with the data of that moment.
    """

    density: ModelDensity
    expansion: Expansion  # from draws to variables
    idata_kwargs: dict[str, Any]
    tune: int
    seed: Any
    recorded: Expansion | None  # of the states of a jump record
    store: Store | None
    _expanding: threading.Lock = field(  # PyTensor's functions are not reentrant
        default_factory=threading.Lock, init=False, repr=False
    )

    def groups(self, x: np.ndarray) -> dict[str, Group]:
        """The form of what is stored, from one draw x."""
        stats = {row.name: np.zeros((1, 1), row.dtype) for row in STATISTICS}
        groups = groups_of(self.package(x[None, None], stats, [0], 0.0, {}))
        other = [name for name in groups if "draw" in groups[name].dims and name not in GROUPS]
        if other:
            raise SettingsError(f"{', '.join(other)} is not stored as draws come; add it later.")
        return {name: Group.of(group) for name, group in groups.items()}

    def variables(self, draws: np.ndarray) -> dict[str, np.ndarray]:
        """All variables, each (n, ...), of draws (n, d); from any thread."""
        with self._expanding:
            values = self.expansion(draws[None], density=self.density)
        return {name: array[0] for name, array in values.items()}

    def package(
        self,
        draws: np.ndarray,
        stats: Mapping[str, np.ndarray],
        chains: Any,
        seconds: float,
        attributes: dict[str, Any],
        *,
        warmup: tuple[np.ndarray, Mapping[str, np.ndarray]] | None = None,
        in_place: bool = False,
    ) -> Any:
        """What `pm.sample` returns, of draws (chain, draw, d), and of those of the warm-up.

        With `in_place` it lies where the draws were, which are no more.
        """
        return to_arviz(
            self.density,
            self._expanded(draws, in_place),
            stats,
            n_tune=self.tune,
            chains=chains,
            seconds=seconds,
            attributes=attributes,
            idata_kwargs=self.idata_kwargs,
            warmup=None if warmup is None else (self._expanded(warmup[0], in_place), warmup[1]),
        )

    def _expanded(self, draws: np.ndarray, in_place: bool) -> dict[str, np.ndarray]:
        """All variables: where the draws were, or in memory of their own."""
        values = self.expansion(draws, density=self.density, in_place=in_place)
        if in_place:
            return values
        return {
            name: array.copy() if np.may_share_memory(array, draws) else array
            for name, array in values.items()
        }

    def of_result(self, result: Result, seconds: float, *, is_last: bool = False) -> Any:
        """All that a run of so many seconds made.

        If this is the last use of the result, what is returned lies in its memory.
        """
        if self.store is not None:
            with suppress(StorageError):  # the disk may be full, and what is there readable
                finish_store(self.store, result)
            return from_store(self.store.path)
        stats, warmup = result.stats, None
        if result.warmup_draws is not None and result.warmup_stats is not None:
            warmup = result.warmup_draws, result.warmup_stats
        if "gradient" in stats:
            is_last = False  # the draws themselves are kept
            stats = stats | {"unconstrained_draw": result.draws}
            if warmup is not None:
                warmup = warmup[0], warmup[1] | {"unconstrained_draw": warmup[0]}
        attributes = result.attributes()
        data = self.package(
            result.draws,
            stats,
            result.chains,
            seconds,
            attributes,
            warmup=warmup,
            in_place=is_last,
        )
        if self.recorded is not None and result.jumps is not None:
            add_record(data, self.recorded, self.density, result, attributes)
        if "sample_stats" in data:  # not if the chains ended in their warm-up
            data["sample_stats"].attrs.update(result.warmup_attributes(), seed=str(self.seed))
        return data
