"""Draws of a run in a zarr store, in place of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.results import Result
from mjhmc_numba.run.tasks import ChainTask
from mjhmc_numba.storage import Checkpoint, Group, Store

__all__ = ["check_store", "finish_store", "flush_stores", "with_store"]


def with_store(
    tasks: list[ChainTask],
    store: Store,
    checkpoint: Checkpoint | None,
    groups: Mapping[str, Group],
    variables: Callable[[np.ndarray], Mapping[str, np.ndarray]],
) -> list[ChainTask]:
    """The tasks with their parts of a store, which is made unless a run goes on.

    Parameters
    ----------
    tasks : list of ChainTask
        One per chain.
    store : Store
        Where to.
    checkpoint : Checkpoint, optional
        Of the run.
    groups : mapping of str to Group
        What is stored.
    variables : callable
        (n, d) draws -> mapping of names to (n, ...) arrays, for the posterior.
    """
    is_begun = checkpoint is not None and checkpoint.is_begun
    if checkpoint is not None and (store.exists or is_begun):
        store.check(len(tasks), tasks[0].draws, is_begun=is_begun)
    else:
        numbers, draws = [task.number for task in tasks], tasks[0].draws
        store.create(groups, numbers, draws, may_share=checkpoint is None)
    parts = store.parts(variables)
    return [replace(task, store=part) for task, part in zip(tasks, parts, strict=True)]


def check_store(
    store: Any,
    *,
    keep_warmup: bool,
    jumps: Any,
    executor: Any,
    store_divergences: bool = False,
    store_gradients: bool = False,
    until: Any = None,
) -> Store | None:
    """The store that is asked for; raises if something does not go with it."""
    if store is None:
        return None
    given = {"a warm-up that is kept": keep_warmup, "jumps=": jumps, "executor=": executor}
    given |= {"store_divergences=": store_divergences, "store_gradients=": store_gradients}
    given["until="] = until
    wrong = [name for name, value in given.items() if value is not None and value is not False]
    if wrong:
        raise SettingsError(f"store= does not go with {' or '.join(wrong)}.")
    return Store(store)


def flush_stores(tasks: list[ChainTask]) -> None:
    """Write what chains hold together, as after some of them have failed."""
    for task in tasks:
        if task.store is not None and task.store.batch is not None:
            task.store.batch.flush()


def finish_store(store: Store, result: Result) -> None:
    """Note in the store what is known in the end."""
    is_whole = len(result.chains) == store.chains
    whole = result.attributes()
    of_groups = {"posterior": whole, "sample_stats": whole | result.warmup_attributes()}
    store.finish(result.stored if is_whole else None, of_groups)
