"""The released code's other targets: effective draws per 1000 gradients of four samplers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from examples.paper.common import (
    COLOURS,
    column,
    only,
    plain_ticks,
    pyplot,
    read_csv,
    save,
    select,
    write_csv,
)
from examples.paper.experts import samplers, warm_start
from examples.paper.samplers import default_mjhmc, gained_ess, nuts
from examples.paper.tuning import replicate, tune
from mjhmc_numba import targets

LABELS = {
    "log_gaussian": "log-spaced Gaussian, 2-d",
    "multimodal_gaussian": "two Gaussians, 2-d",
    "funnel": "funnel, 10-d",
    "product_of_t": "product of t, 36-d",
    "sparse_image_code": "sparse image code, 72-d",
}
NAMES = {
    "MJHMC": "MJHMC, paper's rule",
    "default": "this package's default",
    "HMC": "control HMC",
    "NUTS": "NUTS (nutpie)",
}


def compute(p: dict, results: Path) -> None:
    rows = []
    for name in p["names"]:
        target = getattr(targets, name)()
        rows += _by_hand(target, p, name)
        rows += _self_tuned(target, p, name)
        # After each target: what is finished is kept.
        write_csv(results / "other_targets.csv", rows)


def _row(name, sampler, setting, warmup, numbers) -> dict:
    row = {"target": name, "sampler": sampler}
    row |= {key: setting.get(key, float("nan")) for key in ("step_size", "num_steps")}
    row["refresh"] = setting.get("rate", setting.get("probability", float("nan")))
    return row | {"warmup_gradients": warmup} | numbers


def _by_hand(target, p, name) -> list[dict]:
    """The paper's sampler and its control, both with the best settings of a search."""
    # None: exact draws, other ones for each run, so that now and then all modes are among them.
    initial = warm_start(target, p) if target.draw is None else None
    rows = []
    for sampler, (run, space) in samplers(target, p, initial).items():
        if "settings" in p:
            setting, spent = p["settings"][name][sampler], 0
        else:
            trial = partial(run, gradients=p["trial_gradients"])
            setting = tune(trial, space, p["trials"], p["seed"], gained_ess)
            spent = p["trials"] * p["trial_gradients"]
        final = partial(run, gradients=p["gradients"], **setting)
        numbers = replicate(final, p["replicates"], p["seed"], gained_ess)
        rows.append(_row(name, sampler, setting, spent, numbers))
    return rows


def _self_tuned(target, p, name) -> list[dict]:
    chains = p["self_tuned_chains"]
    choices = {"default": partial(default_mjhmc, draws=p["default_draws"])}
    if p["nuts_draws"]:
        choices["NUTS"] = partial(nuts, draws=p["nuts_draws"])
    rows = []
    for sampler, run in choices.items():
        warmup = []

        def counted(seed, run=run, warmup=warmup):
            seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
            found = run(target, chains=chains, seed=seed)
            warmup.append(found.warmup_gradients)
            return found

        numbers = replicate(counted, p["replicates"], p["seed"], gained_ess)
        rows.append(_row(name, sampler, {}, int(np.mean(warmup)), numbers))
    return rows


def claims(results: Path) -> dict[str, float]:
    rows = read_csv(results / "other_targets.csv")
    out = {}
    for row in rows:
        name = f"{row['target']}_{row['sampler']}"
        for key in ("ess_mean", "ess_square"):
            out[f"{name}_{key}"], out[f"{name}_{key}_error"] = row[key], row[f"{key}_error"]
    return out


def draw(results: Path, figures: Path) -> None:
    rows = read_csv(results / "other_targets.csv")
    names = list(dict.fromkeys(row["target"] for row in rows))
    present = [s for s in NAMES if select(rows, sampler=s)]
    plt = pyplot()
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True)
    titles = {"ess_mean": "of the means", "ess_square": "of the squares"}
    for axes, (key, title) in zip(panels, titles.items(), strict=True):
        for place, sampler in enumerate(present):
            chosen = [only(rows, target=name, sampler=sampler) for name in names]
            axes.barh(
                np.arange(len(names)) + 0.2 * (place - 1.5), column(chosen, key), 0.19,
                xerr=2 * column(chosen, f"{key}_error"), color=COLOURS[sampler],
                label=NAMES[sampler], error_kw={"lw": 1},
            )  # fmt: skip
        axes.set_yticks(np.arange(len(names)), [LABELS[name] for name in names])
        axes.set(xscale="log", xlabel="effective draws per 1000 gradients, worst coordinate")
        plain_ticks(axes.xaxis)
        axes.set_title(title, fontsize=11)
        axes.grid(axis="y", visible=False)
    panels[0].invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=4, fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    save(figure, figures / "other_targets.png")
