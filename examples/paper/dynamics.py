"""Figure 2: a trajectory of the jump process in one dimension, with its ladders."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import mjhmc_numba
from examples.paper.common import COLOURS, column, only, pyplot, read_csv, save, select, write_csv
from examples.paper.samplers import quietly
from mjhmc_numba import Settings, targets, weights

LEAP, FLIP, REFRESH = 1, 2, 3
NAMES = {LEAP: "L", FLIP: "F", REFRESH: "R"}


def compute(p: dict, results: Path) -> None:
    target = targets.multimodal_gaussian(1, p["separation"], sd=p["sd"], weight=p["weight"])
    record = _record(target, p)
    x = record["x"][:, 0]
    write_csv(results / "dynamics.csv", _trajectory(record, p["steps"]))
    write_csv(results / "dynamics_density.csv", _density(target, p))
    write_csv(results / "dynamics_numbers.csv", _numbers(target, x, record))


def _record(target, p) -> dict[str, np.ndarray]:
    settings = Settings.paper(
        step_size=p["step_size"],
        num_steps=p["num_steps"],
        refresh_rate=p["refresh_rate"],
        draw_interval=1.0,
        metric=np.ones(1),
    )
    with quietly():
        result = mjhmc_numba.sample(
            target,
            initial=np.array([p["separation"]]),
            settings=settings,
            draws=p["record"],
            tune=0,
            chains=1,
            seed=p["seed"],
            progress=False,
            jumps=True,
        )
    assert result.jumps is not None
    return result.jumps[0]


def _trajectory(record, steps: int) -> list[dict]:
    """The first steps with their place on the ladders: rung i and direction s."""
    rows, ladder, i, s, time = [], 0, 0, 1, 0.0
    for k in range(steps):
        event = int(record["event"][k])
        rows.append(
            {
                "step": k,
                "time": time,
                "x": record["x"][k, 0],
                "holding_time": record["holding_time"][k],
                "expected_holding_time": record["expected_holding_time"][k],
                "ladder": ladder,
                "rung": i,
                "direction": s,
                "event": NAMES[event],
            }
        )
        time += record["holding_time"][k]
        if event == LEAP:
            i += s
        elif event == FLIP:
            s = -s
        else:
            ladder, i, s = ladder + 1, 0, 1
    return rows


def _density(target, p) -> list[dict]:
    reach = p["separation"] + 4.5 * p["sd"]
    x = np.linspace(-reach, reach, 401)
    logp = np.array([target.logp([value]) for value in x])
    density = np.exp(logp - logp.max())
    density /= density.sum() * (x[1] - x[0])
    return [{"x": a, "density": b} for a, b in zip(x, density, strict=True)]


def _numbers(target, x, record) -> list[dict]:
    """Weighted and plain means of x and its square over the whole record, with their errors."""
    held, expected = record["holding_time"], record["expected_holding_time"]
    second = float(target.variance[0] + target.mean[0] ** 2)
    rows = []
    for name, values, exact in (("x", x, float(target.mean[0])), ("x^2", x**2, second)):
        for how, w in (("by dwell time", held), ("plain", np.ones(x.size))):
            estimate, error = float(weights.mean(values, w)), float(weights.mcse(values, w))
            rows.append(
                {
                    "quantity": name,
                    "average": how,
                    "estimate": estimate,
                    "standard_error": error,
                    "exact": exact,
                    "z": (estimate - exact) / error,
                }
            )
    # Held times over expected ones are exponential with mean 1 and independent.
    ratio, error = float(np.mean(held / expected)), x.size**-0.5
    dwell = {"quantity": "dwell / expected", "average": "plain", "exact": 1.0}
    dwell |= {"estimate": ratio, "standard_error": error, "z": (ratio - 1.0) / error}
    return [*rows, {key: dwell[key] for key in rows[0]}]


def claims(results: Path) -> dict[str, float]:
    rows = read_csv(results / "dynamics_numbers.csv")
    weighted = only(rows, quantity="x^2", average="by dwell time")
    plain = only(rows, quantity="x^2", average="plain")
    return {
        "steps": len(read_csv(results / "dynamics.csv")),
        "weighted_z": weighted["z"],
        "weighted_mean_z": only(rows, quantity="x", average="by dwell time")["z"],
        "plain_z": plain["z"],
        "exact": weighted["exact"],
        "weighted": weighted["estimate"],
        "plain": plain["estimate"],
        "dwell_z": only(rows, quantity="dwell / expected")["z"],
        "dwell_ratio": only(rows, quantity="dwell / expected")["estimate"],
    }


# ----------------------------------------------------------------------- plot


def draw(results: Path, figures: Path) -> None:
    rows = read_csv(results / "dynamics.csv")
    density = read_csv(results / "dynamics_density.csv")
    first, last = _window(rows)
    plt = pyplot()
    figure = plt.figure(figsize=(10.5, 7.2))
    top = figure.add_gridspec(
        1, 3, width_ratios=[1, 6, 1], wspace=0.05, left=0.07, right=0.98, top=0.95, bottom=0.5
    )
    middle = figure.add_subplot(top[1])
    _draw_trajectory(middle, rows, density, rows[first]["time"], _end(rows[last]))
    _draw_sides(figure, top, middle, rows, density)
    bottom = figure.add_gridspec(
        1, 3, width_ratios=[3.2, 1, 1], wspace=0.12, left=0.07, right=0.98, top=0.38, bottom=0.07
    )
    _draw_close_up(figure.add_subplot(bottom[0]), rows[first : last + 1])
    seen = rows[first : last + 1]
    before = select(seen, ladder=rows[first]["ladder"])
    after = select(seen, ladder=rows[last]["ladder"])
    _draw_ladder(figure.add_subplot(bottom[1]), before, 1, "ladder before R", 0.0)
    _draw_ladder(
        figure.add_subplot(bottom[2]), after, 1 + len(before), r"after R: from $\zeta'$", -0.35
    )
    save(figure, figures / "dynamics.png")


def _end(row) -> float:
    return row["time"] + row["holding_time"]


def _window(rows) -> tuple[int, int]:
    """Steps around a refresh between two ladders on which there are moves and a flip."""
    ladders = column(rows, "ladder")
    best, score = (0, 0), -1.0
    for ladder in range(ladders.max()):
        here, there = np.flatnonzero(ladders == ladder), np.flatnonzero(ladders == ladder + 1)
        here, there = here[-5:], there[:5]
        events = [rows[k]["event"] for k in here[:-1]] + [rows[k]["event"] for k in there[:-1]]
        dwell = column(rows[here[0] : there[-1] + 1], "holding_time")
        value = events.count("L") + 3 * min(events.count("F"), 1) - 4 * dwell.max() / dwell.sum()
        if min(here.size, there.size) >= 4 and value > score:
            best, score = (int(here[0]), int(there[-1])), value
    return best


def _steps(rows) -> tuple[np.ndarray, np.ndarray]:
    times = np.append(column(rows, "time"), _end(rows[-1]))
    x = column(rows, "x")
    return times, np.append(x, x[-1])


def _draw_trajectory(axes, rows, density, begin, end) -> None:
    times, x = _steps(rows)
    grid, values = column(density, "x"), column(density, "density")
    extent = (times[0], times[-1], grid[0], grid[-1])
    axes.imshow(
        values[:, None], extent=extent, aspect="auto", origin="lower", cmap="Blues", alpha=0.75
    )
    axes.step(times, x, where="post", color=COLOURS["HMC"], lw=1.0)
    axes.axvspan(begin, end, color="black", alpha=0.25, lw=0)
    axes.set(xlabel="system time (grey: the close-up below)", xlim=extent[:2], ylim=extent[2:])
    axes.tick_params(labelleft=False)
    axes.set_title(f"{len(rows)} steps of the jump process on the density (blue)", fontsize=12)
    axes.grid(False)


def _draw_sides(figure, grid, middle, rows, density) -> None:
    x, values = column(density, "x"), column(density, "density")
    left = figure.add_subplot(grid[0], sharey=middle)
    left.fill_betweenx(x, 0, values, color="#6baed6")
    left.invert_xaxis()
    left.set(title="density", ylabel="x", xticks=[])
    right = figure.add_subplot(grid[2], sharey=middle)
    right.hist(
        column(rows, "x"),
        bins=30,
        weights=column(rows, "holding_time"),
        density=True,
        orientation="horizontal",
        color=COLOURS["HMC"],
        alpha=0.6,
    )
    right.plot(values, x, color="#2171b5", lw=1.2)
    right.set(title="dwell times", xticks=[])
    right.tick_params(labelleft=False)
    left.tick_params(labelleft=True)


def _colour(rows, row) -> str:
    return COLOURS["MJHMC"] if row["ladder"] == rows[0]["ladder"] else COLOURS["default"]


def _draw_close_up(axes, rows) -> None:
    """Each visit a line as long as its dwell time, numbered; the event that ends it."""
    heights = column(rows, "x")
    spread = np.ptp(heights)
    # Equal spacing where dwell times are too short to see would hide them: a floor shows all.
    widths = np.maximum(column(rows, "holding_time"), 0.06 * column(rows, "holding_time").sum())
    edges = np.concatenate([[0.0], np.cumsum(widths)])
    for k, row in enumerate(rows):
        colour = _colour(rows, row)
        axes.plot(edges[k : k + 2], [row["x"]] * 2, color=colour, lw=3, solid_capstyle="butt")
        axes.text(
            0.5 * (edges[k] + edges[k + 1]), row["x"] + 0.03 * spread, str(k + 1),
            ha="center", va="bottom", fontsize=9, color=colour,
        )  # fmt: skip
        if k + 1 == len(rows):
            break
        middle = 0.5 * (row["x"] + rows[k + 1]["x"])
        axes.plot([edges[k + 1]] * 2, [row["x"], rows[k + 1]["x"]], ":", color="black", lw=1)
        axes.text(
            edges[k + 1], middle, row["event"], ha="center", va="center", fontsize=10,
            fontweight="bold", bbox={"boxstyle": "circle,pad=0.15", "fc": "white", "ec": "0.6"},
        )  # fmt: skip
    axes.set_title("Close-up: visits 1, 2, ... and the event that ends each", fontsize=11)
    axes.set(ylabel="x", xlabel="system time (the shortest visits are drawn longer)", xticks=[])
    axes.set_ylim(heights.min() - 0.15 * spread, heights.max() + 0.2 * spread)


def _draw_ladder(axes, rows, first: int, title: str, tilt: float) -> None:
    """The ladder of these visits, each state with the numbers of its visits."""
    colour = COLOURS["MJHMC"] if first == 1 else COLOURS["default"]
    rungs = column(rows, "rung")
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])

    def place(rung, direction):
        return turn @ np.array([0.55 * direction, rung - rungs.mean()])

    low, high = rungs.min() - 0.45, rungs.max() + 0.45
    for side in (-1, 1):
        axes.plot(*np.transpose([place(low, side), place(high, side)]), color=colour, lw=1.5)
    for rung in range(rungs.min(), rungs.max() + 1):
        axes.plot(*np.transpose([place(rung, -1), place(rung, 1)]), color=colour, lw=1.5)
    visits: dict[tuple[int, int], list[str]] = {}
    for k, row in enumerate(rows):
        visits.setdefault((row["rung"], row["direction"]), []).append(str(first + k))
    for (rung, direction), numbers in visits.items():
        axes.text(
            *place(rung, direction), ",".join(numbers), ha="center", va="center", fontsize=9,
            color="white", bbox={"boxstyle": "round,pad=0.25", "fc": colour, "ec": colour},
        )  # fmt: skip
    axes.set_title(title, fontsize=11, color=colour)
    axes.set_aspect("equal")
    axes.margins(0.25)
    axes.axis("off")
