"""One page about a run, in a file that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import io
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mjhmc_numba.convergence import slowest_dimensions, split_r_hat
from mjhmc_numba.markup import escape, short, table
from mjhmc_numba.plots import (
    plot_autocorr,
    plot_divergences,
    plot_events,
    plot_reparametrisation,
    plot_warmup,
)
from mjhmc_numba.plots.axes import COLORS, chain_color, need_matplotlib, tidy
from mjhmc_numba.plots.data import quantities, statistic, stored

__all__ = ["write_report"]

MOST_ROWS = 60  # of the summary: a page
TRACES = 4  # quantities whose traces are shown, the worst
PACKAGES = ("mjhmc_numba", "numpy", "numba", "arviz", "pymc", "pytensor", "xarray")
# Attributes of the statistics: what the page calls them.
TUNED = {
    "integrator": "integrator",
    "step_size": "step size",
    "num_steps": "integrator steps per rung",
    "refresh_rate": "refresh rate",
    "draw_interval": "draw interval",
    "metric_rank": "directions of the metric",
    "reparametrisation_parents": "reparametrised by",
    "warmup_gradients": "gradients of the warm-up",
}

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2530; background: #f5f6f8; margin: 0; }
main { max-width: 1000px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 10px; }
section { background: #fff; border: 1px solid #e3e6eb; border-radius: 8px; padding: 18px 20px;
  margin-top: 18px; overflow-x: auto; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; }
.facts div { font-size: 13px; color: #5d6675; } .facts b { display: block; font-size: 20px;
  color: #1f2530; font-weight: 600; }
.good { border-left: 5px solid #3a9b6a; } .bad { border-left: 5px solid #d9822b; }
li { margin: 6px 0; max-width: 52em; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 12px 3px 0; text-align: right; border-bottom: 1px solid #eef0f3; }
th:first-child { text-align: left; font-weight: 500; }
thead th { color: #5d6675; font-weight: 500; border-bottom: 1px solid #ccd1d9; }
img { max-width: 100%; height: auto; display: block; margin: 6px 0; }
p { margin: 6px 0; max-width: 52em; } .quiet { color: #5d6675; font-size: 13px; }
"""


class Draws(NamedTuple):
    """Labels and values (chain, draw, quantity) of what varies, and which of them are worst."""

    labels: list[str]
    values: np.ndarray
    worst: list[int]


def write_report(
    data: Any, path: Any, warnings: Sequence[str], *, title: str = "Sampling report"
) -> Path:
    """Write the page about a run.

    Parameters
    ----------
    data : InferenceData or DataTree
        Draws and statistics.
    path : path
        Where to write.
    warnings : sequence of str
        What is wrong with the draws, and what to do.
    title : str
        Of the page.

    Returns
    -------
    Path
    """
    draws = _draws(data)
    summary = _summary(draws)
    draws.worst.sort(key=lambda j: summary.loc[draws.labels[j], "ess_bulk"])
    parts = [
        _head(data, draws, summary, title),
        _warnings(warnings),
        _convergence(draws, summary),
        _traces(draws),
        _energy(data),
        _divergences(data),
        _warmup(data),
        _cost(data, draws),
        _whole_summary(draws, summary),
        _settings(data),
        _versions(data),
    ]
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>"
    )
    path = Path(path)
    path.write_text(page, encoding="utf-8")
    return path


# ------------------------------------------------------------------------- numbers


def _draws(data: Any) -> Draws:
    labels, values = quantities(data)
    r_hat = split_r_hat(values)
    by_r_hat = np.argsort(-np.nan_to_num(r_hat, nan=np.inf), kind="stable")[:TRACES]
    slow = slowest_dimensions(values)[0][:TRACES]
    worst = list(dict.fromkeys([*by_r_hat.tolist(), *slow.tolist()]))
    return Draws(labels, values, worst)


def _summary(draws: Draws) -> Any:
    """ArviZ's table of the quantities, the worst and then the first ones."""
    import arviz
    import xarray

    chosen = list(dict.fromkeys([*draws.worst, *range(len(draws.labels))]))[:MOST_ROWS]
    arrays = {draws.labels[j]: (("chain", "draw"), draws.values[:, :, j]) for j in sorted(chosen)}
    return arviz.summary(xarray.Dataset(arrays), round_to="none")


def _rows(summary: Any) -> str:
    def told(column: str, value: float) -> str:
        if column.startswith("ess"):
            return f"{value:,.0f}"
        return f"{value:.3f}" if column == "r_hat" else short(float(value))

    rows = [
        (label, *(told(column, value) for column, value in row.items()))
        for label, row in summary.iterrows()
    ]
    return table(["", *summary.columns], rows)


