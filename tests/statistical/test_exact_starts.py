"""Chains from exact draws of the target end, some ticks later, as exact draws of it.

Whatever combination of integrator, rates, coordinates and refinement: each leaves the target
invariant at every tick, without a burn-in. The chains are independent, so the differences between
their ends and their starts have a standard error that needs no autocorrelation time.
"""

import itertools

import numpy as np
import pytest

from mjhmc_numba import targets
from mjhmc_numba.coordinates import Metric
from mjhmc_numba.density import as_target
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.process import Process, random_words
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import INTEGRATORS, Tuned
from tests.kernel.processes import COLUMN, own_bounded_g, own_unbounded_g
from tests.reparametrisations import random_reparametrisation

CHAINS, TICKS = 40_000, 3

TARGET = targets.log_gamma([1.0, 2.0, 5.0], 3)

RATES = {
    "metropolis": {},
    "metropolis_poisson": {"clock": "poisson"},
    "metropolis_competing": {"method": "competing"},
    "metropolis_partial_refresh": {"refresh_alpha": 0.9},
    "barker": {"rates": "barker"},
    "sqrt": {"rates": "sqrt"},
    "own_bounded": {"rates": own_bounded_g, "rates_bound": 1.0},
    "own_unbounded": {"rates": own_unbounded_g},
}

# A Gaussian that is near the target, and neither round nor quite where it is.
CENTRE = TARGET.mean + [0.3, -0.2, 0.1]
LOW_RANK = Metric.dense([[1.5, 0.3, 0.1], [0.3, 0.6, -0.1], [0.1, -0.1, 0.25]]).centred(CENTRE)
REPARAMETRISATION = random_reparametrisation(3, location_parents=1, size=0.2)
COORDINATES = {
    "diagonal": {"metric": Metric.diagonal([1.4, 0.6, 0.2]).centred(CENTRE)},
    "dense": {"metric": LOW_RANK},
    "reparametrised": {"metric": LOW_RANK, "reparametrisation": REPARAMETRISATION},
}

REFINEMENT = {
    "plain": {"step_jitter": 0.0, "refine_levels": 0},
    # Half of the energy errors or so are larger than that.
    "refined": {"step_jitter": 0.3, "refine_levels": 3, "refine_threshold": 0.2},
}

# Long steps, per gradient: a third to a half of all moves fail.
STEP_SIZES = {
    "leapfrog": 1.0,
    "two_stage": 0.8,
    "three_stage": 0.7,
    "harmonic": 1.2,
    "rotation": 1.0,
}

EVERY = list(itertools.product(INTEGRATORS, RATES, COORDINATES, REFINEMENT))
# A sixth of them, in which each choice stands beside each choice of another kind.
SOME = [
    (integrator, rates, coordinates, refinement)
    for k, integrator in enumerate(INTEGRATORS)
    for i, rates in enumerate(RATES)
    for j, coordinates in enumerate(COORDINATES)
    for m, refinement in enumerate(REFINEMENT)
    if (i + j + k) % 3 == 0 and (i // 3 + k + m) % 2 == 0
]


@pytest.fixture(scope="module")
def target():
    return as_target(TARGET)


def make_process(target, choices, seed):
    """A process of one combination, whose draws are made amid paths."""
    integrator, rates, coordinates, refinement = choices
    options = RATES[rates] | REFINEMENT[refinement]
    alpha = options.get("refresh_alpha", 0.0)
    tuned = Tuned(
        step_size=STEP_SIZES[integrator],
        num_steps=2,
        # What is kept of a momentum shows where many refreshes meet flips between them.
        refresh_rate=0.8 if alpha > 0 else 0.3,
        refresh_alpha=alpha,
        draw_interval=2.0,
        integrator=integrator,
        **COORDINATES[coordinates],
    )
    return Process(target, Settings(**options), tuned, random_words(seed))


def ends(process, starts):
    """Positions (n, d), momenta (n, d) and kinetic energies (n,) after the last tick."""
    x, v, kinetic = np.empty_like(starts), np.empty_like(starts), np.empty(len(starts))
    draws, stats = np.empty((TICKS, starts.shape[1])), np.empty((TICKS, len(STAT_NAMES)))
    for k, start in enumerate(starts):
        process.start(start)
        assert process.run(draws, stats) == (TICKS, 0)
        process.resolve_flip()
        x[k] = draws[-1]
        v[k] = process["direction"] * process.rungs[1, process._slot]
        kinetic[k] = stats[-1, COLUMN["energy"]] + stats[-1, COLUMN["lp"]]
    return x, v, kinetic


def functions(x):
    """Of positions (n, 3): bounded or nearly, so that few chains do not decide."""
    away = x - TARGET.mean
    lower = away < -1.5 * np.sqrt(TARGET.variance)
    products = away * np.roll(away, 1, axis=1)
    logp = (TARGET.args[0] * x - np.exp(x)).sum(axis=1, keepdims=True)
    return np.hstack([away, away**2, lower, products, logp])


def standard_errors_off(values):
    """|z| of means (k,) of independent values (n, k) that should be zero."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert (error > 0).all()
    return np.abs(values.mean(axis=0)) / error


def largest_z(target, choices, seed, chains=CHAINS, seen=None):
    """Largest |z| over functions of the positions, and of positions and momenta together."""
    starts = TARGET.draw(np.random.default_rng(seed.spawn(1)[0]), chains)
    process = make_process(target if seen is None else seen, choices, seed)
    x, v, kinetic = ends(process, starts)
    moved = functions(x) - functions(starts)
    joint = np.hstack([v, v * (x - TARGET.mean), kinetic[:, None] - starts.shape[1] / 2])
    return float(standard_errors_off(np.hstack([moved, joint])).max())


def seed_of(seeds, choices):
    return seeds(55, EVERY.index(choices))


@pytest.mark.parametrize("choices", SOME, ids="-".join)
def test_exact_draws_stay_exact(seeds, target, choices):
    assert largest_z(target, choices, seed_of(seeds, choices), CHAINS // 8) < 5


@pytest.mark.long
@pytest.mark.parametrize("choices", EVERY, ids="-".join)
def test_exact_draws_stay_exact_in_every_combination(seeds, target, choices):
    assert largest_z(target, choices, seed_of(seeds, choices).spawn(2)[1]) < 5


@pytest.mark.parametrize("choices", SOME[::13], ids="-".join)
def test_the_test_sees_a_density_that_is_a_little_off(seeds, target, choices):
    """Shapes that are 4 % larger than those of the starts must not pass."""
    off = as_target(targets.log_gamma(1.04 * TARGET.args[0], 3))
    assert largest_z(target, choices, seed_of(seeds, choices).spawn(3)[2], seen=off) > 5
