"""What control variates bring: gain, error against the reference, and time.

    python estimates.py [--bench posteriors] [--models a,b] [--seeds 401,402]
    python estimates.py times [--models a,b]        # gains and times of ours anew, in these rows
    python estimates.py report                      # ESTIMATES.md from the CSV file

The folders are those of problems.py. Each model has its own process and a row in
results/estimates.csv; rows that are there are not made again. A row comes from whole runs of the
native path and of nutpie, 4 chains of 1000 + 1000 draws, with each of the seeds.

An error is measured in standard deviations of the parameter, root mean square over seeds. A
reference has an error of its own, below which nothing can be seen. Where a model has none, our
means are compared with the sharpened means of nutpie's draws and nutpie's with ours.
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
from typing import NamedTuple

import numpy as np
import problems
from effective import ess
from efficiency import append_row, text
from measure import RESULTS

import mjhmc_numba as mj
import mjhmc_numba.pymc as mp

FOLDERS = ("posteriors", "case_studies", "gallery")
ERRORS_OF = ("plain", "sharp", "nutpie", "equal_gradients", "equal_seconds")
COLUMNS = [
    "folder",
    "model",
    "dim",
    "quantities",
    "seeds",
    "gain",
    "gain_worst",
    "gain_sd",
    "gain_sd_worst",
    "spread_over_error",
    "reference",
    "rms_reference",
    *(f"{kind}_{which}" for kind in ERRORS_OF for which in ("median", "worst")),
    "z_worst",
    "gradients",
    "nutpie_gradients",
    "run_seconds",
    "nutpie_seconds",
    "estimate_seconds",
    "time_share",
    "notes",
]
PAGE = Path(__file__).with_name("ESTIMATES.md")


def flat(data, names) -> np.ndarray:
    """Draws (chain, draw, k) of all scalars of the named variables."""
    parts = [np.asarray(data["posterior"][v].values, dtype=float) for v in names]
    return np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2)


class OneRun(NamedTuple):
    """What came of one run of a sampler.

    Parameters
    ----------
    table : DataFrame
        Sharpened estimates.
    plain, square : (k,) array
        Plain averages, and their squared Monte Carlo errors.
    gradients : int
        Of the whole run.
    seconds, own : float
        CPU seconds of the run, and of the estimates after it.
    """

    table: object
    plain: np.ndarray
    square: np.ndarray
    gradients: int
    seconds: float
    own: float


def sharpened(data, model, names, gradients: int, seconds: float) -> OneRun:
    began = time.process_time()
    table = mp.estimates(data, model, names, fmt="wide", if_refused="plain", cores=1)
    own = time.process_time() - began
    draws = flat(data, names)
    square = draws.var(axis=(0, 1)) / np.maximum(ess(draws, "mean"), 1.0)
    return OneRun(table, draws.mean(axis=(0, 1)), square, gradients, seconds, own)


def one_run(compiled, names, seed: int) -> OneRun:
    """Ours; gradients at the draws are known to the sampler, and kept."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mj.SamplingWarning)
        began = time.process_time()
        data = compiled.sample(
            random_seed=seed,
            cores=1,
            progressbar=False,
            compute_convergence_checks=False,
            store_gradients=True,
        )
        seconds = time.process_time() - began
    gradients = int(np.sum(data["posterior"].attrs["warmup_gradients"]))
    gradients += int(data["sample_stats"]["n_steps"].sum())
    return sharpened(data, compiled, names, gradients, seconds)


def nutpie_runs(model, compiled, names, seeds: list[int]) -> list[OneRun]:
    import nutpie

    theirs = nutpie.compile_pymc_model(model, backend="numba")
    how = {"chains": 4, "cores": 1, "progress_bar": False, "save_warmup": True}
    nutpie.sample(theirs, draws=10, tune=10, seed=1, **how)  # compiles what is left to compile
    runs = []
    for seed in seeds:
        began = time.process_time()
        data = nutpie.sample(theirs, draws=1000, tune=1000, seed=seed, **how)
        seconds = time.process_time() - began
        groups = ("warmup_sample_stats", "sample_stats")
        gradients = int(sum(data[group]["n_steps"].values.sum() for group in groups))
        runs.append(sharpened(data, compiled, names, gradients, seconds))
    return runs


class Truth(NamedTuple):
    """Means that others are compared with, what they are known to, and deviations, each (k,)."""

    kind: str
    mean: np.ndarray
    error: np.ndarray
    sd: np.ndarray


