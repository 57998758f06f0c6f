"""What a display shows: compilations, chains with their times, and a closing line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ChainProgress", "Note", "Picture", "Report", "Stopwatch", "duration"]

# Below this much of a phase its speed is a guess, and the speed since the start is used:
# of 20 iterations with times that vary by their mean it is known to 22 %.
SETTLED_ITERATIONS = 20
# Below this share of a chain other chains tell more about its time: its first windows are short and
# search for starts, coordinates and step size.
EARLY = 0.1


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


class Report(NamedTuple):
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

    @property
    def is_at_work(self) -> bool:
        return self.row.phase in ("warmup", "draws")


class Note(NamedTuple):
    """Something that takes a while: None seconds while it does, NaN if it did not succeed."""

    what: str
    text: str
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.text} ...{self.ending}"

    @property
    def ending(self) -> str:
        if self.seconds is None:
            return ""
        return " stopped" if math.isnan(self.seconds) else f" done in {self.seconds:.1f} s"


class Picture(NamedTuple):
    """All that a display shows at one moment.

    Parameters
    ----------
    notes : list of str
        What was and is compiled.
    reports : list of Report
        One per chain; none before they run.
    elapsed : float
        Seconds since the first chain began.
    closing : str
        What came of it, in one line, once it is known.
    said : sequence of str
        Lines that stay: where a run in rounds stood after each.
    """

    notes: Sequence[Note]
    reports: Sequence[Report] = ()
    elapsed: float = 0.0
    closing: str = ""
    said: Sequence[str] = ()

    @property
    def last_line(self) -> str:
        """The closing line; before it is known, all chains in one line."""
        return self.closing or self.summary

    @property
    def summary(self) -> str:
        """All chains in one line."""
        reports = self.reports
        done = sum(report.row.done for report in reports)
        total = sum(report.row.total for report in reports)
        finished = sum(report.row.phase == "done" for report in reports)
        divergences = sum(report.row.divergences for report in reports)
        percent = math.floor(100 * done / total) if total else 100
        left = self._remaining()
        return (
            f"Sampling: {percent} % of {len(reports)} chains ({finished} done), "
            f"{divergences} diverging, {duration(self.elapsed)} elapsed"
            + (f", {duration(left)} left" if left > 0 else "")
        )

    def _remaining(self) -> float:
        """Seconds until the last chain ends; NaN while unknown.

        Chains that have not begun will take as long as the others do, and run when those that are
        at work now have made room. The pace of a chain that has only begun says little: once
        another has ended, it is taken to be as long.
        """
        begun = [r for r in self.reports if not math.isnan(r.remaining) and r.row.done > 0]
        if not begun:
            return math.nan
        ended = [r.elapsed for r in begun if r.row.phase == "done"]
        typical = sum(ended) / len(ended) if ended else math.nan

        def remaining(report: Report) -> float:
            as_others = typical - report.elapsed
            return as_others if report.fraction < EARLY and as_others > 0 else report.remaining

        usual = sum(r.elapsed + remaining(r) for r in begun) / len(begun)
        left = [remaining(r) if r in begun else usual for r in self.reports]
        at_work = sum(report.is_at_work for report in self.reports)
        return max(*left, sum(left) / max(at_work, 1))


@dataclass
class Stopwatch:
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
        """Seconds elapsed and remaining."""
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
        self.ended = now if row.phase == "done" else math.nan  # it may go on
        self.phase, self.phase_started, self.phase_first = row.phase, now, row.done

    def _remaining(self, row: ChainProgress, now: float) -> float:
        seconds, iterations = now - self.phase_started, row.done - self.phase_first
        if iterations < SETTLED_ITERATIONS:
            seconds, iterations = now - self.started, row.done
        if iterations <= 0:
            return math.nan
        return seconds / iterations * max(row.total - row.done, 0)


def duration(seconds: float) -> str:
    """Hours, minutes and seconds."""
    if not math.isfinite(seconds):
        return "-:--"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
