"""Where divergences lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjhmc_numba.plots.axes import COLORS, finish, on_axes, open_axes, tidy
from mjhmc_numba.plots.data import as_arviz, quantities, statistic

__all__ = ["plot_divergences"]

PAIRED_QUANTITIES = 3  # where none were asked for; pairs of more do not fit a page
MOST_POINTS = 4000  # more cover each other


@on_axes("array of Axes", "Where to draw, (k - 1)**2 of them for k quantities.")
def plot_divergences(
    data: Any,
    var_names: str | Sequence[str] | None = None,
    *,
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
    show: bool | None = None,
) -> Any:
    """Draws that met a divergence among the others, in pairs of quantities.

    Parameters
    ----------
    data : Result, InferenceData or DataTree
        Draws.
    var_names : str or sequence of str, optional
        Variables; by default the three quantities whose ranks differ most between draws that met
        a divergence and the others.
    {canvas}

    Returns
    -------
    Axes or (k - 1, k - 1) array of Axes
        As of ArviZ's `plot_pair`, those above the diagonal are hidden.
    """
    data = as_arviz(data)
    diverging = statistic(data, "diverging")
    if diverging is None:
        raise ValueError("There is no statistic diverging.")
    labels, values = quantities(data, var_names)
    flat, bad = values.reshape(-1, len(labels)), diverging.ravel() > 0
    if var_names is None and len(labels) > PAIRED_QUANTITIES:
        chosen = _most_shifted(flat, bad)
        labels, flat = [labels[j] for j in chosen], flat[:, chosen]
    n = max(len(labels) - 1, 1)
    side = 4.2 if n == 1 else 2.6 * n
    axes = open_axes(ax, n, n, figsize or (side + 0.6, side))
    if len(labels) == 1:  # against the number of the draw
        labels = ["draw", *labels]
        flat = np.column_stack([np.tile(np.arange(values.shape[1]), len(values)), flat])
    for i in range(n):
        for j in range(n):
            if j > i:
                axes[i, j].set_visible(False)
                continue
            _draw_pair(axes[i, j], flat[:, j], flat[:, i + 1], bad)
            tidy(axes[i, j], "", labels[j] if i == n - 1 else "", labels[i + 1] if j == 0 else "")
    axes[0, 0].set_title(f"{bad.sum()} of {bad.size} draws met a divergence", fontsize=10)
    return finish(axes, show)


def _most_shifted(values: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """The quantities in which draws with a divergence stand apart by rank; else the first."""
    if not bad.any() or bad.all():
        return np.arange(PAIRED_QUANTITIES)
    ranks = values.argsort(axis=0).argsort(axis=0) / len(values)
    apart = np.abs(ranks[bad].mean(axis=0) - 0.5) + np.abs(ranks[bad].std(axis=0) - 12**-0.5)
    return np.argsort(-apart, kind="stable")[:PAIRED_QUANTITIES]


def _draw_pair(ax: Any, x: np.ndarray, y: np.ndarray, bad: np.ndarray) -> None:
    good = np.flatnonzero(~bad)
    good = good[:: max(1, len(good) // MOST_POINTS)]
    ax.scatter(x[good], y[good], s=5, lw=0, color=COLORS["light"], alpha=0.6, rasterized=True)
    ax.scatter(x[bad], y[bad], s=14, lw=0.4, color=COLORS["bad"], edgecolor="white", zorder=3)