def reference_of(entry, shapes) -> Truth | None:
    known = entry.reference()
    if known is None:
        return None
    known = known.take(entry.param_names(shapes))
    return Truth(known.kind, known.mean, known.mcse_mean, known.sd)


def stacked(runs: list[OneRun], column: str) -> np.ndarray:
    """(seed, k) of the tables."""
    return np.stack([run.table[column].to_numpy() for run in runs])


def means_of(runs: list[OneRun], kind: str) -> Truth:
    """Sharpened means over seeds, as a reference for another sampler."""
    error = np.sqrt(np.mean(stacked(runs, "mcse_mean") ** 2, axis=0) / len(runs))
    return Truth(kind, stacked(runs, "mean").mean(axis=0), error, stacked(runs, "sd").mean(axis=0))


def root_mean_square(means: np.ndarray, truth: Truth) -> np.ndarray:
    """(k,): errors of means (seed, k), over seeds, in standard deviations."""
    return np.sqrt(np.mean(((means - truth.mean) / truth.sd) ** 2, axis=0))


def errors(ours: list[OneRun], peers: list[OneRun], truth: Truth | None) -> dict:
    """Errors of plain and sharpened means and of nutpie's, median and worst parameter."""
    of_ours = truth or means_of(peers, "nutpie's sharpened means")
    of_peers = truth or means_of(ours, "our sharpened means")
    known = (of_ours.sd > 0) & np.isfinite(of_ours.error) & np.isfinite(of_peers.error)
    sharp, error = stacked(ours, "mean"), stacked(ours, "mcse_mean")
    found = {
        "plain": root_mean_square(np.stack([run.plain for run in ours]), of_ours),
        "sharp": root_mean_square(sharp, of_ours),
        "nutpie": root_mean_square(np.stack([run.plain for run in peers]), of_peers),
    }
    # What nutpie's error would be, were its run as much longer as ours costs more.
    square = np.mean([run.square for run in peers], axis=0) / of_peers.sd**2
    for name, cost in (("gradients", _gradients), ("seconds", _seconds)):
        more = np.median([cost(run) for run in ours]) / np.median([cost(run) for run in peers])
        floor = (of_peers.error / of_peers.sd) ** 2
        found[f"equal_{name}"] = np.sqrt(square / more + floor)
    both = np.sqrt(error**2 + of_ours.error**2)
    z = np.abs(sharp - of_ours.mean) / np.maximum(both, 1e-12 * of_ours.sd)
    own = np.sqrt(np.mean((of_ours.error / of_ours.sd)[known] ** 2))
    row = {"reference": of_ours.kind, "rms_reference": float(own)}
    for kind, value in found.items():
        row[f"{kind}_median"] = float(np.median(value[known]))
        row[f"{kind}_worst"] = float(value[known].max())
    return row | {"z_worst": float(np.nanmax(z[:, known]))}


def _gradients(run: OneRun) -> float:
    return float(run.gradients)


def _seconds(run: OneRun) -> float:
    return run.seconds


def gains(runs: list[OneRun]) -> dict:
    """Gains, the spread between seeds over the errors that were given, and times."""
    varies = stacked(runs, "sd").mean(axis=0) > 0
    gain, gain_sd = (np.median(stacked(runs, c), axis=0)[varies] for c in ("gain", "gain_sd"))
    error = np.sqrt(np.nanmean(stacked(runs, "mcse_mean") ** 2, axis=0))[varies]
    spread_over_error = ""  # of one seed nothing can be said
    if len(runs) > 1:
        spread = stacked(runs, "mean").std(axis=0, ddof=1)[varies]
        spread_over_error = float(np.sqrt(np.nanmean((spread / error) ** 2)))
    seconds, own = (np.median([getattr(run, c) for run in runs]) for c in ("seconds", "own"))
    return {
        "gain": float(np.median(gain)),
        "gain_worst": float(gain.min()),
        "gain_sd": float(np.median(gain_sd)),
        "gain_sd_worst": float(gain_sd.min()),
        "spread_over_error": spread_over_error,
        "gradients": int(np.median([run.gradients for run in runs])),
        "run_seconds": float(seconds),
        "estimate_seconds": float(own),
        "time_share": float(own / seconds),
    }


def own_runs(model, names, seeds: list[int]) -> tuple[mp.CompiledModel, list[OneRun]]:
    """Ours, once all is compiled."""
    compiled = mp.compile(model, progressbar=False)
    one_run(compiled, names, seeds[0])  # compiles what is left to compile
    return compiled, [one_run(compiled, names, seed) for seed in seeds]


