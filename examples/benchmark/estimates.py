"""What control variates bring: gain, error against the reference, and time.

    python estimates.py --bench DIR [--models a,b] [--seeds 401,402,403,404]
    python estimates.py report                      # ESTIMATES.md from the CSV file

DIR is a folder of PyMC models, see problems.py. Each model has its own process and a row in
results/estimates.csv; rows that are there are not made again. A row comes from whole runs of the
native path, 4 chains of 1000 draws, with each of the seeds, and one run of nutpie.

An error is measured in standard deviations of the parameter, root mean square over parameters (and
seeds). A reference has an error of its own, below which nothing can be seen; the spread of the
estimates between seeds has none, and says whether the Monte Carlo errors are honest.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import problems
from effective import ess
from efficiency import append_row
from measure import RESULTS

import mjhmc_numba as mj
import mjhmc_numba.pymc as mp

COLUMNS = [
    "model",
    "dim",
    "quantities",
    "seeds",
    "gain",
    "gain_worst",
    "gain_sd",
    "gain_sd_worst",
    "gain_between_seeds",
    "spread_over_error",
    "rms_plain",
    "rms_sharp",
    "rms_reference",
    "z_worst",
    "nutpie_equal_gradients",
    "nutpie_equal_seconds",
    "run_seconds",
    "estimate_seconds",
    "time_share",
    "notes",
]
PAGE = Path(__file__).with_name("ESTIMATES.md")


def flat(data, names) -> np.ndarray:
    """Draws (chain, draw, k) of all scalars of the named variables."""
    parts = [np.asarray(data["posterior"][v].values, dtype=float) for v in names]
    return np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2)


def one_run(compiled, names, seed: int) -> dict:
    """A run and its estimates, with CPU seconds of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mj.SamplingWarning)
        began = time.process_time()
        data = compiled.sample(
            random_seed=seed, cores=1, progressbar=False, compute_convergence_checks=False
        )
        sampled = time.process_time()
        table = mp.estimates(data, compiled, names, fmt="wide", if_refused="plain", cores=1)
        ended = time.process_time()
    draws = flat(data, names)
    gradients = int(np.sum(data["posterior"].attrs["warmup_gradients"]))
    gradients += int(data["sample_stats"]["n_steps"].sum())
    return {
        "table": table,
        "plain": draws.mean(axis=(0, 1)),
        "run": sampled - began,
        "estimate": ended - sampled,
        "gradients": gradients,
    }


def nutpie_run(model, names) -> dict[str, np.ndarray | float]:
    """Squared errors of nutpie's plain means, its gradients and CPU seconds."""
    import nutpie

    compiled = nutpie.compile_pymc_model(model, backend="numba")
    began = time.process_time()
    data = nutpie.sample(compiled, chains=4, cores=1, seed=1, progress_bar=False, save_warmup=True)
    seconds = time.process_time() - began
    draws = flat(data, names)
    groups = ("warmup_sample_stats", "sample_stats")
    return {
        "square": draws.var(axis=(0, 1)) / np.maximum(ess(draws, "mean"), 1.0),
        "gradients": int(sum(data[group]["n_steps"].values.sum() for group in groups)),
        "seconds": seconds,
    }


