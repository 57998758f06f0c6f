"""Integrators that rotate, on heavy tails: independent chains from exact draws end as exact draws.

A rotation about a Gaussian is no map for heavy tails, which it leaves rarely: a chain is too slow
there for errors that are estimated from its own draws. So many short chains start at exact draws
of the target, and as many must enter a region as leave it. The chains are independent, so no error
has to be estimated.
"""

import numpy as np
import pytest
from scipy import stats

from mjhmc_numba import targets
from mjhmc_numba.coordinates import Metric
from mjhmc_numba.density import as_target
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.process import Process, random_words
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Tuned
from tests.statistical.estimates import crossing_z

CHAINS = 100_000
DF = 3.0  # the fourth moment is infinite

PLAIN = {"step_jitter": 0.0, "refine_levels": 0}
# Ten refreshes, about a Gaussian that is neither round nor where the target is.
HARMONIC = Tuned(
    step_size=0.9,
    num_steps=1,
    refresh_rate=0.25,
    draw_interval=40.0,
    integrator="harmonic",
    metric=Metric.dense([[1.5, 0.4], [0.4, 0.6]]).centred([0.4, -0.2]),
)
# Without kicks only a wide one gets far.
WIDE = Metric.dense([[20.0, 4.0], [4.0, 8.0]]).centred([0.4, -0.2])
ROTATION = HARMONIC.replace(integrator="rotation", metric=WIDE)

SIMULATIONS = {
    "regular": (HARMONIC, PLAIN),
    "poisson": (HARMONIC, PLAIN | {"clock": "poisson"}),
    "refined": (HARMONIC, {"step_jitter": 0.5, "refine_levels": 4, "refine_threshold": 0.3}),
    "rotation": (ROTATION, PLAIN),
}


@pytest.fixture(scope="module")
def target():
    return as_target(targets.student_t(DF, 2))


def exact_draws(seed):
    return targets.student_t(DF, 2).draw(np.random.default_rng(seed), CHAINS)


def ends(target, simulation, starts, seed):
    """Where independent chains are after one draw interval, (n, d)."""
    tuned, settings = SIMULATIONS[simulation]
    process = Process(target, Settings(**settings), tuned, random_words(seed))
    out, row = np.empty_like(starts), np.empty((1, len(STAT_NAMES)))
    for k, x in enumerate(starts):
        process.start(x)
        assert process.run(out[k : k + 1], row) == (1, 0)
    return out


def regions(x):
    """Whether points (n, 2) lie in some regions, (n, region): tails near and far, and sides."""
    radius = np.hypot(x[:, 0], x[:, 1])
    # |x|^2 / 2 has the F distribution of 2 and DF degrees of freedom.
    shells = [radius > np.sqrt(2 * stats.f.isf(p, 2, DF)) for p in (0.5, 0.1, 0.02, 0.004)]
    right = [x[:, 0] > stats.t.isf(p, DF) for p in (0.3, 0.05)]
    low = [x[:, 1] < stats.t.ppf(p, DF) for p in (0.2, 0.02)]
    return np.column_stack(shells + right + low)


@pytest.mark.parametrize("simulation", SIMULATIONS)
def test_as_many_chains_enter_a_region_as_leave_it(seeds, target, simulation):
    seed = seeds(53, list(SIMULATIONS).index(simulation))
    starts = exact_draws(seed.spawn(1)[0])
    after = ends(target, simulation, starts, seed)
    z, crossings = crossing_z(regions(starts), regions(after))
    assert np.all(crossings > 25)  # with fewer, z cannot reach 5
    assert np.abs(z).max() < 5


def test_the_test_of_regions_sees_a_tail_that_is_a_little_lighter(seeds):
    """Half as many chains, on the density of 3.6 degrees of freedom, must not pass."""
    seed = seeds(54)
    starts = exact_draws(seed.spawn(1)[0])[: CHAINS // 2]
    lighter = as_target(targets.student_t(1.2 * DF, 2))
    after = ends(lighter, "refined", starts, seed)
    z, _ = crossing_z(regions(starts), regions(after))
    assert np.abs(z).max() > 5
