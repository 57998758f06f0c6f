"""Figure 3: spectral gaps of MJHMC and HMC on circular ladders with random energies."""

from __future__ import annotations

import math
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
from mjhmc_numba import finite_ladder

HALF_ORDER = math.sqrt(10.0)
SAMPLERS = ("HMC", "sqrt", "metropolis", "barker")
# In the file, beside the gaps by real part and by modulus: the variance of a mean, in multiples
# of the variance of one draw, times the cost of a step (or jump). "step": every step costs one
# rung, as in the paper. "move": only moves along the ladder do, flips onto known rungs are free.
QUANTITIES = ("gap_real", "gap_modulus", "cost_step", "cost_move")
NAMES = {
    "HMC": "standard HMC",
    "sqrt": "MJHMC, g = √t (paper)",
    "metropolis": "MJHMC, g = min(1, t)",
    "barker": "MJHMC, g = 2t / (1 + t)",
}


def compute(p: dict, results: Path) -> None:
    rng = np.random.default_rng(p["seed"])
    rows = []
    for size in p["sizes"]:
        ladders = [_measure(rng.standard_normal(size)) for _ in range(p["draws"])]
        values = {key: np.array([ladder[key] for ladder in ladders]) for key in ladders[0]}
        for sampler in SAMPLERS:
            for quantity in QUANTITIES:
                own, control = values[sampler, quantity], values["HMC", quantity]
                rows.append(
                    {"rungs": size, "sampler": sampler, "quantity": quantity} | _means(own, control)
                )
    write_csv(results / "spectral_gap.csv", rows)


def _means(own, control) -> dict[str, float]:
    """Mean, and ratio of the means to HMC's on the same ladders, with standard errors."""
    root = math.sqrt(own.size)
    out = {"mean": own.mean(), "standard_error": own.std(ddof=1) / root}
    if control.mean() < 1e-9:
        return out | {"ratio": math.nan, "ratio_error": math.nan}
    ratio = own.mean() / control.mean()
    return out | {
        "ratio": ratio,
        "ratio_error": (own - ratio * control).std(ddof=1) / (root * control.mean()),
    }


def _measure(energies: np.ndarray) -> dict[tuple[str, str], float]:
    """All quantities of all samplers on one ladder."""
    k = energies.size
    # A coordinate along a closed path: what a sampler is to average.
    f = np.tile(np.cos(2 * np.pi * np.arange(k) / k), 2)
    target = finite_ladder.ladder_law(energies)
    deviation = f - target @ f
    out = {}
    for sampler in SAMPLERS:
        if sampler == "HMC":
            chain, law, series = finite_ladder.hmc_matrix(energies), target, f
        else:
            generator = finite_ladder.mjhmc_generator(energies, sampler)
            chain = finite_ladder.embedded_chain(generator)
            held = finite_ladder.expected_holding_times(generator)
            law = target / held
            law /= law.sum()
            # The linearised series of the weighted mean over a record of jumps.
            series = held * deviation / (law @ held)
        out[sampler, "gap_real"], out[sampler, "gap_modulus"] = gaps(chain, law)
        variance = finite_ladder.asymptotic_variance(chain, series) / (target @ deviation**2)
        out[sampler, "cost_step"] = variance
        out[sampler, "cost_move"] = variance * _moves(chain, law)
    return out


def gaps(chain: np.ndarray, law: np.ndarray) -> tuple[float, float]:
    """As `finite_ladder.spectral_gap` by real part and by modulus, from one decomposition."""
    root = np.sqrt(law)
    eigenvalues = np.linalg.eigvals(root[:, None] * chain / root)
    rest = np.delete(eigenvalues, np.argmin(np.abs(eigenvalues - 1.0)))
    return float(1.0 - rest.real.max()), float(1.0 - np.abs(rest).max())


def _moves(chain: np.ndarray, law: np.ndarray) -> float:
    """Share of the steps that are moves along the ladder."""
    k = chain.shape[0] // 2
    flips = np.concatenate([np.diag(chain, k), np.diag(chain, -k)])
    return float(law @ (1.0 - flips))


def claims(results: Path) -> dict[str, float]:
    rows = read_csv(results / "spectral_gap.csv")
    sizes = sorted(set(column(rows, "rungs")))
    large = sizes[-1]

    def row(rungs, quantity, sampler="sqrt"):
        (found,) = select(rows, rungs=rungs, sampler=sampler, quantity=quantity)
        return found

    real = [row(size, "gap_real")["ratio"] for size in sizes]
    ahead = [size for size, ratio in zip(sizes, real, strict=True) if ratio > 1]
    out = {"largest": large, "peak": max(real), "peak_at": sizes[int(np.argmax(real))]}
    out["first_ahead"] = ahead[0] if ahead else math.nan
    for quantity in QUANTITIES:
        found = row(large, quantity)
        out[quantity], out[f"{quantity}_error"] = found["ratio"], found["ratio_error"]
    even = [size for size in sizes if size % 2 == 0]
    out["even_modulus"] = max(row(size, "gap_modulus")["mean"] for size in even)
    odd = max(size for size in sizes if size % 2)
    out["odd"] = odd
    out["odd_modulus"] = row(odd, "gap_modulus")["ratio"]
    out["odd_modulus_error"] = row(odd, "gap_modulus")["ratio_error"]
    for g in ("metropolis", "barker"):
        out[f"{g}_real"] = row(large, "gap_real", g)["ratio"]
        out[f"{g}_move"] = row(large, "cost_move", g)["ratio"]
    return out


def draw(results: Path, figures: Path) -> None:
    rows = read_csv(results / "spectral_gap.csv")
    plt = pyplot()
    figure, panels = plt.subplots(2, 2, figsize=(10, 7.2))
    titles = {
        "gap_real": "Spectral gap by real part (as published)",
        "gap_modulus": "Spectral gap by modulus (as defined), odd ladders",
        "cost_step": "Asymptotic variance × steps",
        "cost_move": "Asymptotic variance × rungs computed",
    }
    colours = [COLOURS["HMC"], COLOURS["MJHMC"], COLOURS["NUTS"], COLOURS["default"]]
    for axes, (quantity, title) in zip(panels.ravel(), titles.items(), strict=True):
        for sampler, colour in zip(SAMPLERS, colours, strict=True):
            chosen = select(rows, sampler=sampler, quantity=quantity)
            if quantity == "gap_modulus":  # on even ladders it is 0
                chosen = [row for row in chosen if row["rungs"] % 2]
            style = "s--" if sampler == "HMC" else "o-"
            axes.errorbar(
                column(chosen, "rungs"), column(chosen, "mean"),
                2 * column(chosen, "standard_error"), fmt=style, color=colour, ms=4, lw=1.4,
                label=NAMES[sampler],
            )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="rungs of the ladder")
        ticks = [4, 8, 16, 32, 64, 128]
        axes.set_xticks(ticks, [str(tick) for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        plain_ticks(axes.yaxis)
        better = "higher is better" if quantity.startswith("gap") else "lower is better"
        axes.set_title(f"{title}\n({better})", fontsize=11)
    panels[0, 0].legend(fontsize=9, loc="lower left")
    figure.tight_layout()
    save(figure, figures / "spectral_gap.png")
