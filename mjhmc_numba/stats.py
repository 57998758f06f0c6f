"""From the kernel's rows to statistics by name, as the table of `kernel.statistics` has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.kernel import layout
from mjhmc_numba.kernel.statistics import (
    COUNTED,
    READ,
    STAT_NAMES,
    STATISTICS,
    TIMED,
    TUNED,
    Statistic,
)

__all__ = [
    "COLUMN",
    "Rows",
    "STATISTICS",
    "Statistic",
    "by_name",
    "derive",
    "longest_rectangle",
    "table",
]

COLUMN: dict[str, int] = dict(zip(STAT_NAMES, layout.COLUMN, strict=True))
OF_KERNEL = tuple(row for row in STATISTICS if row.source in (COUNTED, READ))
OF_TUNED = tuple(row for row in STATISTICS if row.source == TUNED)
OF_CLOCK = tuple(row for row in STATISTICS if row.source == TIMED)

# Numbers that a draw takes beside its position.
WIDTH = len(STAT_NAMES) + len(OF_TUNED) + len(OF_CLOCK)


class Rows(NamedTuple):
    """Draws of one chain with all that their statistics are made of, a row per draw.

    Parameters
    ----------
    draws : (n, d) array
        Positions.
    stats : (n, len(STAT_NAMES)) array
        The kernel's statistics.
    tuned : (n, len(OF_TUNED)) array
        Parameters that each was made with.
    times : (n, len(OF_CLOCK)) array
        When each began, seconds, and CPU seconds.
    """

    draws: np.ndarray
    stats: np.ndarray
    tuned: np.ndarray
    times: np.ndarray

    @classmethod
    def empty(cls, n: int, ndim: int, draws: np.ndarray | None = None) -> Rows:
        """Room for n draws; `draws` is where their positions are to go."""
        widths = len(STAT_NAMES), len(OF_TUNED), len(OF_CLOCK)
        draws = np.empty((n, ndim)) if draws is None else draws
        return cls(draws, *(np.empty((n, width)) for width in widths))

    def until(self, n: int) -> Rows:
        """The first n (views)."""
        return Rows(*(array[:n] for array in self))

    def note_tuned(self, part: slice, tuned: Any) -> None:
        """Write down what some draws are made with."""
        self.tuned[part] = [getattr(tuned, row.origin) for row in OF_TUNED]

    def note_times(self, part: slice, began: float, seconds: float, cpu_seconds: float) -> None:
        """Write down the times of some draws, which share them evenly."""
        times = self.times[part]
        n = max(len(times), 1)
        times[:, 0] = began + np.arange(len(times)) * (seconds / n)
        times[:, 1] = seconds / n
        times[:, 2] = cpu_seconds / n


def by_name(
    stats: np.ndarray,
    tuned: np.ndarray,
    times: np.ndarray,
    *,
    acceptance: np.ndarray,
    is_warmup: bool = False,
) -> dict[str, np.ndarray]:
    """Statistics under their names, each (chain, draw).

    Parameters
    ----------
    stats, tuned, times : (chain, draw, column) arrays
        See `Rows`.
    acceptance : (chain,) array
        The last acceptance rate that was known before; NaN if there was none.
    is_warmup : bool
        Divergences of the warm-up are not counted.
    """
    values: dict[str, np.ndarray] = {}
    for row in OF_KERNEL:
        values[row.name] = stats[..., COLUMN[row.origin]].astype(row.dtype)
    values["acceptance_rate"] = _last_known(values["acceptance_rate"], acceptance)
    for rows, columns in ((OF_TUNED, tuned), (OF_CLOCK, times)):
        for k, row in enumerate(rows):
            values[row.name] = columns[..., k].astype(row.dtype)
    values |= derive(values)
    diverging = np.zeros_like(values["diverging"]) if is_warmup else values["diverging"]
    values["divergences"] = diverging.cumsum(axis=1, dtype=int)
    return {row.name: values[row.name] for row in STATISTICS}


def derive(values: dict[str, Any]) -> dict[str, Any]:
    """What follows from the others, for numbers and for arrays alike."""
    n_jumps = values["n_L"] + values["n_F"] + values["n_R"]
    return {
        "n_jumps": n_jumps,
        # At least 1: the whole interval where nothing happened.
        "holding_time": values["draw_interval"] / (n_jumps + (n_jumps == 0)),
    }


def _last_known(values: np.ndarray, before: np.ndarray) -> np.ndarray:
    """NaN, where nothing was tried between two draws, replaced by the value before."""
    filled = np.concatenate([np.reshape(before, (-1, 1)), values], axis=1)
    for row in filled:
        known = np.where(np.isfinite(row), np.arange(row.size), 0)
        row[:] = row[np.maximum.accumulate(known)]
    return filled[:, 1:]


def longest_rectangle(lengths: list[int]) -> list[int]:
    """The chains to keep of a run that was cut short: as many draws in all as can be had with
    equal lengths.
    """
    order = sorted(range(len(lengths)), key=lambda k: -lengths[k])
    sizes = [lengths[k] * (place + 1) for place, k in enumerate(order)]
    if not sizes or max(sizes) == 0:
        return []
    return sorted(order[: int(np.argmax(sizes)) + 1])


def table() -> str:
    """The table of statistics in Markdown, as the documentation has it."""
    lines = ["| name | type | what |", "|---|---|---|"]
    for row in STATISTICS:
        also = f" (PyMC: `{row.pymc}`)" if row.pymc else ""
        lines.append(f"| `{row.name}`{also} | {row.dtype} | {row.meaning} |")
    return "\n".join(lines)
