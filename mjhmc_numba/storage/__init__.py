"""Where a run is kept while it runs: checkpoints to go on from, and draws on disk."""

from mjhmc_numba.storage.checkpoint import ChainFiles, Checkpoint
from mjhmc_numba.storage.stream import Stream
from mjhmc_numba.storage.zarr_store import ChainStore, Group, Store, open_store

__all__ = ["ChainFiles", "ChainStore", "Checkpoint", "Group", "Store", "Stream", "open_store"]
