"""The jump process itself: its ladder, its dwell times, its events over a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mjhmc_numba.plots.axes import COLORS, EVENTS, WARMUP, finish, on_axes, open_axes, tidy
from mjhmc_numba.plots.data import as_arviz, labels_of, statistic

__all__ = ["plot_events", "plot_ladder"]

CODES = {1: "L", 2: "F", 3: "R"}  # of a jump record
OWN = ("event", "holding_time", "expected_holding_time")
MEANING = {"L": "L, a move", "F": "F, a flip", "R": "R, a refresh"}
BLOCKS = 60  # parts of a run over which events are averaged: a few pixels each


def rungs(event: np.ndarray) -> np.ndarray:
    """The rung of each visit, from the events that ended the visits; 0 after each refresh.

    A flip turns round, so that the next move retraces the ladder.
    """
    out = np.zeros(len(event), dtype=int)
    at, direction = 0, 1
    for k, code in enumerate(event[:-1]):
        if CODES[int(code)] == "L":
            at += direction
        elif CODES[int(code)] == "F":
            direction = -direction
        else:
            at = 0
        out[k + 1] = at
    return out


@on_axes("array of three Axes")
def plot_ladder(
    result: Any,
    chain: int = 0,
    *,
    start: int = 0,
    visits: int = 60,
    dimension: int = 0,
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
    show: bool | None = None,
) -> Any:
    """The path of the jump process on its ladder: visits as long as the process dwelt there.

    Parameters
    ----------
    result : Result, InferenceData or DataTree
        Of ``sample(..., jumps=True)``; or the jump record of one chain.
    chain : int
        Which chain, by its place in the result.
    start, visits : int
        The first visit, and how many.
    dimension : int
        Whose position is shown; of a PyMC model, which number of the variables in its record.
    {canvas}

    Returns
    -------
    array of Axes
        Rungs over system time, positions over system time, and dwell times of all visits.
    """
    record, names = _record_of(result, chain)
    axes = open_axes(ax, 3, 1, figsize or (9, 7))[:, 0]
    part = slice(start, start + visits)
    event = record["event"]
    dwell = record["holding_time"][part]
    ends = np.cumsum(dwell)
    begins = ends - dwell
    kinds = np.array([CODES[int(code)] for code in event[part]])
    for panel, height in (
        (axes[0], rungs(event[: start + visits])[part]),
        (axes[1], record["x"][part, dimension]),
    ):
        panel.plot(np.r_[begins, ends[-1:]], np.r_[height, height[-1:]], drawstyle="steps-post")
        panel.lines[-1].set(color="#c9cdd3", lw=0.8, zorder=1)
        for name, color in EVENTS.items():
            of = kinds == name
            panel.hlines(height[of], begins[of], ends[of], color=color, lw=3, label=MEANING[name])
        panel.margins(x=0.01)
    axes[0].legend(title="the visit ended with", ncols=3, fontsize=8, title_fontsize=8)
    tidy(axes[0], "Rung of the ladder; a refresh begins a new one", "", "rung")
    tidy(axes[1], "Position", "system time", names[dimension])
    _draw_dwell(axes[2], record)
    return finish(axes, show)


def _record_of(result: Any, chain: int) -> tuple[Mapping[str, np.ndarray], list[str]]:
    """The jump record of one chain, and names of its dimensions."""
    if isinstance(result, Mapping) and "event" in result:  # the record itself
        return result, [f"x[{j}]" for j in range(result["x"].shape[1])]
    jumps = getattr(result, "jumps", None)
    if jumps is not None:
        return jumps[chain], result.names
    if hasattr(result, "draws") or "jump_record" not in result:
        raise ValueError("There is no jump record: sample with jumps=True.")
    group = result["jump_record"]
    of_chain = np.flatnonzero(np.asarray(group["chain"]) == np.unique(group["chain"])[chain])
    record = {name: np.asarray(group[name])[of_chain] for name in OWN}
    labels, parts = [], []
    for name in group.data_vars:
        if name not in OWN:
            array = group[name].transpose("jump", ...)
            labels += labels_of(array)
            parts.append(np.asarray(array, dtype=float).reshape(len(array), -1)[of_chain])
    return record | {"x": np.concatenate(parts, axis=1)}, labels


def _draw_dwell(ax: Any, record: Mapping[str, np.ndarray]) -> None:
    """The distribution of dwell times as they were, and as they were expected."""
    kinds = {
        "sampled": ("holding_time", COLORS["light"]),
        "expected, 1 / total rate": ("expected_holding_time", COLORS["main"]),
    }
    for label, (column, color) in kinds.items():
        dwell = np.sort(record[column])
        shares = np.arange(1, dwell.size + 1) / dwell.size
        ax.plot(dwell, shares, drawstyle="steps-post", color=color, lw=2, label=label)
    ax.set_xscale("log")
    ax.set_ylim(0, 1.02)
    ax.legend(fontsize=8, frameon=False)
    title = f"Dwell times of all {len(record['event'])} visits"
    tidy(ax, title, "system time", "share that is shorter")


@on_axes("array of two Axes")
def plot_events(
    data: Any,
    *,
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
    show: bool | None = None,
) -> Any:
    """Jump rates and shares of the events over a run, all chains together.

    Parameters
    ----------
    data : Result, InferenceData or DataTree
        Draws of this sampler; with the warm-up, where it was kept.
    {canvas}

    Returns
    -------
    array of Axes
        Events per unit of system time, and their shares.
    """
    data = as_arviz(data)
    axes = open_axes(ax, 1, 2, figsize or (10, 3.4))[0]
    counts, times, warmup = _events(data)
    n = times.shape[1]
    edges = np.unique(np.linspace(0, n, min(BLOCKS, n) + 1).astype(int))
    middle = 0.5 * (edges[:-1] + edges[1:]) - warmup
    total = np.add.reduceat(times.sum(axis=0), edges[:-1])
    sums = {k: np.add.reduceat(c.sum(axis=0), edges[:-1]) for k, c in counts.items()}
    for name, made in sums.items():
        axes[0].plot(middle, made / total, color=EVENTS[name], label=MEANING[name])
    everything = np.maximum(sum(sums.values()), 1)
    shares = [made / everything for made in sums.values()]
    # To the ends of the run, not from the middle of the first part to that of the last.
    ends = np.r_[edges[0] - warmup, middle[1:-1], edges[-1] - warmup] if n > 1 else middle
    axes[1].stackplot(ends, shares, colors=[EVENTS[k] for k in sums], alpha=0.85, lw=0)
    axes[1].set_ylim(0, 1)
    axes[0].set_ylim(bottom=0)
    for panel in axes:
        panel.set_xlim(-warmup, n - warmup)
    if warmup:
        axes[0].axvspan(-warmup, 0, **WARMUP)
        axes[1].axvline(0, color="white", lw=1.5)
        axes[0].text(-warmup, 1, " warm-up", va="top", fontsize=8, transform=_at_top(axes[0]))
    above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.1, "ncols": 3}
    axes[0].legend(fontsize=8, frameon=False, handlelength=1.2, **above)
    tidy(axes[0], "Jump rates", "draw", "events per unit of system time")
    tidy(axes[1], "Shares of the events", "draw", "")
    return finish(axes, show)


def _at_top(ax: Any) -> Any:
    """X of the data, y of the axes."""
    return ax.get_xaxis_transform()


def _events(data: Any) -> tuple[dict[str, np.ndarray], np.ndarray, int]:
    """Events and system time of each draw (chain, draw), warm-up first, and its length."""
    groups = [g for g in ("warmup_sample_stats", "sample_stats") if g in data]
    parts: dict[str, list[np.ndarray]] = {}
    for group in groups:
        for name in ("n_L", "n_F", "n_R", "draw_interval"):
            values = statistic(data, name, group)
            if values is None:
                raise ValueError(f"There is no statistic {name}: these are no draws of MJHMC.")
            parts.setdefault(name, []).append(values)
    whole = {name: np.concatenate(values, axis=1) for name, values in parts.items()}
    warmup = parts["n_L"][0].shape[1] if len(groups) > 1 else 0
    return {k: whole[f"n_{k}"] for k in EVENTS}, whole["draw_interval"], warmup