def compare_runs(runs: list[dict], peer: dict | None) -> dict:
    """Gains, spreads and times over several seeds."""
    tables = [run["table"] for run in runs]

    def stacked(column):
        return np.stack([table[column].to_numpy() for table in tables])

    sd = stacked("sd").mean(axis=0)
    varies = sd > 0
    gain, gain_sd = (np.median(stacked(c), axis=0)[varies] for c in ("gain", "gain_sd"))
    error = np.sqrt(np.nanmean(stacked("mcse_mean") ** 2, axis=0))[varies]
    sharp = stacked("mean").std(axis=0, ddof=1)[varies]
    plain = np.stack([run["plain"] for run in runs]).std(axis=0, ddof=1)[varies]
    run_seconds, own = (np.median([run[k] for run in runs]) for k in ("run", "estimate"))
    row = {
        "gain": float(np.median(gain)),
        "gain_worst": float(gain.min()),
        "gain_sd": float(np.median(gain_sd)),
        "gain_sd_worst": float(gain_sd.min()),
        "gain_between_seeds": float(np.mean(plain**2) and np.median(plain**2 / sharp**2)),
        "spread_over_error": float(np.sqrt(np.nanmean((sharp / error) ** 2))),
        "run_seconds": float(run_seconds),
        "estimate_seconds": float(own),
        "time_share": float(own / run_seconds),
        "nutpie_equal_gradients": None,
        "nutpie_equal_seconds": None,
    }
    if peer is not None:
        ratio = peer["square"][varies] / error**2
        gradients = np.median([run["gradients"] for run in runs])
        row["nutpie_equal_gradients"] = float(np.median(ratio) * peer["gradients"] / gradients)
        row["nutpie_equal_seconds"] = float(
            np.median(ratio) * peer["seconds"] / (run_seconds + own)
        )
    return row


def against_reference(runs: list[dict], entry, shapes) -> dict:
    """Root mean squared errors of plain and sharp means, in standard deviations."""
    known = entry.reference().take(entry.param_names(shapes))
    moves = known.sd > 0
    sharp = np.stack([run["table"]["mean"].to_numpy() for run in runs])
    error = np.stack([run["table"]["mcse_mean"].to_numpy() for run in runs])
    plain = np.stack([run["plain"] for run in runs])

    def rms(means):
        return float(np.sqrt(np.mean(((means - known.mean) / known.sd)[..., moves] ** 2)))

    both = np.sqrt(error**2 + known.mcse_mean**2)
    z = np.abs(sharp - known.mean) / np.maximum(both, 1e-12 * known.sd)
    return {
        "rms_plain": rms(plain),
        "rms_sharp": rms(sharp),
        "rms_reference": float(np.sqrt(np.mean((known.mcse_mean / known.sd)[moves] ** 2))),
        "z_worst": float(np.nanmax(z[..., moves])),
    }


def kinds(notes) -> str:
    """Each sentence once, without its numbers."""
    return " ".join(sorted({re.sub(r" \(.*?\)", "", note) for note in notes}))


def measure(name: str, entry, seeds: list[int], *, with_nutpie: bool) -> dict:
    model, names = entry(), entry.var_names
    compiled = mp.compile(model)
    one_run(compiled, names, seeds[0])  # compiles what is left to compile
    runs = [one_run(compiled, names, seed) for seed in seeds]
    shapes = {v: tuple(model[v].shape.eval()) for v in names}
    notes = {run["table"].attrs["refused"] for run in runs} - {""}
    for run in runs:
        notes |= set(json.loads(run["table"].attrs["notes"]).values())
    return {
        "model": name,
        "dim": compiled.density.ndim,
        "quantities": len(runs[0]["plain"]),
        "seeds": len(seeds),
        "notes": kinds(notes),
        **compare_runs(runs, nutpie_run(model, names) if with_nutpie else None),
        **against_reference(runs, entry, shapes),
    }


# ------------------------------------------------------------------------ the page

INTRODUCTION = """# Sharper answers from the same draws

Written by `estimates.py report` from `results/estimates.csv`. Gains are those of variance: how many
times the draws a plain average would need; median over parameters and worst parameter, medians
over seeds. *Between seeds* is the gain that the spread of the estimates over seeds shows;
*spread / error* is that spread over the Monte Carlo errors that were given: 1 if they are honest
(with four seeds and few parameters, within a factor of 1.5 or so)."""

ERRORS = """## Errors

Root mean squared error of posterior means against the reference, in standard deviations of the
parameter, and that of the reference itself: nothing below it can be seen. `z` is the largest
distance from the reference in Monte Carlo errors of both."""

