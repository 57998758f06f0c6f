"""A live display of several chains: in a terminal, in a notebook, or as sparse lines in a log.

`run` reports one :class:`ChainProgress` per chain, as often as it likes; :class:`Progress`
decides when that is drawn. A display that fails is switched off: it never costs a draw.
"""

import html
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TextIO

__all__ = ["ChainProgress", "Progress"]

TERMINAL_INTERVAL = 0.1  # seconds between two pictures
NOTEBOOK_INTERVAL = 0.5  # each is a message to a browser
LOG_INTERVAL = 30.0  # each is a line that stays

BAR_WIDTH = 30
SMALLEST_BAR = 6

# Below this much of a phase its speed is a guess, and the speed since the start is used.
SETTLED_ITERATIONS = 20

PHASE_NAMES = {"waiting": "waiting", "warmup": "warm-up", "draws": "draws", "done": "done"}
PHASE_COLOURS = {"waiting": "", "warmup": "\x1b[33m", "draws": "\x1b[34m", "done": "\x1b[32m"}
PHASE_HTML_COLOURS = {
    "waiting": "#999999",
    "warmup": "#e0a030",
    "draws": "#3b78c4",
    "done": "#3c9d5c",
}
RED, RESET = "\x1b[31m", "\x1b[0m"


class ChainProgress(NamedTuple):
    """How far one chain has come.

    Parameters
    ----------
    done, total
        Iterations, those of the warm-up included.
    phase
        ``"waiting"``, ``"warmup"``, ``"draws"`` or ``"done"``.
    divergences
        Diverging draws so far.
    step_size
        The current one; NaN where there is none yet.
    gradients, draws_done
        Gradients spent, and the number of draws they were spent on: their quotient is shown.
    """

    done: int
    total: int
    phase: str = "waiting"
    divergences: int = 0
    step_size: float = math.nan
    gradients: int = 0
    draws_done: int = 0


class _Report(NamedTuple):
    """One chain's progress with its times, in seconds; `remaining` is NaN while unknown."""

    chain: int
    row: ChainProgress
    elapsed: float
    remaining: float

    @property
    def fraction(self) -> float:
        if self.row.total <= 0:
            return 1.0
        return min(max(self.row.done / self.row.total, 0.0), 1.0)


class _Display(Protocol):
    interval: float

    def show(self, reports: Sequence[_Report], *, final: bool) -> None: ...


@dataclass
class _Stopwatch:
    """Elapsed and remaining time of one chain.

    Warm-up iterations cost more or less than the others, so the speed is that of the current
    phase as soon as the phase has been going on for a while.
    """

    started: float = math.nan
    ended: float = math.nan
    phase: str = "waiting"
    phase_started: float = math.nan
    phase_first: int = 0

    def read(self, row: ChainProgress, now: float) -> tuple[float, float]:
        self._note(row, now)
        if math.isnan(self.started):
            return 0.0, math.nan
        if not math.isnan(self.ended):
            return self.ended - self.started, 0.0
        return now - self.started, self._remaining(row, now)

    def _note(self, row: ChainProgress, now: float) -> None:
        if row.phase == self.phase:
            return
        if math.isnan(self.started):
            self.started = now
        if row.phase == "done":
            self.ended = now
        self.phase, self.phase_started, self.phase_first = row.phase, now, row.done

    def _remaining(self, row: ChainProgress, now: float) -> float:
        seconds, iterations = now - self.phase_started, row.done - self.phase_first
        if iterations < SETTLED_ITERATIONS:
            seconds, iterations = now - self.started, row.done
        if iterations <= 0:
            return math.nan
        return seconds / iterations * max(row.total - row.done, 0)


