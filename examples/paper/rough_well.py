"""Figure 4: autocorrelation on the rough well, as published and as it should be."""

from __future__ import annotations

from pathlib import Path

from examples.paper.common import COLOURS, column, only, pyplot, read_csv, save, select, write_csv
from examples.paper.samplers import (
    Run,
    control_hmc,
    curve,
    default_mjhmc,
    ess_by_time,
    ess_weighted,
    nuts,
    paper_mjhmc,
    refresh_probability,
    refresh_rate,
)
from mjhmc_numba import targets


def run_mjhmc(target, setting, gradients: int, draws: int, seed: int) -> Run:
    """The paper's process with (step_size, beta, num_steps), and its record."""
    step_size, beta, num_steps = setting
    return paper_mjhmc(
        target,
        step_size=step_size,
        num_steps=num_steps,
        rate=refresh_rate(beta),
        gradients=gradients,
        draws=draws,
        seed=seed,
        jumps=True,
    )


def run_hmc(target, setting, gradients: int, seed: int) -> Run:
    step_size, beta, num_steps = setting
    return control_hmc(
        target,
        step_size=step_size,
        num_steps=num_steps,
        probability=refresh_probability(beta),
        gradients=gradients,
        seed=seed,
    )


def compute(p: dict, results: Path) -> None:
    curves, numbers = [], []
    for period in p["periods"]:
        target = targets.rough_well(2, period)
        for choice in ("published", "reoptimised"):
            settings = p["published"] if choice == "published" else p[f"period_{period}"]
            for sampler, run in _runs(target, settings, p):
                _report(curves, numbers, run, p, (period, choice, sampler))
        for sampler, run in _self_tuned(target, p):
            _report(curves, numbers, run, p, (period, "self-tuned", sampler))
    write_csv(results / "rough_well_curves.csv", curves)
    write_csv(results / "rough_well_ess.csv", numbers)


def _runs(target, settings, p):
    seed = p["seed"]
    yield "MJHMC", run_mjhmc(target, settings["mjhmc"], p["gradients"], p["draws"], seed)
    yield "HMC", run_hmc(target, settings["hmc"], p["gradients"], seed)


def _self_tuned(target, p):
    chains, seed = p["chains"], p["seed"]
    yield "default", default_mjhmc(target, draws=p["default_draws"], chains=chains, seed=seed)
    if p["nuts_draws"]:
        yield "NUTS", nuts(target, draws=p["nuts_draws"], chains=chains, seed=seed)


def _report(curves, numbers, run: Run, p, key) -> None:
    period, settings, sampler = key
    about = {"period": period, "settings": settings, "sampler": sampler}
    # The variance is that of the smooth well up to rounding.
    variance = float(targets.rough_well(1, period).variance[0])
    views = ["draws"] if run.jumps is None else ["draws", "embedded", "weighted"]
    for view in views:
        for n, c in zip(*curve(run, view, p["longest"]), strict=True):
            curves.append(about | {"view": view, "gradients": n, "autocorrelation": c})
    ess, error = ess_by_time(run, variance)
    weighted = ess_weighted(run, variance) if run.jumps else (float("nan"), float("nan"))
    numbers.append(
        about
        | {
            "gradients": run.gradients,
            "ess_per_1000": ess,
            "ess_error": error,
            "weighted_ess_per_1000": weighted[0],
            "weighted_error": weighted[1],
        }
    )


def claims(results: Path) -> dict[str, float]:
    rows = read_csv(results / "rough_well_ess.csv")
    curves = read_csv(results / "rough_well_curves.csv")
    out = {}
    for row in rows:
        name = f"{row['settings']}_{row['sampler']}_{row['period']}"
        out[name], out[f"{name}_error"] = row["ess_per_1000"], row["ess_error"]
        out[f"{name}_weighted"] = row["weighted_ess_per_1000"]
        out[f"{name}_weighted_error"] = row["weighted_error"]
    # Where an autocorrelation first falls below 1/e, in gradients.
    for period in sorted({row["period"] for row in rows}):
        for sampler, view in (("MJHMC", "embedded"), ("MJHMC", "draws"), ("HMC", "draws")):
            chosen = select(curves, period=period, settings="published", sampler=sampler, view=view)
            below = [row["gradients"] for row in chosen if row["autocorrelation"] < 0.3679]
            name = f"decay_{sampler}_{view}_{period}"
            out[name] = below[0] if below else float("inf")
    return out


# ----------------------------------------------------------------------- plot

PANELS = (
    ("As published:\nvisited states, holding times forgotten", "published", "embedded"),
    ("Published settings,\nby system time", "published", "draws"),
    ("Re-optimised settings,\nby system time", "reoptimised", "draws"),
)


def draw(results: Path, figures: Path) -> None:
    curves = read_csv(results / "rough_well_curves.csv")
    numbers = read_csv(results / "rough_well_ess.csv")
    periods = sorted({row["period"] for row in curves}, reverse=True)
    plt = pyplot()
    figure, panels = plt.subplots(
        len(periods), 3, figsize=(11, 3.4 * len(periods) + 0.4), sharey=True, squeeze=False
    )
    for line, period in zip(panels, periods, strict=True):
        for axes, (title, settings, view) in zip(line, PANELS, strict=True):
            _draw_panel(axes, select(curves, period=period), numbers, settings, view)
            axes.set_title(title if period == periods[0] else "", fontsize=11)
            axes.set_xlabel("gradients (thousands)" if period == periods[-1] else "")
        line[0].set_ylabel(f"period {period}\nautocorrelation")
    figure.tight_layout()
    save(figure, figures / "rough_well.png")


def _draw_panel(axes, curves, numbers, settings, view) -> None:
    lines = [("MJHMC", settings, view), ("HMC", settings, "draws")]
    lines += [("NUTS", "self-tuned", "draws"), ("default", "self-tuned", "draws")]
    names = {"MJHMC": "MJHMC", "HMC": "control HMC", "NUTS": "NUTS", "default": "this package"}
    if view == "draws":
        lines.append(("MJHMC", settings, "weighted"))
    for sampler, choice, what in lines:
        chosen = select(curves, sampler=sampler, settings=choice, view=what)
        if not chosen:
            continue
        label = names[sampler]
        if view == "draws" and what == "draws":
            row = only(numbers, sampler=sampler, settings=choice, period=chosen[0]["period"])
            label += f" ({row['ess_per_1000']:.3g})"
        if what == "weighted":
            label += f", weighted ({_weighted(numbers, chosen[0]):.3g})"
        axes.plot(
            column(chosen, "gradients") / 1000, column(chosen, "autocorrelation"),
            ":" if what == "weighted" else "-", color=COLOURS[sampler], lw=1.8, label=label,
        )  # fmt: skip
    axes.axhline(0, color="black", lw=0.6)
    axes.set_ylim(-0.3, 1.25)
    title = None if view == "embedded" else "(effective draws per 1000 gradients)"
    axes.legend(fontsize=8, loc="upper right", title=title, title_fontsize=8)


def _weighted(numbers, row) -> float:
    found = only(numbers, **{key: row[key] for key in ("sampler", "settings", "period")})
    return found["weighted_ess_per_1000"]
