"""Pictures of a run, with matplotlib.

Each function takes a `Result`, or the ArviZ object of a PyMC model, and follows ArviZ: it draws on
the axes that it is given or on a new figure, and returns the axes. What ArviZ draws itself (traces,
ranks, energies, posteriors) is not here.
"""

from mjhmc_numba.plots.divergences import plot_divergences
from mjhmc_numba.plots.efficiency import plot_autocorr, plot_efficiency
from mjhmc_numba.plots.jumps import plot_events, plot_ladder
from mjhmc_numba.plots.warmup import plot_reparametrisation, plot_warmup

__all__ = [
    "plot_autocorr",
    "plot_divergences",
    "plot_efficiency",
    "plot_events",
    "plot_ladder",
    "plot_reparametrisation",
    "plot_warmup",
]
