"""What `estimate` returns."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from statistics import NormalDist

import numpy as np

__all__ = ["Estimates"]

COLUMNS = ("mean", "sd", "mcse_mean", "mcse_sd", "gain", "gain_sd", "ess")
MOST_ROWS = 60  # that are shown: a page


@dataclass(frozen=True, eq=False)
class Estimates:
    """Expectations of q functions with their Monte Carlo errors.

    Parameters
    ----------
    names : list of str
    mean, sd : (q,) array
        The mean of a truth value is its probability.
    mcse_mean, mcse_sd : (q,) array
        Monte Carlo errors: the estimate and 1.96 of them are an interval of 95 %. NaN where tails
        are so heavy that the draws do not tell.
    gain, gain_sd : (q,) array
        How many times the draws a plain average would need for the same error; 1 where the plain
        average is what is returned.
    ess : (q,) array
        Effective number of draws of the plain average.
    notes : dict of str
        By the name of a function, why it was not sharpened.
    refused : str
        Why nothing was sharpened; empty if it was.
    covariance, mcse_covariance : (q, q) array, or None
        Where it was asked for.
    """

    names: list[str]
    mean: np.ndarray
    sd: np.ndarray
    mcse_mean: np.ndarray
    mcse_sd: np.ndarray
    gain: np.ndarray
    gain_sd: np.ndarray
    ess: np.ndarray
    notes: dict[str, str]
    refused: str = ""
    covariance: np.ndarray | None = None
    mcse_covariance: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.names)

    def interval(self, probability: float = 0.95) -> np.ndarray:
        """(q, 2): where the exact mean is, with this probability."""
        if not 0 < probability < 1:
            raise ValueError(f"A probability lies between 0 and 1; {probability} does not.")
        width = NormalDist().inv_cdf(0.5 + probability / 2) * self.mcse_mean
        return np.stack([self.mean - width, self.mean + width], axis=1)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Rows by name, as `pandas.DataFrame.from_dict(..., orient="index")` takes them."""
        rows = zip(*(getattr(self, column).tolist() for column in COLUMNS), strict=True)
        return {
            name: dict(zip(COLUMNS, row, strict=True))
            for name, row in zip(self.names, rows, strict=True)
        }

    def __getitem__(self, name: str) -> dict[str, float]:
        if name not in self.names:
            raise KeyError(f"No estimate of {name}; there are {', '.join(self.names[:10])}.")
        at = self.names.index(name)
        return {column: float(getattr(self, column)[at]) for column in COLUMNS}

    # ------------------------------------------------------------------ for people

    def _cells(self) -> list[list[str]]:
        cells = [["", *COLUMNS]]
        for k, name in enumerate(self.names[:MOST_ROWS]):
            row = {column: float(getattr(self, column)[k]) for column in COLUMNS}
            cells.append(
                [
                    name,
                    _with_error(row["mean"], row["mcse_mean"]),
                    _with_error(row["sd"], row["mcse_sd"]),
                    f"{row['mcse_mean']:.1e}",
                    f"{row['mcse_sd']:.1e}",
                    f"{row['gain']:.3g}",
                    f"{row['gain_sd']:.3g}",
                    f"{row['ess']:.0f}",
                ]
            )
        return cells

    def _remarks(self) -> list[str]:
        remarks = [self.refused] if self.refused else []
        remarks += [f"{name}: {note}" for name, note in self.notes.items()][:MOST_ROWS]
        if len(self) > MOST_ROWS:
            remarks.append(f"{len(self) - MOST_ROWS} more rows are not shown.")
        return remarks

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(w) if k == 0 else cell.rjust(w)
                for k, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        ]
        return "\n".join(lines + self._remarks())

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        parts = ["<table><thead><tr>", *(f"<th>{escape(c)}</th>" for c in head), "</tr></thead>"]
        for name, *cells in rows:
            tds = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            parts.append(f"<tr><th>{escape(name)}</th>{tds}</tr>")
        parts.append("</table>")
        parts += [f"<p>{escape(remark)}</p>" for remark in self._remarks()]
        return "".join(parts)


def _with_error(value: float, error: float) -> str:
    """As many digits as the error leaves, one of them uncertain; four where it is not known."""
    if not np.isfinite(value) or not np.isfinite(error) or error <= 0:
        return f"{value:.4g}"
    if value == 0:
        return "0"
    digits = int(np.floor(np.log10(abs(value))) - np.floor(np.log10(error))) + 1
    return f"{value:.{min(max(digits, 1), 15)}g}"
