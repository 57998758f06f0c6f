"""Chains as a table, in text and in HTML."""

import html
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mjhmc_numba.progress.picture import Picture, Report, duration

__all__ = ["Glyphs", "glyphs_of", "html_picture", "text_lines"]

BAR_WIDTH = 30  # beside the columns it makes a line of some 100 characters
SMALLEST_BAR = 6  # a narrower one shows nothing

PHASE_NAMES = {"waiting": "waiting", "warmup": "warm-up", "draws": "draws", "done": "done"}
PHASE_COLOURS = {"waiting": "", "warmup": "\x1b[33m", "draws": "\x1b[34m", "done": "\x1b[32m"}
PHASE_HTML_COLOURS = {
    "waiting": "#999999",
    "warmup": "#e0a030",
    "draws": "#3b78c4",
    "done": "#3c9d5c",
}
RED, RESET = "\x1b[31m", "\x1b[0m"


# --- Cells -----------------------------------------------------------------------------------


def _times(report: Report) -> str:
    elapsed = duration(report.elapsed)
    return elapsed if report.row.phase == "done" else f"{elapsed} < {duration(report.remaining)}"


def _step_size(report: Report) -> str:
    return f"{report.row.step_size:.3g}" if math.isfinite(report.row.step_size) else "-"


def _gradients_per_draw(report: Report) -> str:
    if report.row.draws_done <= 0:
        return "-"
    quotient = report.row.gradients / report.row.draws_done
    return f"{quotient:.1f}" if quotient < 1000 else f"{quotient:.4g}"


class _Column(NamedTuple):
    title: str
    text: Callable[[Report], str]
    width: int  # at least: columns that grow would make the picture jump


# The widths are those of the titles, or of usual numbers.
COLUMNS = {
    "chain": _Column("chain", lambda report: str(report.chain), 5),
    "draws": _Column("draws", lambda report: f"{report.row.done}/{report.row.total}", 9),
    "phase": _Column("phase", lambda report: PHASE_NAMES[report.row.phase], 7),
    "diverging": _Column("diverging", lambda report: str(report.row.divergences), 9),
    "step size": _Column("step size", _step_size, 9),
    "grad/draw": _Column("grad/draw", _gradients_per_draw, 9),
    "time": _Column("time", _times, 11),
}

# What a narrow terminal goes without, the first first. Divergences stay to the last.
DISPENSABLE = ("phase", "grad/draw", "step size", "time", "bar", "draws")


# --- Text ------------------------------------------------------------------------------------


class Glyphs(NamedTuple):
    """What a bar is made of."""

    full: str
    half: str
    empty: str


UNICODE = Glyphs("━", "╸", "─")
ASCII = Glyphs("#", "", ".")


def glyphs_of(encoding: str | None) -> Glyphs:
    """The finest that an encoding has."""
    try:
        "".join(UNICODE).encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return UNICODE


def _bar(fraction: float, width: int, glyphs: Glyphs) -> str:
    full, rest = divmod(int(2 * fraction * width), 2)
    bar = glyphs.full * full + glyphs.half * rest
    return bar + glyphs.empty * (width - len(bar))


class _Layout(NamedTuple):
    """The columns that fit into a line, their widths, and the width of the bar (0: none)."""

    widths: dict[str, int]
    bar: int


def _lay_out(reports: Sequence[Report], width: int) -> _Layout:
    widths = {
        name: max(column.width, len(column.title), *(len(column.text(r)) for r in reports))
        for name, column in COLUMNS.items()
    }
    for dropped in range(len(DISPENSABLE) + 1):
        without = DISPENSABLE[:dropped]
        kept = {name: size for name, size in widths.items() if name not in without}
        used = sum(kept.values()) + len(kept) - 1
        if "bar" in without:
            if used <= width:
                return _Layout(kept, 0)
        elif used + 1 + SMALLEST_BAR <= width:
            return _Layout(kept, min(BAR_WIDTH, width - used - 1))
    return _Layout(kept, 0)


def _header(layout: _Layout) -> str:
    cells = [COLUMNS[name].title.rjust(width) for name, width in layout.widths.items()]
    if layout.bar:
        cells.insert(1, " " * layout.bar)
    return " ".join(cells)


def _line(report: Report, layout: _Layout, glyphs: Glyphs, colour: bool) -> str:
    cells = {name: COLUMNS[name].text(report).rjust(size) for name, size in layout.widths.items()}
    bar = _bar(report.fraction, layout.bar, glyphs)
    if colour:
        bar = PHASE_COLOURS[report.row.phase] + bar + RESET
        if report.row.divergences:
            cells["diverging"] = RED + cells["diverging"] + RESET
    parts = list(cells.values())
    if layout.bar:
        parts.insert(1, bar)
    return " ".join(parts)


def text_lines(
    reports: Sequence[Report], width: int, glyphs: Glyphs, colour: bool = False
) -> list[str]:
    """A header and a line for each chain, none wider than `width` columns."""
    layout = _lay_out(reports, width)
    if sum(layout.widths.values()) + len(layout.widths) - 1 > width:
        # Too narrow for any table. Clipped text must not contain colours, which have no width.
        return [_line(report, layout, glyphs, False)[:width] for report in reports]
    lines = [_line(report, layout, glyphs, colour) for report in reports]
    return [_header(layout), *lines]


# --- HTML ------------------------------------------------------------------------------------

# Colours come from the notebook's theme but for the bar and the count of divergences.
_CELL = "padding: 0.15em 0.8em; text-align: right; font-variant-numeric: tabular-nums;"
_ROUNDED = "height: 0.7em; border-radius: 0.35em;"
_TROUGH = f"{_ROUNDED} width: 14em; background: rgba(128, 128, 128, 0.25);"


def _html_bar(report: Report) -> str:
    colour = PHASE_HTML_COLOURS[report.row.phase]
    percent = 100 * report.fraction
    fill = f"{_ROUNDED} width: {percent:.1f}%; background: {colour};"
    return f'<div style="{_TROUGH}"><div style="{fill}"></div></div>'


def _html_row(report: Report) -> str:
    cells = []
    for name, column in COLUMNS.items():
        alarm = " color: #d03030; font-weight: bold;"
        style = _CELL + (alarm if name == "diverging" and report.row.divergences else "")
        cells.append(f'<td style="{style}">{html.escape(column.text(report))}</td>')
    cells.insert(1, f'<td style="{_CELL}">{_html_bar(report)}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _html_table(reports: Sequence[Report]) -> str:
    titles = [column.title for column in COLUMNS.values()]
    titles.insert(1, "")
    head = "".join(f'<th style="{_CELL}">{html.escape(title)}</th>' for title in titles)
    body = "".join(_html_row(report) for report in reports)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_picture(picture: Picture) -> str:
    """All of a picture, as a notebook shows it."""
    above = [*map(str, picture.notes), *picture.said]
    parts = [f"<div>{html.escape(line)}</div>" for line in above]
    if picture.reports:
        parts += [_html_table(picture.reports), f"<div>{html.escape(picture.last_line)}</div>"]
    return "".join(parts)