def measure_times(folder: Path, name: str, seeds: list[int], path: Path) -> dict:
    """Write gains and times of ours anew into the row of a model; errors and peers stay."""
    rows = read_rows(path)
    row = next(row for row in rows if (row["folder"], row["model"]) == (folder.name, name))
    if len(seeds) < int(row["seeds"]):
        raise SystemExit(f"{name} was measured with {row['seeds']} seeds; give as many")
    entry = problems.bench_models(folder)[name]
    _, ours = own_runs(entry(), entry.var_names, seeds)
    row |= {key: text(value) for key, value in gains(ours).items() if value != ""}
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return row


def kinds(notes) -> str:
    """Each sentence once, without its numbers."""
    return " ".join(sorted({re.sub(r" \(.*?\)", "", note) for note in notes}))


def measure(folder: Path, name: str, seeds: list[int]) -> dict:
    entry = problems.bench_models(folder)[name]
    model, names = entry(), entry.var_names
    compiled, ours = own_runs(model, names, seeds)
    peers = nutpie_runs(model, compiled, names, seeds)
    # At equal CPU seconds the time of the estimates is ours.
    costly = [run._replace(seconds=run.seconds + run.own) for run in ours]
    shapes = {v: tuple(model[v].shape.eval()) for v in names}
    notes = {run.table.attrs["refused"] for run in ours} - {""}
    for run in ours:
        notes |= set(json.loads(run.table.attrs["notes"]).values())
    return {
        "folder": folder.name,
        "model": name,
        "dim": compiled.density.ndim,
        "quantities": len(ours[0].plain),
        "seeds": len(seeds),
        "nutpie_gradients": int(np.median([run.gradients for run in peers])),
        "nutpie_seconds": float(np.median([run.seconds for run in peers])),
        "notes": kinds(notes),
        **gains(ours),
        **errors(costly, peers, reference_of(entry, shapes)),
    }


# ------------------------------------------------------------------------ the page

INTRODUCTION = """# Sharper answers from the same draws

Written by `estimates.py report` from `results/estimates.csv`. Gains are those of variance: how many
times the draws a plain average would need; median over parameters and worst parameter, medians
over seeds where there are several. *Spread / error*, where there are two, is the spread of
the estimates between seeds over the Monte Carlo errors that were given: 1 if they are honest,
within a factor of 2 where parameters are few. That intervals cover is tested over 200 replications
elsewhere (`tests/estimates/test_coverage.py`); `z` below says the same against the references.
Where `estimates.py times` has measured gains and times again, errors and what nutpie did are of
earlier runs: all rows with two seeds but gauss_ill100, low_dim_gauss_mix and logearn_interaction.
hmm_example is of earlier runs alone. The machine was busy: ten processes and more on two cores."""

ERRORS = """## Errors

Root mean squared error of posterior means against the reference, in standard deviations of the
parameter, median and worst parameter: plain averages of our draws, sharpened means of the same
draws, and plain averages of nutpie's (default settings, 1000 + 1000 draws, whatever they cost).
Then what nutpie's would be at our gradients and at our CPU seconds (whole runs without compilation,
the time of the estimates in ours): its Monte Carlo errors, scaled by the cost, and the
reference's. *Reference* is the error of the reference itself: nothing below it can be seen. Where a
model has none, ours are compared with the sharpened means of nutpie's draws, and nutpie's with
ours (\\*). `z` is the largest distance from the reference in Monte Carlo errors of both."""

TIME = """## Time

CPU seconds of a whole run (4 chains, 1000 + 1000 draws) and of the estimates after it, with the
gradients that the run has kept; gradients and seconds of nutpie's run beside them. The bar is a
share of 0.1 up to 100 dimensions.

Whole runs have become about twice as fast since the bar was set, estimates two to eight times:
sums go over pieces of memory that a cache holds (a new page takes 2 to 5 us), tails are put in
order only where they matter, draws are whitened in place, more than a hundred features are in
single precision, and fewer ridges are tried. What is left where many dimensions meet a cheap
density is, of 90 ms of rat_tumor, two fifths for regressions, a quarter for whitening in two
systems of coordinates and a fifth for errors. Tried and not taken: 8 draws per feature in place of
5 (gauss_ill100 0.080 in place of 0.106 s, but geometric means of the gains of standard deviations
of 280 in place of 2,200), 32 products of two dimensions in place of 64 (a tenth of the time; gains
of 34 in place of 51 on election88_like), only chosen products above 12 dimensions (rugby: 14 in
place of 17, 4 % faster), half the draws to compare coordinates (eight schools: 13 in place of
17)."""


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


