"""Axes to draw on, and how they look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "COLORS",
    "EVENTS",
    "WARMUP",
    "chain_color",
    "finish",
    "need_matplotlib",
    "nothing",
    "on_axes",
    "open_axes",
    "plain_log",
    "tidy",
]

# Blue for what matters, its light tint for what goes with it, red for what is wrong.
COLORS = {"main": "#2f6db5", "light": "#a9c7ea", "bad": "#c8372d", "grey": "#8a8f98"}
# Colours of the events, distinct to most eyes (Okabe and Ito 2008).
EVENTS = {"L": "#0072b2", "F": "#d55e00", "R": "#009e73"}
WARMUP = {"color": "#f0f1f4", "zorder": 0, "lw": 0}  # behind what belongs to the warm-up
CHAINS = ("#2f6db5", "#d9822b", "#3a9b6a", "#8c5fb0", "#c8372d", "#55799a", "#a08020", "#d070a0")


# What all pictures take.
PARAMETERS = """figsize : tuple of float, optional
        Size of a new figure in inches.
    ax : {kind}, optional
        {where}
    show : bool, optional
        Call `matplotlib.pyplot.show`."""

F = TypeVar("F", bound=Callable)


def on_axes(kind: str, where: str = "Where to draw.") -> Callable[[F], F]:
    """Write what all pictures take into a docstring, in the place of ``{canvas}``.

    Parameters
    ----------
    kind : str
        The type of `ax`.
    where : str
        The sentence about it.
    """

    def document(function: F) -> F:
        shared = PARAMETERS.format(kind=kind, where=where)
        if function.__doc__ is not None:  # it is None with python -OO
            function.__doc__ = function.__doc__.replace("{canvas}", shared)
        return function

    return document


def chain_color(k: int) -> str:
    """The colour of chain number k."""
    return CHAINS[k % len(CHAINS)]


@contextmanager
def need_matplotlib() -> Iterator[None]:
    """Where matplotlib is imported: says what to install if it cannot be found."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Pictures need matplotlib: pip install 'mjhmc_numba[plots]'", name=error.name
        ) from error


def open_axes(ax: Any, rows: int, columns: int, figsize: tuple[float, float] | None) -> np.ndarray:
    """The axes that were given, (rows, columns), or those of a new figure."""
    if ax is not None:
        given = np.atleast_1d(np.asarray(ax, dtype=object))
        if given.size != rows * columns:
            raise ValueError(f"ax has {given.size} axes; the picture needs {rows * columns}.")
        return given.reshape(rows, columns)
    with need_matplotlib():
        import matplotlib.pyplot as plt
    return plt.subplots(rows, columns, figsize=figsize, squeeze=False, layout="constrained")[1]


def tidy(ax: Any, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Titles, and no frame above and to the right."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(title, fontsize=10, loc="left")
    ax.set_xlabel(xlabel, fontsize=9)
    ax.set_ylabel(ylabel, fontsize=9)
    ax.tick_params(labelsize=8)


def plain_log(ax: Any) -> None:
    """A logarithmic axis of y with plain numbers: 0.5 and 2, not powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def nothing(ax: Any, why: str) -> None:
    """An empty picture that says why."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, why, ha="center", va="center", transform=ax.transAxes, color=COLORS["grey"])


def finish(axes: np.ndarray, show: bool | None) -> Any:
    """What ArviZ returns: one Axes, or an array of them; shown first if asked."""
    if show:
        import matplotlib.pyplot as plt

        plt.show()
    return axes.item() if axes.size == 1 else axes.squeeze()
