"""What PyMC's sampling loops know and do not tell a step method, read from their frames."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

from mjhmc_numba.pymc.packaging import unfinished_traces

__all__ = ["explain_failure", "tune_of_caller"]

# Calls between a step method and the loop: of compound steps, and of ours. Two are usual; the rest
# is for wrappers of other packages.
MOST_CALLS = 12


class Caller(NamedTuple):
    """The loop that draws from a step method.

    Attributes
    ----------
    tune : int
        Tuning draws.
    chain : int
        Number of the chain.
    made : int
        Draws of the chain so far, tuning included.
    traces : sequence
        Of all chains, where they are in this process.
    """

    tune: int
    chain: int
    made: int
    traces: Sequence[Any]


def _caller() -> Caller | None:
    frame: FrameType | None = sys._getframe(1)
    found = None
    for _ in range(MOST_CALLS):
        if frame is None:
            break
        known = frame.f_locals
        where = (frame.f_globals.get("__name__"), frame.f_code.co_name)
        if where == ("pymc.sampling.mcmc", "_iter_sample"):
            traces = [known["trace"]]
            found = Caller(int(known["tune"]), known["chain"], known.get("i", 0), traces)
        elif where == ("pymc.sampling.mcmc", "_sample_many") and found is not None:
            return found._replace(traces=known["traces"][: found.chain + 1])
        elif where == ("pymc.sampling.parallel", "_start_loop"):
            worker = known["self"]
            return Caller(int(worker._tune), worker.chain, known.get("draw", 0), ())
        frame = frame.f_back
    return found


def tune_of_caller() -> int | None:
    """The number of tuning draws of the `pm.sample` that is calling us.

    PyMC 5 does not tell a step method. Both of its sampling loops have it at hand where they call
    `set_rng`, directly or through compound steps.
    """
    caller = _caller()
    return None if caller is None else caller.tune


def explain_failure(error: Exception) -> None:
    """Note with an exception which chain of `pm.sample` raised it and when; and its draws.

    The draws of chains that run in this process are kept as its attribute `result`. Those of
    worker processes are with PyMC, which drops them.
    """
    caller = _caller()
    if caller is None:
        return
    tuning = caller.made < caller.tune
    made = caller.made if tuning else caller.made - caller.tune
    note = f"Raised in chain {caller.chain}, after {made} {'tuning ' if tuning else ''}draws."
    with contextlib.suppress(Exception):  # this error is the one to be seen
        error.result = None  # type: ignore[attr-defined]
        error.result = unfinished_traces(caller.traces, caller.tune)  # type: ignore[attr-defined]
    if getattr(error, "result", None) is not None:
        note += " What was drawn before is in the attribute `result` of this exception."
    error.add_note(note)
