"""What the speed benchmarks share: interleaved timing, tables, CSV files."""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


def interleaved(actions: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Measurements of each action, taken in turn so that a slow spell of the machine hits all.

    Parameters
    ----------
    actions : by name, functions that do something and return its cost
    repeats : rounds; the first one, which warms caches up, is thrown away
    """
    costs: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(repeats + 1):
        for name, action in actions.items():
            cost = action()
            if turn > 0:
                costs[name].append(cost)
    return costs


def ratio(costs: Mapping[str, Sequence[float]], above: str, below: str) -> float:
    """Median over the rounds of the ratio of two costs of the same round."""
    pairs = zip(costs[above], costs[below], strict=True)
    return statistics.median(one / other for one, other in pairs)


def in_new_process(code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Any:
    """What a fresh interpreter prints as JSON in its last line.

    Parameters
    ----------
    code, arguments : its program and `sys.argv[1:]`
    environment : variables beside those of this process
    """
    command = [sys.executable, "-c", code, *arguments]
    variables = os.environ | dict(environment or {})
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def verdict(value: float, bar: float | None) -> str:
    """Whether a value keeps below its bar."""
    if bar is None:
        return ""
    return "met" if value <= bar else "NOT MET"


def report(name: str, rows: Sequence[Mapping[str, Any]], by: str | None = None) -> None:
    """Print rows as a table and write them to results/<name>.csv.

    With `by`, they take the place of those that the file has with the same value in that column,
    and its other rows stay.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.csv"
    texts = [{key: _text(value) for key, value in row.items()} for row in rows]
    written = {text[by]: text for text in texts} if by else dict(enumerate(texts))
    if by and path.exists():
        with open(path, newline="") as file:
            written = {row[by]: row for row in csv.DictReader(file)} | written
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(texts[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(written.values())
    widths = {key: max(len(key), *(len(text[key]) for text in texts)) for key in texts[0]}
    print("  ".join(key.ljust(width) for key, width in widths.items()))
    for text in texts:
        print("  ".join(text[key].ljust(width) for key, width in widths.items()))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def kept_rows(path: Path) -> list[dict]:
    """The rows of a CSV file; none where it is not there."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def keep_row(path: Path, row: Mapping, key: Sequence[str]) -> None:
    """Add a row to a CSV file, in the place of an earlier one with the same key."""
    others = [old for old in kept_rows(path) if any(old[name] != row[name] for name in key)]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerows([*others, row])