def error_section(rows: list[dict]) -> str:
    head = [
        "model",
        "reference",
        "plain",
        "sharp",
        "nutpie",
        "equal gradients",
        "equal seconds",
        "z",
    ]
    table = []
    for row in rows:
        both = [f"{number(row[k + '_median'])} / {number(row[k + '_worst'])}" for k in ERRORS_OF]
        star = " \\*" if "sharpened" in row["reference"] else ""
        table.append([row["model"], number(row["rms_reference"]) + star, *both])
        table[-1].append(number(row["z_worst"]))
    return markdown(head, table)


def missing(rows: list[dict]) -> list[str]:
    """Models of the three folders that have no row."""
    done = {(row["folder"], row["model"]) for row in rows}
    known = [(f, name) for f in FOLDERS for name in problems.bench_models(problems.folder(f))]
    return [name for folder, name in known if (folder, name) not in done]


def summary(rows: list[dict]) -> str:
    """What holds over all models, and where it brings nothing."""
    gains = {row["model"]: float(row["gain"]) for row in rows}
    nothing = [model for model, gain in gains.items() if gain < 1.5]
    small = [row for row in rows if int(row["dim"]) <= 100]
    late = [row["model"] for row in small if float(row["time_share"]) > 0.1]
    median = float(np.exp(np.median(np.log(list(gains.values())))))
    counts = {f: sum(row["folder"] == f for row in rows) for f in FOLDERS}
    better = {
        kind: sum(float(r["sharp_median"]) < float(r[f"{kind}_median"]) for r in rows)
        for kind in ("plain", "equal_gradients", "equal_seconds")
    }
    seeds = sorted({row["seeds"] for row in rows})
    where = ", ".join(f"{n} of {folder}" for folder, n in counts.items())
    lines = f"{len(rows)} models ({where}), {' or '.join(seeds)} seeds each. "
    lines += f"The median gain of a posterior mean is {median:.3g}. "
    lines += (
        f"The median parameter's error is smaller than a plain average's on {better['plain']}, "
    )
    lines += f"than nutpie's at equal gradients on {better['equal_gradients']}, and at equal CPU "
    lines += f"seconds on {better['equal_seconds']}. "
    lines += f"It brings next to nothing on: {', '.join(nothing) or 'none'}. "
    lines += f"The time bar is met by {len(small) - len(late)} of {len(small)} models"
    lines += f"; not by {', '.join(late)}." if late else "."
    absent = missing(rows)
    if absent:
        lines += f" Not measured yet: {', '.join(absent)}."
    notes = [f"{row['model']}: {row['notes']}" for row in rows if row["notes"]]
    return lines + ("\n\nNotes. " + " ".join(notes) if notes else "")


def read_rows(path: Path) -> list[dict]:
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write_page(path: Path, page: Path) -> None:
    rows = read_rows(path)
    columns = {
        "dim": "d",
        "seeds": "seeds",
        "gain": "means",
        "gain_worst": "worst",
        "gain_sd": "sds",
        "gain_sd_worst": "worst",
        "spread_over_error": "spread / error",
    }
    costs = {
        "run_seconds": "run",
        "estimate_seconds": "estimates",
        "time_share": "share",
        "gradients": "gradients",
        "nutpie_gradients": "nutpie's gradients",
        "nutpie_seconds": "nutpie's seconds",
    }
    parts = [INTRODUCTION, summary(rows), section(rows, columns), ERRORS, error_section(rows)]
    parts += [TIME, section(rows, costs)]
    page.write_text("\n\n".join(parts) + "\n")


def done_models(path: Path) -> set[tuple[str, str]]:
    return {(row["folder"], row["model"]) for row in read_rows(path)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="run", choices=["run", "times", "report"])
    problems.add_folder(parser)
    parser.add_argument("--models", help="names, separated by commas; all if not given")
    parser.add_argument("--seeds", default="401", help="separated by commas")
    parser.add_argument("--out", type=Path, default=RESULTS / "estimates.csv")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.what == "report":
        write_page(arguments.out, arguments.page)
        return
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    again = arguments.what == "times"
    for name in problems.choose(arguments.models, arguments.bench):
        if ((arguments.bench.name, name) in done_models(arguments.out)) != again:
            continue
        if not arguments.one:
            subprocess.run([sys.executable, *sys.argv, "--one", "--models", name], check=False)
            continue
        if again:
            row = measure_times(arguments.bench, name, seeds, arguments.out)
        else:
            row = measure(arguments.bench, name, seeds)
            append_row(arguments.out, COLUMNS, row)
        print(row, flush=True)


if __name__ == "__main__":
    main()
