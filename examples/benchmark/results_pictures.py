"""The pictures of RESULTS.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from results_table import RATIOS, Table, geometric_mean


def _axes(rows: int):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 1.4 + 0.32 * rows), layout="constrained")
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.grid(axis="x", which="both", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _save(figure, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)


def _plain_ticks(axes) -> None:
    """1 and 3 times powers of ten, written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def draw_ratios(table: Table, path: Path) -> None:
    """A row for each model, best first."""
    series = [
        (RATIOS[0], "o", "#b0b7c3", "nutpie's default, after warm-up"),
        (RATIOS[1], "o", "#1f5fa8", "better mode, after warm-up"),
        (RATIOS[3], "D", "#d1701a", "better mode, warm-up included"),
    ]
    known = {m: RATIOS[1][1](table, m) for m in table.models}
    order = sorted((m for m, v in known.items() if v is not None), key=lambda m: known[m] or 0.0)
    figure, axes = _axes(len(order))
    for (_, get), marker, colour, label in series:
        points = [(v, y) for y, m in enumerate(order) if (v := get(table, m)) is not None]
        if points:
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, s=34, marker=marker, color=colour, label=label, zorder=3)
    axes.set_yticks(range(len(order)), order)
    axes.set_xlabel("effective samples per gradient of the worst parameter, ours / nutpie")
    _plain_ticks(axes)
    if order:
        figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    _save(figure, path)


def draw_ablation(cells: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """A row for each variant: its targets' ratios to the default, and their geometric mean."""
    variants = [variant for variant in reversed(cells) if variant != "default"]
    figure, axes = _axes(len(variants))
    for y, variant in enumerate(variants):
        values = list(cells[variant].values())
        axes.scatter(values, [y] * len(values), s=22, color="#9fb3cc", zorder=3)
        axes.scatter(geometric_mean(values), y, s=60, marker="D", color="#1f5fa8", zorder=4)
    axes.set_yticks(range(len(variants)), variants)
    axes.set_xlabel(
        "effective samples per gradient over the default's\n"
        "(dots: targets; diamond: geometric mean)"
    )
    _plain_ticks(axes)
    _save(figure, path)
