"""Figure 1: what the operators F, L and R do, and the ladder that they make."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from examples.paper.common import COLOURS, column, only, pyplot, read_csv, save, select, write_csv

GREEN, RED = COLOURS["MJHMC"], COLOURS["HMC"]


def leapfrog(x, v, precision, step_size, num_steps):
    """The path of L in a Gaussian well: positions and momenta, shapes (num_steps + 1, 2)."""
    positions, momenta = [x], [v]
    for _ in range(num_steps):
        half = momenta[-1] - 0.5 * step_size * precision * positions[-1]
        positions.append(positions[-1] + step_size * half)
        momenta.append(half - 0.5 * step_size * precision * positions[-1])
    return np.array(positions), np.array(momenta)


def compute(p: dict, results: Path) -> None:
    """States zeta, F zeta, L zeta, R zeta, FLFL zeta, and the path between zeta and L zeta."""
    precision = np.array(p["precision"])
    x, v = np.array(p["x"]), np.array(p["v"])

    def L(x, v):
        path = leapfrog(x, v, precision, p["step_size"], p["num_steps"])
        return path[0][-1], path[1][-1]

    path = leapfrog(x, v, precision, p["step_size"], p["num_steps"])
    states = {"zeta": (x, v), "F": (x, -v), "L": (path[0][-1], path[1][-1])}
    states["R"] = (x, np.random.default_rng(p["seed"]).standard_normal(2))
    there = L(x, v)
    back = L(there[0], -there[1])
    states["FLFL"] = (back[0], -back[1])
    rows = [_row(name, state, precision) for name, state in states.items()]
    rows += [_row("path", state, precision) for state in zip(*path, strict=True)]
    write_csv(results / "ladder.csv", rows)


def _row(name, state, precision):
    (x1, x2), (v1, v2) = state
    energy = 0.5 * (precision @ np.square(state[0]) + v1**2 + v2**2)
    return {"state": name, "x1": x1, "x2": x2, "v1": v1, "v2": v2, "energy": energy}


def claims(results: Path) -> dict[str, float]:
    """How far F L F L is from the identity, and what F and L do to the energy."""
    rows = read_csv(results / "ladder.csv")
    state = {name: only(rows, state=name) for name in ("zeta", "F", "L", "FLFL")}
    keys = ("x1", "x2", "v1", "v2")
    return {
        "loop_error": max(abs(state["FLFL"][key] - state["zeta"][key]) for key in keys),
        "flip_energy": abs(state["F"]["energy"] - state["zeta"]["energy"]),
        "leap_energy": abs(state["L"]["energy"] - state["zeta"]["energy"]),
    }


# ----------------------------------------------------------------------- plot


def draw(results: Path, figures: Path) -> None:
    rows = read_csv(results / "ladder.csv")
    plt = pyplot()
    figure = plt.figure(figsize=(9, 6))
    grid = figure.add_gridspec(3, 2, width_ratios=[1, 1.35], hspace=0.1, wspace=0.05)
    for place, operator in enumerate("FLR"):
        _draw_operator(figure.add_subplot(grid[place, 0]), rows, operator)
    _draw_ladder(figure.add_subplot(grid[:, 1]))
    save(figure, figures / "ladder.png")


def _draw_operator(axes, rows, operator: str) -> None:
    zeta, image = only(rows, state="zeta"), only(rows, state=operator)
    path = select(rows, state="path")
    if operator == "L":
        axes.plot(column(path, "x1"), column(path, "x2"), ":", color="black", lw=1.5)
    _arrow(axes, zeta, GREEN, r"$\zeta$")
    _arrow(axes, image, RED, rf"$\mathbf{{{operator}}}\,\zeta$")
    meaning = {"F": "flip the momentum", "L": "integrate, M steps", "R": "redraw the momentum"}
    axes.set_title(rf"$\mathbf{{{operator}}}$: {meaning[operator]}", fontsize=11, loc="left", pad=2)
    axes.set(xlim=(-2.6, 2.0), ylim=(-0.75, 1.2), aspect="equal", xticks=[], yticks=[])
    axes.grid(False)
    for side in axes.spines.values():
        side.set_visible(False)


def _arrow(axes, state, colour: str, label: str) -> None:
    base = np.array([state["x1"], state["x2"]])
    tip = base + 0.55 * np.array([state["v1"], state["v2"]])
    axes.annotate("", tip, base, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2.2})
    axes.plot(*base, "o", color=colour, ms=5)
    away = 0.24 * (tip - base) / np.linalg.norm(tip - base)
    axes.text(*(tip + away), label, color=colour, ha="center", va="center", fontsize=12)


def _draw_ladder(axes) -> None:
    """Right side up by L, left side down by L, across by F; loops of constant flow between."""
    right = {-1: r"$L^{-1}\zeta$", 0: r"$\zeta$", 1: r"$L\,\zeta$", 2: r"$L^2\zeta$"}
    left = {-1: r"$FL^{-1}\zeta$", 0: r"$F\zeta$", 1: r"$FL\,\zeta$", 2: r"$FL^2\zeta$"}
    for rung in right:
        axes.plot([0, 1], [rung, rung], color=COLOURS["grey"], lw=1, zorder=0)
        axes.text(0.5, rung + 0.05, r"$\mathbf{F}$", ha="center", va="bottom", fontsize=11)
        for x, label, colour in ((0, left[rung], RED), (1, right[rung], GREEN)):
            axes.plot(x, rung, "o", color=colour, ms=9)
            shift = -0.08 if x == 0 else 0.08
            align = "right" if x == 0 else "left"
            axes.text(x + shift, rung, label, ha=align, va="center", fontsize=13)
    for rung in (-1, 0, 1):
        _along(axes, (1, rung), (1, rung + 1), GREEN)
        _along(axes, (0, rung + 1), (0, rung), RED)
        axes.text(1.06, rung + 0.5, r"$\mathbf{L}$", va="center", color=GREEN, fontsize=12)
        axes.text(
            -0.06, rung + 0.5, r"$\mathbf{L}$", va="center", ha="right", color=RED, fontsize=12
        )
        _loop(axes, 0.5, rung + 0.5)
    for y in (-1.35, 2.35):
        axes.text(0.5, y, "⋮", ha="center", va="center", fontsize=16)
    axes.set_title("The ladder, with loops of constant flow", fontsize=11, loc="left", pad=2)
    axes.set(xlim=(-0.65, 1.5), ylim=(-1.6, 2.6))
    axes.axis("off")


def _along(axes, start, end, colour) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 8, "shrinkB": 8}
    axes.annotate("", end, start, arrowprops=style)


def _loop(axes, x: float, y: float) -> None:
    """Up on the right, to the left above, down, and back to the right: anticlockwise."""
    angle = np.linspace(-0.35 * np.pi, 1.45 * np.pi, 80)
    path = np.array([x + 0.2 * np.cos(angle), y + 0.22 * np.sin(angle)])
    axes.plot(*path, color=COLOURS["NUTS"], lw=1.6)
    style = {"arrowstyle": "-|>", "color": COLOURS["NUTS"], "lw": 1.6}
    axes.annotate("", path[:, -1], path[:, -4], arrowprops=style)
