"""How the warm-up went, and the coordinates that it found."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjhmc_numba.plots.axes import (
    COLORS,
    chain_color,
    finish,
    nothing,
    on_axes,
    open_axes,
    plain_log,
    tidy,
)
from mjhmc_numba.plots.data import as_arviz, statistic, stored

__all__ = ["plot_reparametrisation", "plot_warmup"]

MOST_ROWS_SHOWN = 30  # children that get a row of their own; more of them share one by variable
MOST_NUMBERS_SHOWN = 80  # cells that have their number written into them: they are legible still


@on_axes("array of four Axes")
def plot_warmup(
    data: Any,
    *,
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
    show: bool | None = None,
) -> Any:
    """Step size, trajectory length, coordinates and log density over the warm-up, by chain.

    Parameters
    ----------
    data : Result, InferenceData or DataTree
        Of `mjhmc_numba.sample` or `mjhmc_numba.pymc.sample`; or of `pm.sample`, if it kept the
        draws of the warm-up: coordinates are then not known, and gradients per draw stand for
        the trajectory length.
    {canvas}

    Returns
    -------
    (2, 2) array of Axes
    """
    data = as_arviz(data)
    windows = stored(data, "warmup_windows")
    kept = statistic(data, "lp", "warmup_sample_stats")
    if not any(windows) and kept is None:
        raise ValueError(
            "Nothing is known of the warm-up: sample with mjhmc_numba.pymc.sample, or with "
            "discard_tuned_samples=False."
        )
    axes = open_axes(ax, 2, 2, figsize or (10, 6))
    if any(windows):
        _draw_windows(axes.ravel(), windows)
    else:
        _draw_kept(axes.ravel(), data)
    if kept is not None:
        for k, values in enumerate(kept):
            axes[1, 1].plot(values, color=chain_color(k), lw=0.4, alpha=0.5, zorder=1)
    _fit_density(axes[1, 1])
    for panel in axes.ravel():
        panel.set_xlim(left=0)
    return finish(axes, show)


def _fit_density(ax: Any) -> None:
    """Leave out the first draws, which may be far below all others."""
    values = np.concatenate([line.get_ydata() for line in ax.lines])
    low, high = np.quantile(values[np.isfinite(values)], [0.1, 1.0])
    reach = max(high - low, 1.0)
    ax.set_ylim(max(values.min(), low - 1.5 * reach) - 0.05 * reach, high + 0.1 * reach)


def _draw_windows(axes: Any, windows: list) -> None:
    step, length, coordinates, density = axes
    for k, chain in enumerate(windows):
        if not chain:
            continue
        ends = np.array([0] + [w["draws"] for w in chain])
        style = {"color": chain_color(k), "lw": 1.4}
        for panel, name in ((step, "step_size"), (length, "path_length")):
            panel.stairs([w[name] for w in chain], ends, baseline=None, label=f"chain {k}", **style)
        coordinates.stairs([w["metric_rank"] for w in chain], ends, baseline=None, **style)
        moved = [w["reparametrised"] for w in chain]
        coordinates.stairs(moved, ends, baseline=None, ls="--", **style)
        middle = 0.5 * (ends[1:] + ends[:-1])
        density.plot(middle, [w["log_density"] for w in chain], marker=".", ms=4, **style)
    for panel in (step, length):
        plain_log(panel)
    step.legend(fontsize=8, frameon=False)
    keys = [coordinates.plot([], [], color="k", ls=ls)[0] for ls in ("-", "--")]
    told = ["directions of the metric", "reparametrised dimensions"]
    coordinates.legend(keys, told, fontsize=8, frameon=False)
    tidy(step, "Step size", "", "per gradient, whitened")
    used = ", ".join(sorted({chain[-1]["integrator"] for chain in windows if chain}))
    tidy(length, f"Trajectory length between refreshes ({used})", "", "whitened length")
    coordinates.set_ylim(-0.2, 1.1 * max(coordinates.get_ylim()[1], 1.0))
    coordinates.yaxis.get_major_locator().set_params(integer=True)
    tidy(coordinates, "Coordinates", "draw of the warm-up", "number")
    tidy(density, "Log density, median of each window", "draw of the warm-up", "")


def _draw_kept(axes: Any, data: Any) -> None:
    """From statistics of each draw, which do not tell the coordinates."""
    step, length, coordinates, density = axes
    for panel, name in ((step, "step_size_bar"), (length, "n_steps"), (density, "lp")):
        values = statistic(data, name, "warmup_sample_stats")
        for k, of_chain in enumerate([] if values is None else values):
            panel.plot(of_chain, color=chain_color(k), lw=0.8, label=f"chain {k}")
    for panel in (step, length):  # trials of integrators cost a hundred times a usual draw
        plain_log(panel)
    step.legend(fontsize=8, frameon=False)
    tidy(step, "Step size", "", "per gradient, whitened")
    tidy(length, "Gradients per draw", "", "")
    tidy(density, "Log density", "draw of the warm-up", "")
    nothing(coordinates, "pm.sample does not keep the coordinates")


@on_axes("array of Axes", "Where to draw, one per chain.")
def plot_reparametrisation(
    data: Any,
    *,
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
    show: bool | None = None,
) -> Any:
    """Which variables were reparametrised, and how.

    A number in column "scale by tau" is the slope of the log scale that was taken out, by tau on
    its unconstrained scale: 0 is as the model is written, 1 is non-centred if tau is a standard
    deviation of a centred hierarchy, and -1 is centred where the model is non-centred. In a column
    "location by mu" it is the factor of mu that was taken out.

    Parameters
    ----------
    data : Result, InferenceData or DataTree
        Of `mjhmc_numba.sample` or `mjhmc_numba.pymc.sample`, or of `pm.sample` by `MJHMC`.
    {canvas}

    Returns
    -------
    Axes or array of Axes
        One per chain; a single one where no chain was reparametrised.
    """
    found = stored(as_arviz(data), "reparametrisation")
    if not any(found):
        axes = open_axes(ax, 1, 1 if ax is None else np.size(ax), figsize or (6, 1.5))[0]
        for panel in axes:
            nothing(panel, "No variable was reparametrised.")
        return finish(axes, show)
    tables = [_slopes(chain) for chain in found]
    children = list(dict.fromkeys(child for t in tables for child, _ in t))
    parents = sorted({parent for t in tables for _, parent in t})
    grouped = len(children) > MOST_ROWS_SHOWN
    rows = list(dict.fromkeys(_variable(c) for c in children)) if grouped else children
    size = (1.8 + len(tables) * (0.8 + 0.55 * len(parents)), 1.6 + 0.24 * len(rows))
    axes = open_axes(ax, 1, len(tables), figsize or size)[0]
    for k, (panel, table) in enumerate(zip(axes, tables, strict=True)):
        grid = np.full((len(rows), len(parents)), np.nan)
        for i, row in enumerate(rows):
            for j, parent in enumerate(parents):
                values = [
                    v
                    for (c, p), v in table.items()
                    if p == parent and (_variable(c) if grouped else c) == row
                ]
                grid[i, j] = np.mean(values) if values else np.nan
        image = _draw_slopes(panel, grid, rows if k == 0 else None, parents)
        tidy(panel, f"chain {k}" if table else f"chain {k}: as it is")
    axes[0].figure.colorbar(image, ax=list(axes), shrink=0.8).set_label("taken out", fontsize=9)
    return finish(axes, show)


def _variable(label: str) -> str:
    return label.split("[")[0]


def _slopes(chain: dict) -> dict[tuple[str, str], float]:
    """By child and parent."""
    table = {}
    for kind in ("scale", "location") if chain else ():
        for child, slopes in zip(chain["children"], chain[f"{kind}_slopes"], strict=True):
            for parent, slope in zip(chain[f"{kind}_parents"], slopes, strict=True):
                table[child, f"{kind} by {parent}"] = slope
    return table


def _draw_slopes(ax: Any, grid: np.ndarray, rows: list[str] | None, parents: list[str]) -> Any:
    image = ax.imshow(grid, cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto")
    ax.set_facecolor("#f4f5f7")
    ax.set_xticks(range(len(parents)), parents, rotation=90)
    ax.set_yticks(range(len(grid)), rows if rows is not None else [""] * len(grid))
    if grid.size <= MOST_NUMBERS_SHOWN:
        for (i, j), value in np.ndenumerate(grid):
            if np.isfinite(value):
                color = "white" if abs(value) > 0.9 else COLORS["grey"] if value == 0 else "black"
                ax.text(j, i, f"{value:.2g}", ha="center", va="center", fontsize=7, color=color)
    return image
