"""Runs that must agree in every bit."""

import numpy as np

from mjhmc_numba.stats import OF_CLOCK

# Statistics that differ from run to run by nature.
TIMINGS = {row.name for row in OF_CLOCK}


def assert_same_stats(stats, others):
    """All statistics (name to array) but the times that draws took."""
    assert set(stats) == set(others)
    for name in set(stats) - TIMINGS:
        np.testing.assert_array_equal(stats[name], others[name], err_msg=name)