class Progress:
    """Live progress of several chains, as a context manager.

    Parameters
    ----------
    chains
        Number of chains.
    total
        Iterations of each chain, those of the warm-up included.
    enabled
        False shows nothing.
    stream
        Where text goes; standard error unless told, or the notebook when there is one. A terminal
        is redrawn in place; anything else gets a line every half minute and one at the end.

    Examples
    --------
    >>> with Progress(chains=1, total=200, enabled=False) as progress:
    ...     progress.update([ChainProgress(done=50, total=200, phase="warmup")])
    """

    def __init__(
        self, chains: int, total: int, *, enabled: bool = True, stream: TextIO | None = None
    ) -> None:
        self._rows = [ChainProgress(done=0, total=total) for _ in range(chains)]
        self._watches = [_Stopwatch() for _ in range(chains)]
        self._enabled = enabled and chains > 0
        self._stream = stream
        self._display: _Display | None = None
        self._last = -math.inf

    def __enter__(self) -> Self:
        if self._enabled:
            self._guard(self._open)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._guard(lambda: self._show(time.monotonic(), final=True))
        self._display = None

    def update(self, rows: Iterable[ChainProgress | Mapping[str, Any]]) -> None:
        """Report the progress of all chains; draws it if the last picture is old enough.

        Parameters
        ----------
        rows
            One :class:`ChainProgress`, or a mapping with its fields, for each chain.
        """
        if self._display is not None:
            self._guard(lambda: self._update(rows))

    def _open(self) -> None:
        self._display = _choose_display(self._stream)
        self._show(time.monotonic())

    def _update(self, rows: Iterable[ChainProgress | Mapping[str, Any]]) -> None:
        self._rows = [_as_row(row) for row in rows]
        now = time.monotonic()
        reports = self._read(now)  # also between pictures: phases begin and end on time
        if self._display is not None and now - self._last >= self._display.interval:
            self._last = now
            self._display.show(reports, final=False)

    def _show(self, now: float, *, final: bool = False) -> None:
        if self._display is not None:
            self._last = now
            self._display.show(self._read(now), final=final)

    def _read(self, now: float) -> list[_Report]:
        pairs = zip(self._rows, self._watches, strict=True)
        return [_Report(k, row, *watch.read(row, now)) for k, (row, watch) in enumerate(pairs)]

    def _guard(self, action: Callable[[], None]) -> None:
        """Run `action`; a display that fails is not used again, and sampling goes on."""
        try:
            action()
        except Exception:
            self._display = None


def _as_row(row: ChainProgress | Mapping[str, Any]) -> ChainProgress:
    return row if isinstance(row, ChainProgress) else ChainProgress(**row)


def _choose_display(stream: TextIO | None) -> _Display:
    if stream is None and _in_notebook():
        return _Notebook()
    if stream is None:
        stream = sys.stderr
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return _Terminal(stream)
    return _Log(stream)


