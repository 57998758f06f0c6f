"""Where the data of these models are."""

from __future__ import annotations

from pathlib import Path

from posterior import read

DATA = Path(__file__).resolve().parent / "data"


def data(name: str) -> dict:
    """The columns of a data set."""
    return read(DATA / f"{name}.json.gz")
