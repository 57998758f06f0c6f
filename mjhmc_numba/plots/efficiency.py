"""What draws are worth for what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mjhmc_numba.convergence import autocorrelation, slowest_dimensions
from mjhmc_numba.markup import short
from mjhmc_numba.plots.axes import COLORS, chain_color, finish, on_axes, open_axes, tidy
from mjhmc_numba.plots.data import as_arviz, gradients_per_draw, quantities

__all__ = ["plot_autocorr", "plot_efficiency"]

SLOWEST_QUANTITIES = 4  # the slowest, where none were asked for
SMALL_AUTOCORRELATION = 0.02  # autocorrelation at which the picture ends: the width of a line


@on_axes("array of two Axes")
def plot_efficiency(
    comparison: Any,
    *,
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
    show: bool | None = None,
) -> Any:
    """Effective samples per 1000 gradients and per second of the samplers of a comparison.

    Parameters
    ----------
    comparison : Comparison or DataFrame
        What `mjhmc_numba.pymc.compare` returns, or its table.
    {canvas}

    Returns
    -------
    array of Axes
    """
    table = getattr(comparison, "table", comparison)
    axes = open_axes(ax, 1, 2, figsize or (10, 1.4 + 0.55 * len(table)))[0]
    after, whole = "after the warm-up", "with warm-up"
    columns = {after: "ess_per_1000_grads", whole: "ess_per_1000_grads_all"}
    _draw_bars(axes[0], table, columns, "Effective samples per 1000 gradients")
    columns = {after: "ess_per_second", whole: "ess_per_second_all"}
    if "ess_per_second_compiled" in table:
        columns["with compilation"] = "ess_per_second_compiled"
    _draw_bars(axes[1], table, columns, "Effective samples per second")
    return finish(axes, show)


def _draw_bars(ax: Any, table: Any, columns: Mapping[str, str], title: str) -> None:
    """Horizontal bars, with the values written beside them."""
    place = np.arange(len(table))
    height = 0.8 / len(columns)
    shades = (COLORS["main"], COLORS["light"], "#d6dae0")
    for k, (label, column) in enumerate(columns.items()):
        at = place + (k - (len(columns) - 1) / 2) * height
        bars = ax.barh(at, table[column], height, label=label, color=shades[k])
        ax.bar_label(bars, fmt=short, fontsize=7, padding=2)
    ax.set_yticks(place, table.index)
    ax.invert_yaxis()
    ax.set_xlim(right=1.15 * max(table[column].max() for column in columns.values()))
    tidy(ax, title)
    ax.legend(fontsize=8, frameon=False, loc="lower right")


@on_axes("array of Axes", "Where to draw, one per quantity.")
def plot_autocorr(
    data: Any,
    var_names: str | Sequence[str] | None = None,
    *,
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
    show: bool | None = None,
) -> Any:
    """Autocorrelation by gradients: what it costs to get an independent draw.

    ArviZ's picture counts draws, whose price differs between samplers.

    Parameters
    ----------
    data : Result, InferenceData, DataTree, or mapping of str to these
        Draws; or draws of several samplers by name, such as `Comparison.data`.
    var_names : str or sequence of str, optional
        Variables; by default the four quantities in which the first sampler is slowest.
    {canvas}

    Returns
    -------
    Axes or array of Axes
        One per quantity.
    """
    # InferenceData and DataTree are mappings too.
    is_several = type(data) is dict
    samplers = {name: as_arviz(one) for name, one in (data if is_several else {"": data}).items()}
    drawn = {name: quantities(one, var_names) for name, one in samplers.items()}
    labels, values = next(iter(drawn.values()))
    if var_names is None:
        slow = slowest_dimensions(values)[0][:SLOWEST_QUANTITIES]
        labels = [labels[j] for j in slow]
    columns = min(len(labels), 4)
    rows = -(-len(labels) // columns)
    axes = open_axes(ax, rows, columns, figsize or (2.7 * columns + 0.6, 2.5 * rows + 0.3))
    for panel, label in zip(axes.ravel(), labels, strict=False):
        ends = []
        for k, (name, (known, array)) in enumerate(drawn.items()):
            rho = autocorrelation(array[:, :, [known.index(label)]])[:, 0]
            price = gradients_per_draw(samplers[name])
            end = _first_below(rho, SMALL_AUTOCORRELATION)
            ends.append(end * price)
            panel.plot(np.arange(rho.size) * price, rho, color=chain_color(k), lw=1.4, label=name)
        panel.axhline(0, color=COLORS["grey"], lw=0.6)
        # One that never falls must not squeeze the others.
        reach = min(1.5 * max(ends), 12.0 * min(ends))
        panel.set(xlim=(0, max(reach, 1e-9)), ylim=(-0.3, 1.02))
        tidy(panel, label, "gradients")
    for panel in axes.ravel()[len(labels) :]:
        panel.set_visible(False)
    axes[0, 0].set_ylabel("autocorrelation", fontsize=9)
    if is_several:
        axes[0, 0].legend(fontsize=8, frameon=False)
    return finish(axes, show)


def _first_below(values: np.ndarray, limit: float) -> int:
    """Lag from which on a series has fallen, 2 at least."""
    below = np.flatnonzero(np.abs(values) < limit)
    return max(2, int(below[0]) if below.size else len(values) - 1)
