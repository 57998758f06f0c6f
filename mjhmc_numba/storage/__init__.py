"""Where a run is kept while it runs: checkpoints to go on from, and draws on disk."""

from mjhmc_numba.storage.checkpoint import ChainFiles, Checkpoint

__all__ = ["ChainFiles", "Checkpoint"]
