"""What a run is worth: effective sample sizes, R-hat, and its errors against known moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import arviz
import numpy as np

# A chain whose mean log density lies so many standard deviations below the best chain's sits in
# another mode; chains of one mode differ by a tenth of one.
MINOR_MODE = 2.0


class Moments(NamedTuple):
    """Known moments of the scored parameters, with the errors that they are known to."""

    mean: np.ndarray
    variance: np.ndarray
    mean_error: np.ndarray | float = 0.0
    variance_error: np.ndarray | float = 0.0


class Run(NamedTuple):
    """What a sampler made of a problem.

    Parameters
    ----------
    draws : (chain, draw, k), the scored parameters
    logp : (chain, draw), log density
    gradients : "warmup" and "draws", over all chains
    divergences : number of draws
    warnings : number of messages to the user
    notes : what the sampler chose, for people
    """

    draws: np.ndarray
    logp: np.ndarray
    gradients: Mapping[str, int]
    divergences: int
    warnings: int = 0
    notes: str = ""


def ess(draws: np.ndarray, method: str) -> np.ndarray:
    """ArviZ's effective sample size of each of k parameters, draws (chain, draw, k)."""
    options = {"prob": (0.05, 0.95)} if method == "tail" else {}
    sizes = arviz.ess(arviz.convert_to_dataset({"x": draws}), method=method, **options)
    return np.nan_to_num(np.asarray(sizes["x"]), nan=0.0)


def r_hat(draws: np.ndarray) -> np.ndarray:
    """Rank-normalised split R-hat; infinite where nothing moves."""
    values = np.asarray(arviz.rhat(arviz.convert_to_dataset({"x": draws}))["x"])
    return np.nan_to_num(values, nan=np.inf)


def worst_z(values: np.ndarray, known: np.ndarray, error) -> float:
    """Largest |mean - known| in units of its Monte Carlo error, over the parameters."""
    own = values.std(axis=(0, 1), ddof=1) / np.sqrt(np.maximum(ess(values, "mean"), 1.0))
    gap = np.abs(values.mean(axis=(0, 1)) - known)
    return float(np.max(gap / np.sqrt(own**2 + np.square(error))))


def spread_between_chains(logp: np.ndarray) -> np.ndarray:
    """How far each chain's mean log density lies below the best chain's, in standard deviations.

    A chain that is left in a minor mode stands out here, whatever its draws look like.
    """
    means = logp.mean(axis=1)
    sd = np.median(logp.std(axis=1))
    return (means.max() - means) / max(float(sd), 1e-300)


def score(run: Run, moments: Moments | None = None) -> dict[str, float | int | None]:
    """All scores of a run."""
    bulk, tail = ess(run.draws, "bulk"), ess(run.draws, "tail")
    centred = run.draws - run.draws.mean(axis=(0, 1))
    squares = ess(centred**2, "bulk")
    below = spread_between_chains(run.logp)
    made = run.gradients["draws"]
    spent = made + run.gradients["warmup"]
    worst, worst_square = float(min(bulk.min(), tail.min())), float(squares.min())
    row: dict[str, float | int | None] = {
        "ess_bulk": float(bulk.min()),
        "ess_tail": float(tail.min()),
        "ess_squares": worst_square,
        "ess_median_per_draw": float(np.median(bulk)) / run.logp.size,
        "gradients_warmup": run.gradients["warmup"],
        "gradients_draws": made,
        "per_1000_draws": 1000.0 * worst / made,
        "per_1000_all": 1000.0 * worst / spent,
        "squares_per_1000_draws": 1000.0 * worst_square / made,
        "squares_per_1000_all": 1000.0 * worst_square / spent,
        "r_hat": float(r_hat(run.draws).max()),
        "divergences": run.divergences,
        "warnings": run.warnings,
        "logp_spread": float(below.max()),
        "minor_chains": int((below > MINOR_MODE).sum()),
        "z_mean": None,
        "z_variance": None,
    }
    if moments is not None:
        row["z_mean"] = worst_z(run.draws, moments.mean, moments.mean_error)
        deviations = (run.draws - moments.mean) ** 2
        row["z_variance"] = worst_z(deviations, moments.variance, moments.variance_error)
    return row
