"""A tick composes with other Markov steps: what another step method moves does no harm."""

import numpy as np
import pytest

from mjhmc_numba.density import as_target
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.settings import Settings
from tests.kernel.processes import standard_normal, started, tuned
from tests.statistical.estimates import batch_z

DRAWS = 40_000
PLAIN = {"step_jitter": 0.0, "refine_levels": 0}
SIMULATIONS = [
    PLAIN,
    PLAIN | {"clock": "poisson"},
    PLAIN | {"refresh_alpha": 0.5},
    PLAIN | {"rates": "barker"},
    PLAIN | {"rates": "sqrt"},
    PLAIN | {"method": "competing"},
]


@pytest.fixture(scope="module")
def target():
    return as_target(standard_normal, 1)


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=str)
@pytest.mark.parametrize("step_size", [1.5, 1.8])
def test_moving_on_from_the_same_point_leaves_the_target_invariant(
    seeds, target, simulation, step_size
):
    """Every draw is followed by a move to where the process is: the ladder is begun anew."""
    values = tuned(1, step_size=step_size, refresh_rate=0.1, draw_interval=1.0)
    process = started(target, Settings(**simulation), values, seeds(70))
    draws, stats = np.empty((DRAWS, 1)), np.empty((DRAWS, len(STAT_NAMES)))
    for n in range(DRAWS):
        process.run(draws[n : n + 1], stats[n : n + 1])
        process.resolve_flip()
        process.move(draws[n])
    x = draws[:, 0]
    assert abs(batch_z(x, 0.0)) < 5
    assert abs(batch_z(x**2, 1.0)) < 5
    assert abs(batch_z(np.abs(x) > 2, 0.04550026389635842)) < 5
