"""The rows of efficiency.csv by model and sampler, and ratios of them."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from problems import BUILT_IN

OURS, OURS_DIAG, DEFAULT, LOW_RANK = "mjhmc", "mjhmc_diag", "nutpie", "nutpie_lowrank"
# Reported, but no part of the bars.
NOT_JUDGED = {"funnel_centered": "no fixed step size fits it, so nutpie does not mix on it"}
MIXED = 1.05  # an R-hat above it makes an effective sample size meaningless


class Table:
    """The rows of efficiency.csv, by model and sampler."""

    def __init__(self, rows: Sequence[dict[str, str]]):
        self.rows = rows
        self.models = list(dict.fromkeys(row["model"] for row in rows))
        bench = [m for m in self.models if m not in BUILT_IN]
        self.judged = [m for m in bench or self.models if m not in NOT_JUDGED]

    def values(self, model: str, sampler: str, column: str) -> list[float]:
        """One value for each seed, where there is one."""
        chosen = [r for r in self.rows if r["model"] == model and r["sampler"] == sampler]
        return [float(row[column]) for row in chosen if row[column] != ""]

    def typical(self, model: str, sampler: str, column: str) -> float | None:
        """Geometric mean over the seeds."""
        return geometric_mean(self.values(model, sampler, column))

    def largest(self, model: str, sampler: str, column: str) -> float | None:
        return max(self.values(model, sampler, column), default=None)

    def better(self, model: str, column: str) -> float | None:
        """That of nutpie's modes which does better; None unless both were run."""
        default = self.typical(model, DEFAULT, column)
        low_rank = self.typical(model, LOW_RANK, column)
        return None if default is None or low_rank is None else max(default, low_rank)

    def ratio(self, model: str, column: str, ours: str = OURS, peer: str = DEFAULT):
        """Ours over nutpie's; `peer` may be "better"."""
        mine = self.typical(model, ours, column)
        theirs = (
            self.better(model, column) if peer == "better" else self.typical(model, peer, column)
        )
        return mine / theirs if mine is not None and theirs is not None else None

    def ratios(self, column: str, ours: str = OURS, peer: str = DEFAULT) -> dict[str, float]:
        """For all models that count."""
        pairs = {model: self.ratio(model, column, ours, peer) for model in self.judged}
        return {model: value for model, value in pairs.items() if value is not None}

    def is_mixed(self, model: str, sampler: str) -> bool:
        seen = self.values(model, sampler, "r_hat")
        return not seen or statistics.median(seen) <= MIXED


def geometric_mean(values: Iterable[float]) -> float | None:
    logs = [math.log(max(value, 1e-9)) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


# Variants that had another name when their rows were stored.
RENAMED = {"no chart": "no reparametrisation"}


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if "variant" in row:
            row["variant"] = RENAMED.get(row["variant"], row["variant"])
    return rows


RATIOS: list[tuple[str, Callable[[Table, str], float | None]]] = [
    ("default, after warm-up", lambda t, m: t.ratio(m, "per_1000_draws")),
    ("better, after warm-up", lambda t, m: t.ratio(m, "per_1000_draws", peer="better")),
    ("default, all", lambda t, m: t.ratio(m, "per_1000_all")),
    ("better, all", lambda t, m: t.ratio(m, "per_1000_all", peer="better")),
    ("squares, default", lambda t, m: t.ratio(m, "squares_per_1000_draws")),
    ("squares, better", lambda t, m: t.ratio(m, "squares_per_1000_draws", peer="better")),
    ("diagonal / diagonal", lambda t, m: t.ratio(m, "per_1000_draws", ours=OURS_DIAG)),
    ("warm-up gradients", lambda t, m: t.ratio(m, "gradients_warmup")),
]