def _in_notebook() -> bool:
    """Whether this process is a Jupyter kernel: then IPython has been imported already."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    return getattr(ipython.get_ipython(), "kernel", None) is not None


# --- Cells -----------------------------------------------------------------------------------


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "-:--"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def _times(report: _Report) -> str:
    elapsed = _duration(report.elapsed)
    return elapsed if report.row.phase == "done" else f"{elapsed} < {_duration(report.remaining)}"


def _step_size(report: _Report) -> str:
    return f"{report.row.step_size:.3g}" if math.isfinite(report.row.step_size) else "-"


def _gradients_per_draw(report: _Report) -> str:
    if report.row.draws_done <= 0:
        return "-"
    quotient = report.row.gradients / report.row.draws_done
    return f"{quotient:.1f}" if quotient < 1000 else f"{quotient:.4g}"


class _Column(NamedTuple):
    title: str
    text: Callable[[_Report], str]
    width: int  # at least: columns that grow would make the picture jump


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


class _Glyphs(NamedTuple):
    full: str
    half: str
    empty: str


UNICODE = _Glyphs("━", "╸", "─")
ASCII = _Glyphs("#", "", ".")


def _glyphs(encoding: str | None) -> _Glyphs:
    try:
        "".join(UNICODE).encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return UNICODE


def _bar(fraction: float, width: int, glyphs: _Glyphs) -> str:
    full, rest = divmod(int(2 * fraction * width), 2)
    bar = glyphs.full * full + glyphs.half * rest
    return bar + glyphs.empty * (width - len(bar))


class _Layout(NamedTuple):
    """The columns that fit into a line, their widths, and the width of the bar (0: none)."""

    widths: dict[str, int]
    bar: int


def _lay_out(reports: Sequence[_Report], width: int) -> _Layout:
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


def _line(report: _Report, layout: _Layout, glyphs: _Glyphs, colour: bool) -> str:
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


def _text_lines(
    reports: Sequence[_Report], width: int, glyphs: _Glyphs, colour: bool = False
) -> list[str]:
    """A header and a line for each chain, none wider than `width` columns."""
    layout = _lay_out(reports, width)
    if sum(layout.widths.values()) + len(layout.widths) - 1 > width:
        # Too narrow for any table. Clipped text must not contain colours, which have no width.
        return [_line(report, layout, glyphs, False)[:width] for report in reports]
    lines = [_line(report, layout, glyphs, colour) for report in reports]
    return [_header(layout), *lines]


def _summary(reports: Sequence[_Report]) -> str:
    """All chains in one line."""
    done = sum(report.row.done for report in reports)
    total = sum(report.row.total for report in reports)
    finished = sum(report.row.phase == "done" for report in reports)
    divergences = sum(report.row.divergences for report in reports)
    percent = math.floor(100 * done / total) if total else 100
    elapsed = _duration(max(report.elapsed for report in reports))
    return (
        f"Sampling: {percent} % of {len(reports)} chains ({finished} done), "
        f"{divergences} diverging, {elapsed} elapsed"
    )


# --- Displays --------------------------------------------------------------------------------


class _Log:
    """A line now and then, for a stream that keeps all that is written to it."""

    interval = LOG_INTERVAL

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._opened = False

    def show(self, reports: Sequence[_Report], *, final: bool) -> None:
        if self._opened or final:  # the first picture, at 0 %, says nothing
            self._stream.write(_summary(reports) + "\n")
            self._stream.flush()
        self._opened = True


class _Terminal:
    """A line for each chain, redrawn in place."""

    interval = TERMINAL_INTERVAL

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._glyphs = _glyphs(getattr(stream, "encoding", None))
        self._colour = not os.environ.get("NO_COLOR")
        self._drawn = 0

    def show(self, reports: Sequence[_Report], *, final: bool) -> None:
        columns, rows = _terminal_size(self._stream)
        # A line that fills the last column would wrap in some terminals.
        lines = self._picture(reports, max(columns - 1, 1), max(rows - 1, 1))
        # One write, so that no half-drawn picture is seen: up, each line to its end, the rest.
        up = f"\x1b[{self._drawn}A\r" if self._drawn else ""
        self._stream.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._stream.flush()
        self._drawn = len(lines)

    def _picture(self, reports: Sequence[_Report], width: int, height: int) -> list[str]:
        # The cursor cannot be moved up beyond the top of the screen, so what does not fit is
        # summed up.
        if len(reports) + 1 <= height:
            return _text_lines(reports, width, self._glyphs, self._colour)
        chosen = _most_interesting(reports, max(height - 2, 0))
        summary = _summary(reports)[:width]
        if not chosen:
            return [summary]
        return [*_text_lines(chosen, width, self._glyphs, self._colour), summary]


def _most_interesting(reports: Sequence[_Report], count: int) -> list[_Report]:
    """Up to `count` chains: those at work, then those that wait; in their order."""
    rank = {"draws": 0, "warmup": 0, "waiting": 1, "done": 2}
    chosen = sorted(reports, key=lambda report: rank[report.row.phase])[:count]
    return sorted(chosen, key=lambda report: report.chain)


def _terminal_size(stream: TextIO) -> tuple[int, int]:
    """Columns and rows of the terminal behind `stream`."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (AttributeError, OSError, ValueError):
        columns, rows = 0, 0
    if columns > 0 and rows > 0:
        return columns, rows
    return shutil.get_terminal_size()


class _Notebook:
    """A table in a notebook cell, replaced in place."""

    interval = NOTEBOOK_INTERVAL

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, reports: Sequence[_Report], *, final: bool) -> None:
        picture = {"text/html": _html_table(reports), "text/plain": _summary(reports)}
        if self._handle is None:
            # Only a Jupyter kernel comes here, and it has IPython.
            from IPython.display import display

            self._handle = display(picture, raw=True, display_id=True)
        else:
            self._handle.update(picture, raw=True)


# Colours come from the notebook's theme but for the bar and the count of divergences.
_CELL = "padding: 0.15em 0.8em; text-align: right; font-variant-numeric: tabular-nums;"
_ROUNDED = "height: 0.7em; border-radius: 0.35em;"
_TROUGH = f"{_ROUNDED} width: 14em; background: rgba(128, 128, 128, 0.25);"


def _html_bar(report: _Report) -> str:
    colour = PHASE_HTML_COLOURS[report.row.phase]
    percent = 100 * report.fraction
    fill = f"{_ROUNDED} width: {percent:.1f}%; background: {colour};"
    return f'<div style="{_TROUGH}"><div style="{fill}"></div></div>'


def _html_row(report: _Report) -> str:
    cells = []
    for name, column in COLUMNS.items():
        alarm = " color: #d03030; font-weight: bold;"
        style = _CELL + (alarm if name == "diverging" and report.row.divergences else "")
        cells.append(f'<td style="{style}">{html.escape(column.text(report))}</td>')
    cells.insert(1, f'<td style="{_CELL}">{_html_bar(report)}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _html_table(reports: Sequence[_Report]) -> str:
    titles = [column.title for column in COLUMNS.values()]
    titles.insert(1, "")
    head = "".join(f'<th style="{_CELL}">{html.escape(title)}</th>' for title in titles)
    body = "".join(_html_row(report) for report in reports)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