# ------------------------------------------------------------------------- pictures


def _picture(
    width: float, height: float, shape: tuple[int, int], draw: Callable[[Any], Any], about: str
) -> str:
    """A picture inside the page, drawn on axes of its own."""
    with need_matplotlib():
        from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    draw(figure.subplots(*shape, squeeze=False))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{escape(about)}" src="data:image/png;base64,{encoded}">'


def _section(title: str, *parts: str, kind: str = "") -> str:
    return f'<section class="{kind}"><h2>{escape(title)}</h2>{"".join(parts)}</section>'


def _quiet(text: str) -> str:
    return f'<p class="quiet">{escape(text)}</p>'


# ------------------------------------------------------------------------- sections


def _head(data: Any, draws: Draws, summary: Any, title: str) -> str:
    chains, n, _ = draws.values.shape
    steps, diverging = statistic(data, "n_steps"), statistic(data, "diverging")
    facts = {
        "chains x draws": f"{chains} x {n:,}",
        "quantities": len(draws.labels),
        "largest R-hat": f"{summary['r_hat'].max():.3f}",
        "smallest bulk ESS": f"{summary['ess_bulk'].min():,.0f}",
        "smallest tail ESS": f"{summary['ess_tail'].min():,.0f}",
        "divergences": "?" if diverging is None else f"{diverging.sum():,.0f}",
        "gradients of the draws": "?" if steps is None else f"{steps.sum():,.0f}",
    }
    seconds = data["posterior"].attrs.get("sampling_time")
    if seconds is not None:
        facts["seconds"] = f"{float(seconds):.1f}"
    cells = "".join(f"<div><b>{escape(str(v))}</b>{escape(k)}</div>" for k, v in facts.items())
    return f'<h1>{escape(title)}</h1><section><div class="facts">{cells}</div></section>'


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return _section("Warnings", "<p>None: nothing looks wrong with the draws.</p>", kind="good")
    items = "".join(f"<li>{escape(message)}</li>" for message in warnings)
    return _section("Warnings", f"<ul>{items}</ul>", kind="bad")


def _convergence(draws: Draws, summary: Any) -> str:
    worst = summary.loc[[draws.labels[j] for j in draws.worst]]
    return _section(
        "Convergence",
        _quiet("The quantities in which chains agree least or mix slowest."),
        _rows(worst),
    )


def _traces(draws: Draws) -> str:
    shown = draws.worst[:TRACES]

    def draw(axes: Any) -> None:
        for (trace, marginal), j in zip(axes, shown, strict=True):
            edges = np.histogram_bin_edges(draws.values[:, :, j], 40)
            for k, series in enumerate(draws.values[:, :, j]):
                trace.plot(series, color=chain_color(k), lw=0.5, alpha=0.8)
                counts = np.histogram(series, edges, density=True)[0]
                marginal.stairs(counts, edges, color=chain_color(k), lw=1.2)
            tidy(trace, draws.labels[j], "draw")
            tidy(marginal, "each chain")
            trace.margins(x=0)

    height = 1.7 * len(shown) + 0.2
    return _section(
        "Traces of the worst",
        _picture(9.4, height, (len(shown), 2), draw, "Traces and marginals by chain"),
    )


def _energy(data: Any) -> str:
    energy = statistic(data, "energy")
    if energy is None:
        return ""
    centred = energy - energy.mean(axis=1, keepdims=True)
    changes = np.diff(energy, axis=1)
    spread = energy.var(axis=1)
    bfmi = (changes**2).mean(axis=1) / np.where(spread > 0, spread, np.nan)

    def draw(axes: Any) -> None:
        ax = axes[0, 0]
        edges = np.histogram_bin_edges(centred, 60)
        kinds = {"energy": (centred, COLORS["light"]), "change per draw": (changes, COLORS["bad"])}
        for label, (values, color) in kinds.items():
            counts = np.histogram(values, edges, density=True)[0]
            fill = color == COLORS["light"]
            ax.stairs(counts, edges, color=color, fill=fill, lw=1.4, label=label)
        ax.legend(fontsize=8, frameon=False)
        tidy(ax, "", "energy less its mean in the chain", "density")

    told = ", ".join(f"{value:.2f}" for value in bfmi)
    return _section(
        "Energy",
        _picture(9.4, 2.6, (1, 1), draw, "Energies and their changes from draw to draw"),
        _quiet(
            f"E-BFMI by chain: {told}. Energies change at refreshes alone; where draws are closer "
            "together than refreshes, changes are narrower by design."
        ),
    )


