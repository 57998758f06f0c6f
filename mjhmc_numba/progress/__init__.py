"""A live display of a run: what is compiled, how far the chains are, and how it ended."""

from mjhmc_numba.progress.live import Progress
from mjhmc_numba.progress.picture import ChainProgress

__all__ = ["ChainProgress", "Progress"]
