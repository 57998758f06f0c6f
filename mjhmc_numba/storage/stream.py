"""Draws on their way to a store: written, and every k-th kept, as a bounded memory allows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mjhmc_numba.kernel.statistics import COUNTS
from mjhmc_numba.stats import COLUMN, Rows, by_name
from mjhmc_numba.storage.zarr_store import ChainStore

__all__ = ["Stream", "Thinned"]

MOST_THINNED = 4000  # of a chain: as many as the rules about draws look at, and as many again
NUMBERS_THINNED = 1 << 20  # likewise: 8 MB
FEWEST_THINNED = 64  # halves of a chain, of which split R-hat is made, have 32
CHAINS_IN_FULL = 16  # of more chains fewer draws are kept, as many in all: 128 MB

LARGEST = COLUMN["longest_stay"]  # the one count of which the largest counts, and not the sum
SUMMED = [COLUMN[name] for name in COUNTS if COLUMN[name] != LARGEST]


@dataclass
class Thinned:
    """Evenly spaced draws, with counts of all draws since the one before.

    Parameters
    ----------
    ndim : int
        Dimensions.
    chains : int
        All chains of the run.
    stride : int
        Draws for one that is kept; doubled whenever there are too many.
    seen : int
        Draws so far.
    """

    ndim: int
    chains: int = 1
    stride: int = field(default=1, init=False)
    seen: int = field(default=0, init=False)
    kept: Rows = field(init=False)  # with sums of counts from the first draw on
    sums: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.kept = Rows.empty(0, self.ndim)
        self.sums = np.zeros(len(COLUMN))

    @property
    def most(self) -> int:
        share = max(1.0, self.chains / CHAINS_IN_FULL)
        return max(int(min(MOST_THINNED, NUMBERS_THINNED // self.ndim) / share), FEWEST_THINNED)

    def add(self, rows: Rows) -> None:
        """Take in draws."""
        if not len(rows.draws):
            return
        sums = rows.stats.copy()
        sums[0, SUMMED] += self.sums[SUMMED]
        sums[0, LARGEST] = max(sums[0, LARGEST], self.sums[LARGEST])
        sums[:, SUMMED] = np.cumsum(sums[:, SUMMED], axis=0)
        sums[:, LARGEST] = np.maximum.accumulate(sums[:, LARGEST])
        self.sums = sums[-1].copy()
        first = -(self.seen + 1) % self.stride
        self.seen += len(sums)
        every = slice(first, None, self.stride)
        chosen = [array[every] for array in rows._replace(stats=sums)]
        self.kept = Rows(*map(np.concatenate, zip(self.kept, chosen, strict=True)))
        while len(self.kept.draws) > self.most:
            self.stride *= 2
            # Copies: views would hold on to the draws that are not kept.
            self.kept = Rows(*(array[1::2].copy() for array in self.kept))

    def rows(self) -> Rows:
        """The draws, with counts since the draw before; of the last one, to the end."""
        stats = self.kept.stats.copy()
        stats[-1:, [*SUMMED, LARGEST]] = self.sums[[*SUMMED, LARGEST]]
        stats[:, SUMMED] = np.diff(stats[:, SUMMED], axis=0, prepend=0.0)
        return self.kept._replace(stats=stats)


@dataclass
class Stream:
    """What goes to a store, and what is needed to go on with it.

    Parameters
    ----------
    ndim : int
        Dimensions.
    acceptance : float
        The last acceptance rate that was known.
    chains : int
        All chains of the run.
    """

    ndim: int
    acceptance: float
    chains: int = 1
    stored: int = field(default=0, init=False)
    divergences: int = field(default=0, init=False)
    thinned: Thinned = field(init=False)

    def __post_init__(self) -> None:
        self.thinned = Thinned(self.ndim, self.chains)

    def write(self, store: ChainStore, rows: Rows) -> None:
        """Write the next draws."""
        columns = (array[None] for array in (rows.stats, rows.tuned, rows.times))
        named = by_name(*columns, acceptance=np.array([self.acceptance]))
        stats = {name: values[0] for name, values in named.items()}
        stats["divergences"] = stats["divergences"] + self.divergences
        store.write(self.stored, rows.draws, stats)
        self.thinned.add(rows)
        self.stored += len(rows.draws)
        self.acceptance = float(stats["acceptance_rate"][-1])
        self.divergences = int(stats["divergences"][-1])
