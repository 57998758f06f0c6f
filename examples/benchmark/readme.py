"""The measured numbers of the README and its picture, from the CSV files in results/.

`python readme.py` writes both anew (a test compares the README with the files), and with `--run`
also what the first block of the README prints.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from pathlib import Path

from from_paper import replaced
from measure import RESULTS
from results_page import r_hat_bar
from results_pictures import _plain_ticks, _save
from results_table import DEFAULT, LOW_RANK, MIXED, OURS, Table, geometric_mean, read

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PICTURE = RESULTS / "readme.png"

GRADIENT, SECOND = "per_1000_all", "per_cpu_second"
NUTS = "nuts"
MOST = 300.0  # larger ratios lie here, with their number: one outlier would squeeze the others
# Whom ours is divided by: name, marker, colour.
PEERS = {
    DEFAULT: ("nutpie", "o", "#9aa4b2"),
    LOW_RANK: ("nutpie, low rank", "D", "#1f5fa8"),
    NUTS: ("PyMC's NUTS", "s", "#d1701a"),
}


def real_models(results: Path) -> Table | None:
    """Whole runs with their CPU seconds; None if they have not been measured."""
    path = results / "per_second.csv"
    if not path.exists():
        return None
    rows = [row for row in read(path) if row["cpu_seconds"] and row["ess_bulk"]]
    for row in rows:
        size = min(float(row["ess_bulk"]), float(row["ess_tail"]))
        row[SECOND] = str(size / float(row["cpu_seconds"]))
    return Table(rows)


# ------------------------------------------------------------------------- numbers


def over_better(table: Table, column: str) -> dict[str, float]:
    """Ours over the better of nutpie's modes, by model; a mode that was given up is none."""
    ratios = {}
    for model in table.judged:
        pairs = [table.ratio(model, column, peer=mode) for mode in (DEFAULT, LOW_RANK)]
        if known := [value for value in pairs if value is not None]:
            ratios[model] = min(known)
    return ratios


def typical_and_worst(ratios: dict[str, float], worst=min) -> tuple[str, str]:
    model = worst(ratios, key=lambda name: ratios[name])
    typical = geometric_mean(ratios.values())
    assert typical is not None
    return f"{factor(typical)} ×", f"{factor(ratios[model])} × ({model})"


def factor(value: float) -> str:
    """With two digits."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def first_draws(results: Path) -> tuple[str, str, int]:
    """CPU seconds to the first draw of a new model over nutpie's: typical, worst, models."""
    rows = [row for row in read(results / "first_draw.csv") if row["nutpie CPU s"]]
    ratios = {row["model"]: float(row["ratio"]) for row in rows}
    return *typical_and_worst(ratios, max), len(ratios)


def table_lines(results: Path) -> list[str]:
    """The table of the README, and where it loses."""
    bench, real = Table(read(results / "efficiency.csv")), real_models(results)
    by_gradient, whole = (over_better(bench, c) for c in ("per_1000_draws", "per_1000_all"))
    ess = "effective samples per"
    rows = [
        (f"{ess} gradient, {len(by_gradient)} posteriors", *typical_and_worst(by_gradient)),
        ("the same, the warm-up's gradients included", *typical_and_worst(whole)),
    ]
    gradients = dict(by_gradient)
    if real:  # their gradients are not in the table, and are not to be passed over
        gradients |= over_better(real, "per_1000_draws")
    below = [f"per gradient on {listed(gradients)}"]
    if real:
        by_second = over_better(real, SECOND)
        what = f"{ess} CPU second of whole runs, {len(by_second)} models with real data"
        rows.append((what, *typical_and_worst(by_second)))
        below.append(f"per second on {listed(by_second)}")
    *numbers, count = first_draws(results)
    what = f"CPU seconds to the first draw of a new model (less is better), {count} models"
    rows.append((what, *numbers))
    what, text, _, _ = r_hat_bar(bench)
    agreed, *missed = text.split("; not ")
    rows.append(("R-hat below 1.01 in all runs, where nutpie's is", agreed, *(missed or ["none"])))
    head = [
        "| ours over nutpie's, the better of its two modes | typical | worst |",
        "|---|---|---|",
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    told = [f"Nutpie does better {'; '.join(below)}."]
    if real and any(row["sampler"] == NUTS for row in real.rows):
        told.append(of_nuts(real.rows))
    return [*head, *lines, "", *told]


def of_nuts(rows: list[dict[str, str]]) -> str:
    """How NUTS's rows were made, which did not take turns with the others."""
    of = {
        is_nuts: [r for r in rows if (r["sampler"] == NUTS) == is_nuts] for is_nuts in (True, False)
    }
    wanted = {
        who: statistics.median(float(row["load"]) for row in some) for who, some in of.items()
    }
    seeds = len({row["seed"] for row in of[True]})
    return (
        f"PyMC's NUTS, in the picture, had {seeds} seed{'s' if seeds > 1 else ''} per model, when "
        f"{wanted[True]:.0f} processes wanted a core; {wanted[False]:.0f} did when the others took "
        "turns."
    )


def listed(ratios: dict[str, float]) -> str:
    names = sorted((name for name in ratios if ratios[name] < 1.0), key=lambda name: ratios[name])
    return ", ".join(f"{name} ({factor(ratios[name])})" for name in names) or "none of them"


def page_of(page: str, results: Path) -> str:
    """The README with the numbers of the CSV files."""
    return replaced(page, "measured", table_lines(results))


# -------------------------------------------------------------------------- output


def output_lines(page: str) -> list[str]:
    """What the first block of the README says, in a process of its own."""
    block = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=True)
    return shown(done.stderr.splitlines(), done.stdout.splitlines())


