"""One display for all of a run: what is compiled, how far the chains are, how it ended.

`run` reports one :class:`ChainProgress` per chain, as often as it likes; :class:`Progress`
decides when that is drawn. A display that fails is switched off: it never costs a draw.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TextIO

from mjhmc_numba.progress.displays import Display, choose_display
from mjhmc_numba.progress.picture import ChainProgress, Note, Picture, Report, Stopwatch

__all__ = ["Progress"]

# Measured: examples/benchmark/SPEED.md.
SAMPLER_SECONDS = 6

COMPILING = {
    "sampler": f"Compiling the sampler (once per machine, about {SAMPLER_SECONDS} s)",
    "density": "Compiling the density",
    "gradient": "Compiling the model: gradient",
    "Deterministics": "Compiling the model: Deterministics",
}


class Progress:
    """Live progress of a run, as a context manager. It is silent until there is something to show.

    Parameters
    ----------
    enabled
        False shows nothing.
    stream
        Where text goes; standard error unless told, or the notebook when there is one. A terminal
        is redrawn in place; anything else gets a line every half minute and one at the end.

    Examples
    --------
    >>> with Progress(enabled=False) as progress:
    ...     progress.update([ChainProgress(done=50, total=200, phase="warmup")])
    """

    def __init__(self, *, enabled: bool = True, stream: TextIO | None = None) -> None:
        self._notes: list[Note] = []
        self._rows: list[ChainProgress] = []
        self._watches: list[Stopwatch] = []
        self._closing = ""
        self._said: list[str] = []
        self.enabled = enabled
        self._stream = stream
        self._display: Display | None = None
        self._last = math.nan
        self._lock = threading.RLock()

    @classmethod
    def of(cls, given: bool | Self) -> Self:
        """The display that was given, or a new one that is on or off."""
        return given if isinstance(given, cls) else cls(enabled=bool(given))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def compiling(self, what: str, seconds: float | None) -> None:
        """Report a compilation; see `mjhmc_numba.kernel.waiting.watched`.

        Parameters
        ----------
        what
            A key of `COMPILING`; others are not shown.
        seconds
            None when it begins, the seconds that it took when it has ended, NaN if it failed.
        """
        if not self.enabled or what not in COMPILING:
            return
        note = Note(what, COMPILING[what], seconds)
        with self._lock:
            begun = [k for k, old in enumerate(self._notes) if old == note._replace(seconds=None)]
            if seconds is None:
                self._notes.append(note)
            elif begun:
                self._notes[begun[0]] = note
        # Notebooks listen to one thread alone, which draws the picture when it comes by.
        if threading.current_thread() is threading.main_thread():
            self._guard(self._draw)

    def update(self, rows: Iterable[ChainProgress | Mapping[str, Any]]) -> None:
        """Report the progress of all chains; draws it if the last picture is old enough.

        Parameters
        ----------
        rows
            One :class:`ChainProgress`, or a mapping with its fields, for each chain.
        """
        if self.enabled:
            self._guard(lambda: self._update(rows))

    def finish(self, closing: str) -> None:
        """Show what came of the run, in one line."""
        self._closing = closing
        if self.enabled:
            self._guard(self._draw)

    def say(self, line: str) -> None:
        """Show a line that stays, such as where a run in rounds stands; it goes on after it."""
        with self._lock:
            self._said.append(line)
        if self.enabled:
            self._guard(self._draw)

    def close(self) -> None:
        """Show the last state of all, and nothing after it."""
        if self.enabled and (self._notes or self._rows):
            self._guard(lambda: self._draw(is_final=True))
        self.enabled = False

    def _update(self, rows: Iterable[ChainProgress | Mapping[str, Any]]) -> None:
        is_first = not self._rows
        self._rows = [_as_row(row) for row in rows]
        if any(row.phase != "done" for row in self._rows):
            self._closing = ""  # it goes on
        if is_first:
            self._watches = [Stopwatch() for _ in self._rows]
        now = time.monotonic()
        reports = self._read(now)  # also between pictures: phases begin and end on time
        if is_first or now - self._last >= self._opened().interval:
            self._last = now
            self._opened().show(self._picture(reports, now), is_due=not is_first, is_final=False)

    def _draw(self, *, is_final: bool = False) -> None:
        now = time.monotonic()
        picture = self._picture(self._read(now), now)
        self._opened().show(picture, is_due=False, is_final=is_final)

    def _opened(self) -> Display:
        if self._display is None:
            self._display = choose_display(self._stream)
        return self._display

    def _picture(self, reports: list[Report], now: float) -> Picture:
        watches = self._watches
        if reports and all(report.row.phase == "done" for report in reports):
            now = max(watch.ended for watch in watches)
        began = min((w.started for w in watches if not math.isnan(w.started)), default=now)
        return Picture(list(self._notes), reports, now - began, self._closing, list(self._said))

    def _read(self, now: float) -> list[Report]:
        pairs = zip(self._rows, self._watches, strict=True)
        return [Report(k, row, *watch.read(row, now)) for k, (row, watch) in enumerate(pairs)]

    def _guard(self, action: Callable[[], None]) -> None:
        """Run `action`; a display that fails is not used again, and sampling goes on."""
        try:
            with self._lock:
                action()
        except Exception:
            self.enabled = False


def _as_row(row: ChainProgress | Mapping[str, Any]) -> ChainProgress:
    return row if isinstance(row, ChainProgress) else ChainProgress(**row)