def _divergences(data: Any) -> str:
    diverging = statistic(data, "diverging")
    if diverging is None or not diverging.any():
        return ""
    n = min(len(quantities(data)[0]), 3) - 1 or 1
    picture = _picture(
        3.1 * n + 0.6, 2.8 * n, (n, n), lambda ax: plot_divergences(data, ax=ax), "Divergences"
    )
    return _section("Where divergences lie", picture)


def _warmup(data: Any) -> str:
    if not any(stored(data, "warmup_windows")) and "warmup_sample_stats" not in data:
        return _section(
            "Warm-up",
            _quiet(
                "Not kept. pm.sample(step=MJHMC(), discard_tuned_samples=False) keeps its draws; "
                "mjhmc_numba.pymc.sample always keeps how it went."
            ),
        )
    parts = [_picture(9.4, 5.2, (2, 2), lambda ax: plot_warmup(data, ax=ax), "The warm-up")]
    found = stored(data, "reparametrisation")
    if any(found):
        rows = max(min(len(chain.get("children", ())), 30) for chain in found)
        parts += [
            _quiet(
                "What was taken out of variables: the log scale by a parent (1: non-centred if the "
                "parent is the log of a standard deviation), and the location by a parent."
            ),
            _picture(
                9.4,
                1.8 + 0.2 * rows,
                (1, len(found)),
                lambda ax: plot_reparametrisation(data, ax=ax),
                "What was reparametrised",
            ),
        ]
    elif found:
        parts.append(_quiet("No variable was reparametrised."))
    return _section("Warm-up", *parts)


def _cost(data: Any, draws: Draws) -> str:
    parts = []
    if statistic(data, "n_L") is not None:
        parts.append(_picture(9.4, 2.8, (1, 2), lambda ax: plot_events(data, ax=ax), "Events"))
    if statistic(data, "n_steps") is not None:
        n = min(len(draws.labels), 4)
        parts += [
            _quiet("Autocorrelation over gradients, of the slowest quantities."),
            _picture(9.4, 2.4, (1, n), lambda ax: plot_autocorr(data, ax=ax), "Autocorrelation"),
        ]
    return _section("Events and their cost", *parts) if parts else ""


def _whole_summary(draws: Draws, summary: Any) -> str:
    left = len(draws.labels) - len(summary)
    more = [_quiet(f"{left:,} more quantities are not shown.")] if left else []
    return _section("Summary", _rows(summary), *more)


def _settings(data: Any) -> str:
    attributes = data["sample_stats"].attrs
    chains = np.asarray(data["posterior"]["chain"]).tolist()
    rows = []
    for name, label in TUNED.items():
        if name in attributes:
            rows.append((label, *_by_chain(attributes[name], len(chains))))
    set_by_user = attributes.get("settings")
    parts = [f"<p>Set by the user: {escape(set_by_user or 'nothing, all by default')}.</p>"]
    if "settings" not in attributes:
        parts = [_quiet("The settings are not stored in these data.")]
    if rows:
        parts.append(table(["tuned", *(f"chain {k}" for k in chains)], rows))
    return _section("Settings", *parts)


def _by_chain(value: Any, chains: int) -> list:
    """One value per chain; files store lists of one as a number, and names in one string."""
    if isinstance(value, str):
        parts = value.split(", ") if value.count(", ") == chains - 1 else [value] * chains
        return parts if chains > 1 else [value]
    values = [v.item() if hasattr(v, "item") else v for v in np.atleast_1d(value)]
    return [v or "-" if isinstance(v, str) else v for v in values]


def _versions(data: Any) -> str:
    attributes = {**data["posterior"].attrs, **data["sample_stats"].attrs}
    rows: list[tuple[str, str]] = [("seed", str(attributes.get("seed", "not stored")))]
    stored_names = {
        "created_at": "sampled at",
        "inference_library": "sampled by",
        "inference_library_version": "its version",
        "sampler_version": "mjhmc_numba that sampled",
        "tuning_steps": "draws of the warm-up",
    }
    rows += [(label, str(attributes[k])) for k, label in stored_names.items() if k in attributes]
    rows.append(("Python of this page", platform.python_version()))
    for name in PACKAGES:
        try:
            rows.append((f"{name} of this page", version(name)))
        except PackageNotFoundError:
            continue
    return _section("Seed and versions", table(["", ""], rows))
