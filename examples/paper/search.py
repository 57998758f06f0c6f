"""The hyperparameter search (section 3.2.2, figures A.1 to A.4), with Optuna for Spearmint."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from examples.paper.common import (
    COLOURS,
    column,
    plain_ticks,
    pyplot,
    read_csv,
    save,
    select,
    write_csv,
)
from examples.paper.rough_well import run_hmc, run_mjhmc
from examples.paper.samplers import curve
from examples.paper.tuning import minimise
from mjhmc_numba import targets

# What is searched: a sampler, and which autocorrelation is the objective.
SEARCHES = {
    "MJHMC, visited states": ("MJHMC", "embedded"),
    "MJHMC, system time": ("MJHMC", "draws"),
    "control HMC": ("HMC", "draws"),
}
LOOKS = {
    "MJHMC, visited states": ("*", COLOURS["MJHMC"]),
    "MJHMC, system time": ("o", COLOURS["default"]),
    "control HMC": ("x", COLOURS["HMC"]),
}


def fit(gradients: np.ndarray, autocorrelation: np.ndarray) -> complex:
    """The r whose Re exp(r n) is nearest to the autocorrelation, by least squares."""
    from scipy.optimize import least_squares

    length = gradients[-1]
    n = gradients / length

    def residuals(r):
        return np.exp(-np.exp(r[0]) * n) * np.cos(r[1] * n) - autocorrelation

    starts = [(a, b) for a in np.linspace(-4, 5, 19) for b in np.linspace(0, 60, 31)]
    best = min(starts, key=lambda r: float(np.sum(residuals(r) ** 2)))
    found = least_squares(residuals, best, bounds=([-12, -1e3], [9, 1e3]))
    return complex(-np.exp(found.x[0]), abs(found.x[1])) / length


def one_run(sampler: str, target, setting, p: dict, seed: int):
    if sampler == "HMC":
        return run_hmc(target, setting, p["gradients"], seed)
    return run_mjhmc(target, setting, p["gradients"], p["draws"], seed)


def compute(p: dict, results: Path) -> None:
    trials, best = [], []
    for period in p["periods"]:
        target = targets.rough_well(2, period)
        for name, (sampler, view) in SEARCHES.items():
            found = _search(name, sampler, view, target, p)
            rows = [{"period": period, "search": name} | row for row in found]
            trials += rows
            best.append(_confirm(min(rows, key=lambda row: row["objective"]), target, p))
    write_csv(results / "search_trials.csv", trials)
    write_csv(results / "search_best.csv", best)
    write_csv(results / "search_cross.csv", _cross(p))


def _search(name, sampler, view, target, p) -> list[dict]:
    """Trials of one search; objective Re(r) per 1000 gradients, the lower the better."""

    def objective(trial):
        step_size = trial.suggest_float("step_size", *p["step_size"], log=True)
        beta = trial.suggest_float("beta", *p["beta"], log=True)
        num_steps = trial.suggest_int("num_steps", *p["num_steps"])
        run = one_run(sampler, target, (step_size, beta, num_steps), p, trial.number)
        return 1000.0 * fit(*curve(run, view, p["longest"])).real

    rows = minimise(objective, p["trials"], p["seed"])
    return [{"trial": k} | row for k, row in enumerate(rows)]


def _confirm(row: dict, target, p) -> dict:
    """The best trial again with a longer run and another seed, in both views."""
    sampler, _ = SEARCHES[row["search"]]
    setting = (row["step_size"], row["beta"], row["num_steps"])
    longer = p | {"gradients": 10 * p["gradients"], "draws": 10 * p["draws"]}
    run = one_run(sampler, target, setting, longer, p["seed"] + 1)
    views = ("draws", "embedded") if sampler == "MJHMC" else ("draws",)
    again = {"embedded": float("nan")}
    again |= {view: 1000.0 * fit(*curve(run, view, p["longest"])).real for view in views}
    return dict(row) | {"by_time": again["draws"], "by_visits": again["embedded"]}


def _cross(p: dict) -> list[dict]:
    """Figure A.1: both samplers with the settings published for each, in both views."""
    rows = []
    longer = p | {"gradients": 10 * p["gradients"], "draws": 10 * p["draws"]}
    for period in p["periods"]:
        target = targets.rough_well(2, period)
        for owner, setting in p["published"].items():
            for sampler, views in (("MJHMC", ("draws", "embedded")), ("HMC", ("draws",))):
                run = one_run(sampler, target, setting, longer, p["seed"])
                for view in views:
                    about = {"period": period, "settings_of": owner, "sampler": sampler}
                    about["view"] = view
                    rows += [
                        about | {"gradients": n, "autocorrelation": c}
                        for n, c in zip(*curve(run, view, p["longest"]), strict=True)
                    ]
    return rows


def claims(results: Path) -> dict:
    out = {}
    for row in read_csv(results / "search_best.csv"):
        sampler, view = SEARCHES[row["search"]]
        name = f"{sampler}_{view}_{row['period']}"
        for key in ("step_size", "beta", "num_steps", "objective", "by_time", "by_visits"):
            out[f"{name}_{key}"] = row[key]
    rows = read_csv(results / "search_cross.csv")
    for period in sorted({row["period"] for row in rows}):
        for owner in ("mjhmc", "hmc"):
            for sampler, view in SEARCHES.values():
                chosen = select(rows, period=period, settings_of=owner, sampler=sampler, view=view)
                r = fit(column(chosen, "gradients"), column(chosen, "autocorrelation"))
                out[f"cross_{owner}_{sampler}_{view}_{period}"] = 1000.0 * r.real
    return out


# ----------------------------------------------------------------------- plot


def draw(results: Path, figures: Path) -> None:
    trials = read_csv(results / "search_trials.csv")
    best = read_csv(results / "search_best.csv")
    period = max(column(trials, "period"))
    _draw_clouds(select(trials, period=period), select(best, period=period), figures, period)
    _draw_cross(read_csv(results / "search_cross.csv"), figures)


def _draw_clouds(trials, best, figures: Path, period: int) -> None:
    plt = pyplot()
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.9), sharey=True)
    names = {"step_size": "step size ε", "beta": "corruption β", "num_steps": "steps M"}
    for axes, (key, label) in zip(panels, names.items(), strict=True):
        for name, (marker, colour) in LOOKS.items():
            chosen = select(trials, search=name)
            axes.scatter(
                column(chosen, key), -column(chosen, "objective"), s=22, marker=marker,
                color=colour, alpha=0.55, label=name, lw=0.9,
            )  # fmt: skip
            (top,) = select(best, search=name)
            axes.scatter(
                top[key], -top["objective"], s=110, facecolors="none", edgecolors=colour, lw=1.8
            )
        axes.set(xlabel=label, yscale="log", xscale="linear" if key == "num_steps" else "log")
        if key != "num_steps":
            plain_ticks(axes.xaxis)
    panels[0].set_ylim(bottom=1e-4)
    plain_ticks(panels[0].yaxis)
    panels[0].set_ylabel("−Re(r) per 1000 gradients\n(higher is better)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=3)
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    save(figure, figures / "search.png")


def _draw_cross(rows, figures: Path) -> None:
    plt = pyplot()
    periods = sorted({row["period"] for row in rows}, reverse=True)
    figure, panels = plt.subplots(
        len(periods), 2, figsize=(9.5, 3.2 * len(periods) + 0.3), sharey=True, squeeze=False
    )
    owners = {"hmc": "(a) settings published for HMC", "mjhmc": "(b) settings published for MJHMC"}
    names = {
        "MJHMC, visited states": ("MJHMC, visited states (as published)", "--"),
        "MJHMC, system time": ("MJHMC, by system time", "-"),
        "control HMC": ("control HMC", "-"),
    }
    for line, period in zip(panels, periods, strict=True):
        for axes, (owner, title) in zip(line, owners.items(), strict=True):
            for name, (sampler, view) in SEARCHES.items():
                chosen = select(rows, period=period, settings_of=owner, sampler=sampler, view=view)
                label, style = names[name]
                axes.plot(
                    column(chosen, "gradients") / 1000, column(chosen, "autocorrelation"), style,
                    color=COLOURS[sampler], lw=1.8, label=label,
                )  # fmt: skip
            axes.axhline(0, color="black", lw=0.6)
            axes.set_title(title if period == periods[0] else "", fontsize=11)
            axes.set_xlabel("gradients (thousands)" if period == periods[-1] else "")
        line[0].set_ylabel(f"period {period}\nautocorrelation")
    panels[0, 0].legend(fontsize=8, loc="upper right")
    figure.tight_layout()
    save(figure, figures / "search_cross.png")