PEERS = """## Beside nutpie's plain averages

Squared errors of nutpie's posterior means (default settings) over those of ours, at equal gradients
and at equal CPU seconds of the whole run without compilation; the time of the estimates is in ours.
Median parameter."""

TIME = """## Time

CPU seconds of a whole run (4 chains, 1000 tuning draws, 1000 draws) and of the estimates after it,
gradients at the draws included, which are computed again. The bar is a share of 0.1 up to 100
dimensions."""


def number(text: str, digits: int = 3) -> str:
    if not text:
        return ""
    value = float(text)
    return f"{value:.{digits}g}" if abs(value) < 1e5 else f"{value:.1e}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [head, *rows]]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines)


def section(rows: list[dict], columns: dict[str, str]) -> str:
    table = [[row["model"], *(number(row[c]) for c in columns)] for row in rows]
    return markdown(["model", *columns.values()], table)


def summary(rows: list[dict]) -> str:
    """What holds over all models, and where it brings nothing."""
    gains = {row["model"]: float(row["gain"]) for row in rows}
    nothing = [model for model, gain in gains.items() if gain < 1.5]
    small = [row for row in rows if int(row["dim"]) <= 100]
    late = [row["model"] for row in small if float(row["time_share"]) > 0.1]
    median = float(np.exp(np.median(np.log(list(gains.values())))))
    lines = [
        f"Over {len(rows)} models the median gain of a posterior mean is {median:.3g}.",
        f"It brings next to nothing on: {', '.join(nothing) or 'none'}.",
        f"The time bar is met by {len(small) - len(late)} of {len(small)} models"
        + (f"; not by {', '.join(late)}." if late else "."),
    ]
    notes = [f"{row['model']}: {row['notes']}" for row in rows if row["notes"]]
    return " ".join(lines) + ("\n\nNotes. " + " ".join(notes) if notes else "")


def write_page(path: Path, page: Path) -> None:
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    gains = {
        "dim": "d",
        "gain": "means",
        "gain_worst": "worst",
        "gain_sd": "sds",
        "gain_sd_worst": "worst",
        "gain_between_seeds": "between seeds",
        "spread_over_error": "spread / error",
    }
    errors = {
        "rms_plain": "plain",
        "rms_sharp": "sharp",
        "rms_reference": "reference",
        "z_worst": "z",
    }
    peers = {"nutpie_equal_gradients": "gradients", "nutpie_equal_seconds": "CPU seconds"}
    seconds = {"run_seconds": "run", "estimate_seconds": "estimates", "time_share": "share"}
    parts = [INTRODUCTION, summary(rows), section(rows, gains), ERRORS, section(rows, errors)]
    parts += [PEERS, section(rows, peers), TIME, section(rows, seconds)]
    page.write_text("\n\n".join(parts) + "\n")


def done_models(path: Path) -> set[str]:
    if not path.exists():
        return set()
    with open(path, newline="") as file:
        return {row["model"] for row in csv.DictReader(file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="run", choices=["run", "report"])
    parser.add_argument("--bench", type=Path, help="folder of PyMC models")
    parser.add_argument("--models", help="names, separated by commas; all if not given")
    parser.add_argument("--seeds", default="401,402,403,404")
    parser.add_argument("--out", type=Path, default=RESULTS / "estimates.csv")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--without-nutpie", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.what == "report":
        write_page(arguments.out, arguments.page)
        return
    if arguments.bench is None:
        parser.error("--bench is needed: a folder of PyMC models")
    entries = problems.bench_models(arguments.bench)
    wanted = arguments.models.split(",") if arguments.models else list(entries)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    for name in wanted:
        if name in done_models(arguments.out):
            continue
        if arguments.one:
            row = measure(name, entries[name], seeds, with_nutpie=not arguments.without_nutpie)
            append_row(arguments.out, COLUMNS, row)
            print(row, flush=True)
        else:
            subprocess.run([sys.executable, *sys.argv, "--one", "--models", name], check=False)


if __name__ == "__main__":
    main()
