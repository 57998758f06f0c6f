"""Chains on threads or on an executor: seeds, progress, interruption, and what they made."""

from mjhmc_numba.run.chain import ChainRun
from mjhmc_numba.run.collecting import check_memory, run_tasks, stats_of
from mjhmc_numba.run.dispatch import run_chains
from mjhmc_numba.run.elsewhere import RemoteRun
from mjhmc_numba.run.extending import extend, warm_started
from mjhmc_numba.run.rounds import check_gradients_kept, check_until, run_until
from mjhmc_numba.run.seeds import chain_seeds, child_seed, root_seed
from mjhmc_numba.run.stores import check_store, finish_store, with_store
from mjhmc_numba.run.tasks import ChainOutput, ChainState, ChainTask

__all__ = [
    "ChainOutput",
    "ChainRun",
    "ChainState",
    "ChainTask",
    "RemoteRun",
    "chain_seeds",
    "check_gradients_kept",
    "check_memory",
    "check_store",
    "check_until",
    "child_seed",
    "extend",
    "finish_store",
    "root_seed",
    "run_chains",
    "run_tasks",
    "run_until",
    "stats_of",
    "warm_started",
    "with_store",
]
