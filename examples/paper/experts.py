"""The experiment that the paper's source announces: a product of Student t experts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from examples.paper.common import COLOURS, column, only, pyplot, read_csv, save, select, write_csv
from examples.paper.samplers import Run, control_hmc, curve, default_mjhmc, paper_mjhmc
from examples.paper.tuning import replicate, tune
from mjhmc_numba import targets


def samplers(target, p: dict, initial: np.ndarray | None) -> dict:
    """Both samplers as functions of settings, seed and gradients; and what is searched."""
    common = {"target": target, "chains": p["chains"], "initial": initial}
    hmc_space = {
        "step_size": p["step_size"],
        "num_steps": p["num_steps"],
        "probability": [p["refresh_rate"][0], 1.0],
    }
    space = hmc_space | {"rate": p["refresh_rate"]}
    del space["probability"]
    return {
        "MJHMC": (partial(_often, p["gradients_per_draw"], **common), space),
        "HMC": (partial(control_hmc, **common), hmc_space),
    }


def _often(gradients_per_draw: int, *, gradients: int, chains: int, **options) -> Run:
    """The jump process with draws so frequent that nothing is lost between them."""
    draws = gradients // (chains * gradients_per_draw)
    return paper_mjhmc(gradients=gradients, draws=draws, chains=chains, **options)


def warm_start(target, p: dict) -> np.ndarray:
    """One point for each chain from a run that is tuned by itself."""
    return default_mjhmc(target, draws=50, chains=p["chains"], seed=p["seed"], tune=300).draws[
        :, -1
    ]


def compute(p: dict, results: Path) -> None:
    target = targets.product_of_experts(p["patch"] ** 2, p["experts"], seed=p["seed"])
    initial = warm_start(target, p)
    numbers, curves, frames = [], [], []
    for name, (run, space) in samplers(target, p, initial).items():
        if "settings" in p:
            setting = p["settings"][name]
        else:
            trial = partial(run, gradients=p["trial_gradients"])
            setting = tune(trial, space, p["trials"], p["seed"])
        final = partial(run, gradients=p["gradients"], **setting)
        about = {"sampler": name, "step_size": setting["step_size"]}
        about |= {"num_steps": setting["num_steps"]}
        about |= {"refresh": setting["rate" if name == "MJHMC" else "probability"]}
        numbers.append(about | replicate(final, p["replicates"], p["seed"]))
        long = final(seed=[p["seed"], 5])
        long.draws = long.draws - long.draws.mean(axis=(0, 1))
        curves += [
            {"sampler": name, "gradients": n, "autocorrelation": c}
            for n, c in zip(*curve(long, "draws", p["longest"]), strict=True)
        ]
        frames += _frames(name, _film(name, target, setting, initial[:1], p), initial[0], p)
    write_csv(results / "experts_ess.csv", numbers)
    write_csv(results / "experts_curves.csv", curves)
    write_csv(results / "experts_patches.csv", frames)


def _film(name, target, setting, initial, p) -> Run:
    """A run from the common start with a draw at every rung or so."""
    last = p["frames"][-1]
    common = {"target": target, "initial": initial, "seed": [p["seed"], 9]} | setting
    if name == "HMC":
        return control_hmc(gradients=2 * last + 100, **common)
    return paper_mjhmc(gradients=0, draws=4 * last, interval=0.5, **common)


def _frames(name, film: Run, start, p) -> list[dict]:
    """The last state that took no more than so many gradients."""
    spent = np.cumsum(film.steps[0])
    rows = []
    for count in p["frames"]:
        at = int(np.searchsorted(spent, count, side="right")) - 1
        x = start if count == 0 or at < 0 else film.draws[0, at]
        pixels = {f"pixel_{j}": value for j, value in enumerate(x)}
        rows.append({"sampler": name, "gradients": count} | pixels)
    return rows


def claims(results: Path) -> dict[str, float]:
    rows = read_csv(results / "experts_ess.csv")
    out = {}
    for row in rows:
        for key, value in row.items():
            out[f"{row['sampler']}_{key}"] = value
    for key in ("ess_mean", "ess_square"):
        ours, theirs = (only(rows, sampler=name) for name in ("MJHMC", "HMC"))
        ratio = ours[key] / theirs[key]
        spread = np.hypot(ours[f"{key}_error"] / ours[key], theirs[f"{key}_error"] / theirs[key])
        out[f"{key}_ratio"], out[f"{key}_ratio_error"] = ratio, ratio * float(spread)
    return out


def draw(results: Path, figures: Path) -> None:
    patches = read_csv(results / "experts_patches.csv")
    curves = read_csv(results / "experts_curves.csv")
    counts = sorted({row["gradients"] for row in patches})
    plt = pyplot()
    figure = plt.figure(figsize=(11, 5.6))
    grid = figure.add_gridspec(2, len(counts), top=0.93, bottom=0.48, wspace=0.08, hspace=0.08)
    pixels = [key for key in patches[0] if key.startswith("pixel_")]
    side = round(len(pixels) ** 0.5)
    limit = np.quantile([abs(row[key]) for row in patches for key in pixels], 0.98)
    for line, name in enumerate(("MJHMC", "HMC")):
        for place, count in enumerate(counts):
            row = only(patches, sampler=name, gradients=count)
            axes = figure.add_subplot(grid[line, place])
            image = np.array([row[key] for key in pixels]).reshape(side, side)
            axes.imshow(image, cmap="gray", vmin=-limit, vmax=limit)
            axes.set(xticks=[], yticks=[])
            axes.grid(False)
            if line == 0:
                axes.set_title("start" if count == 0 else f"{count}", fontsize=11)
            if place == 0:
                label = "MJHMC" if name == "MJHMC" else "control HMC"
                axes.set_ylabel(label, color=COLOURS[name])
    figure.text(0.5, 0.985, "one chain after so many gradients", ha="center", fontsize=11)
    axes = figure.add_axes((0.125, 0.09, 0.775, 0.33))
    for name in ("MJHMC", "HMC"):
        chosen = select(curves, sampler=name)
        label = "MJHMC" if name == "MJHMC" else "control HMC"
        axes.plot(
            column(chosen, "gradients"), column(chosen, "autocorrelation"),
            color=COLOURS[name], lw=1.8, label=label,
        )  # fmt: skip
    axes.axhline(0, color="black", lw=0.6)
    axes.set(xlabel="gradients", ylabel="autocorrelation\nof the pixels")
    axes.legend()
    save(figure, figures / "experts.png")
