"""When not to trust the draws, and what to do then: one set of rules for all ways to sample.

A rule of one chain is a function of plain values that returns a `Finding` or None. What needs many
draws is looked at now and then, by the same rules while a chain draws (the PyMC step) and
afterwards. Rules of all chains together, or of the density, can only be asked at the end.
"""

from mjhmc_numba.diagnostics.chain import chain_findings
from mjhmc_numba.diagnostics.chains import (
    closing_line,
    diagnose,
    diagnose_unless_pressed,
    findings,
)
from mjhmc_numba.diagnostics.rules import Finding, cannot_move

__all__ = [
    "Finding",
    "cannot_move",
    "chain_findings",
    "closing_line",
    "diagnose",
    "diagnose_unless_pressed",
    "findings",
]
