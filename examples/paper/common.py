"""What the figures share: parameters, CSV files, the look of the plots."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent

# In the order in which they are made.
FIGURES = (
    "ladder",
    "dynamics",
    "spectral_gap",
    "search",
    "rough_well",
    "balance",
    "experts",
    "other_targets",
)

COLOURS = {
    "MJHMC": "#1b7837",
    "HMC": "#c0392b",
    "NUTS": "#2166ac",
    "default": "#7b3294",
    "grey": "#777777",
}


def parameters(figure: str, quick: bool = False) -> dict[str, Any]:
    """Parameters of a figure; its quick form replaces some of them."""
    with open(HERE / "parameters.toml", "rb") as file:
        table = tomllib.load(file)[figure]
    changes = table.pop("quick", {})
    return table | changes if quick else table


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of equal keys; numbers keep ten digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _text(value) for key, value in row.items()} for row in rows)


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Rows of a CSV file; what looks like a number is one."""
    with open(path, newline="") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def select(rows: Iterable[Mapping[str, Any]], **wanted) -> list[Mapping[str, Any]]:
    """The rows in which each key has the wanted value."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def only(rows: Iterable[Mapping[str, Any]], **wanted) -> Mapping[str, Any]:
    """The one row in which each key has the wanted value."""
    (row,) = select(rows, **wanted)
    return row


def column(rows: Iterable[Mapping[str, Any]], key: str) -> np.ndarray:
    return np.array([row[key] for row in rows])


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.10g}"
    return str(value)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# ----------------------------------------------------------------------- plots


def pyplot():
    """Matplotlib's pyplot, drawing into files, in the style of these pages."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "axes.grid": True,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.dpi": 110,
            "font.size": 11,
            "grid.alpha": 0.3,
            "legend.frameon": False,
            "savefig.bbox": "tight",
        }
    )
    return plt


def plain_ticks(axis) -> None:
    """A logarithmic axis with plain numbers, and more of them where it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    short = low > 0 and high / low < 100
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if short else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def save(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # No software version in the file: the same numbers make the same picture.
    figure.savefig(path, metadata={"Software": None})
    pyplot().close(figure)


# --------------------------------------------------------------------- numbers


def number(value: float, digits: int = 3) -> str:
    """A number for the page, in plain digits where they are few."""
    if value == 0 or 1e-4 <= abs(value) < 1e5:
        text = f"{value:#.{digits}g}".rstrip(".")
        return f"{value:.0f}" if abs(value) >= 10**digits else text
    return f"{value:.{digits - 1}e}"


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a Markdown table; numbers to the right."""
    keys = list(rows[0])
    lines = ["| " + " | ".join(keys) + " |"]
    lines.append("|" + "|".join("--:" if _is_number(rows[0][k]) else "---" for k in keys) + "|")
    lines += ["| " + " | ".join(str(row[key]) for key in keys) + " |" for row in rows]
    return "\n".join(lines)


def _is_number(value: Any) -> bool:
    return not isinstance(_value(str(value).split(" ")[0]), str)
