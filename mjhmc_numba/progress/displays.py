"""Where a picture is drawn: in a terminal, in a notebook, or as sparse lines in a log."""

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

from mjhmc_numba.progress.picture import Note, Picture, Report
from mjhmc_numba.progress.table import glyphs_of, html_picture, text_lines

__all__ = ["Display", "choose_display"]

TERMINAL_INTERVAL = 0.1  # seconds between two pictures; a person sees no more (Nielsen 1993)
NOTEBOOK_INTERVAL = 0.5  # each is a message to a browser
LOG_INTERVAL = 30.0  # each is a line that stays: 120 per hour


class Display(Protocol):
    """Draws pictures, no more often than once per `interval` seconds."""

    interval: float

    def show(self, picture: Picture, *, is_due: bool, is_final: bool) -> None:
        """Draw a picture.

        Parameters
        ----------
        picture : Picture
            What to show.
        is_due : bool
            Whether it is time to show how far the chains are; notes are shown in any case.
        is_final : bool
            Whether it is the last one.
        """


def choose_display(stream: TextIO | None) -> Display:
    """The display for a stream; with None, for standard error or the notebook that this is."""
    if stream is None and _in_marimo():
        return _Marimo()
    if stream is None and _in_jupyter():
        return _Jupyter()
    if stream is None:
        stream = sys.stderr
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return _Terminal(stream)
    return _Log(stream)


def _in_jupyter() -> bool:
    """Whether this process is a Jupyter kernel: then IPython has been imported already."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    return getattr(ipython.get_ipython(), "kernel", None) is not None


def _in_marimo() -> bool:
    marimo = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())


class _Log:
    """A line now and then, for a stream that keeps all that is written to it."""

    interval = LOG_INTERVAL

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told: list[Note] = []
        self._is_mid_line = False
        self._closed_with = ""
        self._said = 0

    def show(self, picture: Picture, *, is_due: bool, is_final: bool) -> None:
        for place, note in enumerate(picture.notes):
            self._tell(place, note)
        for line in picture.said[self._said :]:
            self._write_line(line)
        self._said = len(picture.said)
        if not picture.reports:
            return
        if picture.closing and picture.closing != self._closed_with:
            self._closed_with = picture.closing
            self._write_line(picture.closing)
        elif (is_due or is_final) and not picture.closing:
            self._write_line(picture.summary)

    def _tell(self, place: int, note: Note) -> None:
        """Begin a line about what has begun, and end it when that has ended."""
        if place == len(self._told):
            self._told.append(note)
            self._begin_line(str(note))
            self._is_mid_line = note.seconds is None
        elif note == self._told[place]:
            return
        elif self._is_mid_line and place == len(self._told) - 1:
            self._stream.write(note.ending)
        else:  # something else was told meanwhile
            self._begin_line(str(note))
        self._told[place] = note
        if note.seconds is not None:
            self._stream.write("\n")
            self._is_mid_line = False
        self._stream.flush()

    def _begin_line(self, text: str) -> None:
        self._stream.write(("\n" if self._is_mid_line else "") + text)

    def _write_line(self, text: str) -> None:
        self._begin_line(text + "\n")
        self._is_mid_line = False
        self._stream.flush()


class _Terminal:
    """Notes, a line for each chain and a last line, redrawn in place."""

    interval = TERMINAL_INTERVAL

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._glyphs = glyphs_of(getattr(stream, "encoding", None))
        self._colour = not os.environ.get("NO_COLOR")
        self._drawn = 0

    def show(self, picture: Picture, *, is_due: bool, is_final: bool) -> None:
        columns, rows = _terminal_size(self._stream)
        # A line that fills the last column would wrap in some terminals.
        lines = self._lines(picture, max(columns - 1, 1), max(rows - 1, 1))
        # One write, so that no half-drawn picture is seen: up, each line to its end, the rest.
        up = f"\x1b[{self._drawn}A\r" if self._drawn else ""
        self._stream.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._stream.flush()
        self._drawn = len(lines)

    def _lines(self, picture: Picture, width: int, height: int) -> list[str]:
        notes = [line[:width] for line in [*map(str, picture.notes), *picture.said]]
        if not picture.reports:
            return notes[-height:]
        # The cursor cannot be moved up beyond the top of the screen: notes that do not fit are
        # left out, and chains that do not fit are summed up.
        notes = notes[max(len(notes) + 3 - height, 0) :]
        chains = self._chains(picture, width, height - len(notes))
        return [*notes, *chains]

    def _chains(self, picture: Picture, width: int, height: int) -> list[str]:
        reports = picture.reports
        last = textwrap.wrap(picture.closing, width) or [picture.summary[:width]]
        if len(reports) == 1 and not picture.closing:
            last = []  # the line of the chain says it all
        if len(reports) + 1 + len(last) > height:
            last = last or [picture.summary[:width]]
            reports = _most_interesting(reports, max(height - 1 - len(last), 0))
        if not reports:
            return last
        return [*text_lines(reports, width, self._glyphs, self._colour), *last]


def _most_interesting(reports: Sequence[Report], count: int) -> list[Report]:
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


class _Jupyter:
    """A table in a notebook cell, replaced in place."""

    interval = NOTEBOOK_INTERVAL

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, picture: Picture, *, is_due: bool, is_final: bool) -> None:
        lines = [*map(str, picture.notes), *picture.said]
        if picture.reports:
            lines.append(picture.last_line)
        shown = {"text/html": html_picture(picture), "text/plain": "\n".join(lines)}
        if self._handle is None:
            # Only a Jupyter kernel comes here, and it has IPython.
            from IPython.display import display

            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


class _Marimo:
    """The same table as the output of a marimo cell."""

    interval = NOTEBOOK_INTERVAL

    def show(self, picture: Picture, *, is_due: bool, is_final: bool) -> None:
        marimo = sys.modules["marimo"]
        marimo.output.replace(marimo.Html(html_picture(picture)))