def shown(told: list[str], printed: list[str]) -> list[str]:
    """The closing line of the native run, and the table of the comparison.

    Seconds, and the verdict which has them, are those of the machine at that moment: left out.
    """
    closing = [line for line in told if line.startswith("Sampled ")]
    first = next(k for k, line in enumerate(printed) if line.split()[:1] == ["mjhmc"])
    last = printed.index("", first)
    of_time = ("seconds,", "of these,", "ESS per second")
    table = [line for line in printed[first:last] if not line.startswith(of_time)]
    return ["```text", *closing, "", *table, "```"]


# ------------------------------------------------------------------------- picture


def draw(table: Table, columns: dict[str, str], path: Path) -> None:
    """A row for each model, a panel for each column, a point for each peer.

    Points are hollow where a sampler's R-hat says that its effective samples mean little.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    known = {m: [table.ratio(m, GRADIENT, peer=sampler) for sampler in PEERS] for m in table.judged}
    # By the strongest of those that a model was compared with.
    worst = {m: min(v for v in values if v) for m, values in known.items() if any(values)}
    order = sorted(worst, key=lambda model: worst[model])
    size = (4.4 * len(columns) + 1.6, 1.3 + 0.2 * len(order))
    figure, axes = plt.subplots(
        1, len(columns), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for panel, (column, title) in zip(axes[0], columns.items(), strict=True):
        panel.set_xscale("log")
        panel.axvline(1.0, color="black", linewidth=1)
        panel.grid(axis="both", color="0.92", linewidth=0.6)
        panel.set_axisbelow(True)
        for sampler, (label, marker, colour) in PEERS.items():
            _draw_peer(panel, table, order, column, sampler, marker, colour, label)
        panel.set_ylim(-0.7, len(order) - 0.3)
        _plain_ticks(panel)
        panel.tick_params(axis="x", labelsize=8)
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("MJHMC is better →", fontsize=9, loc="right")
    hollow = f"hollow: not converged (R-hat above {MIXED:g})"
    axes[0, 0].scatter([], [], s=30, facecolors="white", edgecolors="0.4", label=hollow)
    axes[0, 0].set_yticks(range(len(order)), order, fontsize=8)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    _save(figure, path)


def _draw_peer(panel, table, order, column, sampler, marker, colour, label) -> None:
    """The ratios of one panel to one other sampler."""
    ratios = {m: table.ratio(m, column, peer=sampler) for m in order}
    points = [(y, m, ratios[m]) for y, m in enumerate(order) if ratios[m] is not None]
    if not points:
        return
    sure = [all(table.is_mixed(m, s) for s in (OURS, sampler)) for _, m, _ in points]
    faces = [colour if mixed else "white" for mixed in sure]
    rows, _, values = zip(*points, strict=True)
    shown = [min(value, MOST) for value in values]
    panel.scatter(shown, rows, s=30, marker=marker, facecolors=faces, edgecolors=colour, zorder=3)
    for value, row in zip(values, rows, strict=True):
        if value > MOST:
            told = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
            panel.annotate(f"{value:,.0f} →", (MOST, row), **told, fontsize=7, color=colour)
            panel.set_xlim(right=MOST * 5)  # room for the number
    panel.scatter([], [], s=30, marker=marker, color=colour, label=f"ours / {label}")


def draw_picture(results: Path, path: Path) -> None:
    """Whole runs per gradient and per second; per gradient alone where no seconds are known."""
    real = real_models(results)
    if real:
        titles = {
            GRADIENT: "effective samples per gradient",
            SECOND: "effective samples per CPU second",
        }
        draw(real, titles, path)
    else:
        bench = Table(read(results / "efficiency.csv"))
        draw(bench, {GRADIENT: "effective samples per gradient"}, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="the output of the first block, too")
    page = page_of(README.read_text(), RESULTS)
    if parser.parse_args().run:
        page = replaced(page, "output", output_lines(page))
    README.write_text(page)
    draw_picture(RESULTS, PICTURE)
    print(PICTURE)


if __name__ == "__main__":
    main()
