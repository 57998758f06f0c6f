"""Mean, variance and tails of analytic targets, to within Monte Carlo error."""

import math

import numpy as np
import pytest

from mjhmc_numba.density import as_target
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.process import Process, random_words
from mjhmc_numba.settings import Settings
from tests.kernel.processes import agreeing, own_bounded_g, own_unbounded_g
from tests.reparametrisations import random_reparametrisation
from tests.statistical.cases import CASES
from tests.statistical.estimates import batch_means, batch_z

CHAINS, DRAWS, BURN_IN = 8, 8000, 200

PLAIN = {"step_jitter": 0.0, "refine_levels": 0}
SIMULATIONS = {
    "metropolis_regular": (PLAIN, "leapfrog"),
    "metropolis_poisson": (PLAIN | {"clock": "poisson"}, "two_stage"),
    "metropolis_competing": (PLAIN | {"method": "competing"}, "leapfrog"),
    "sqrt": (PLAIN | {"rates": "sqrt"}, "leapfrog"),
    "barker_regular": (PLAIN | {"rates": "barker"}, "leapfrog"),
    "barker_poisson": (PLAIN | {"rates": "barker", "clock": "poisson"}, "three_stage"),
    "own_bounded": (PLAIN | {"rates": own_bounded_g, "rates_bound": 1.0}, "leapfrog"),
    "own_unbounded": (PLAIN | {"rates": own_unbounded_g}, "leapfrog"),
    "partial_refresh": (PLAIN | {"refresh_alpha": 0.7}, "leapfrog"),
    "partial_refresh_poisson": (PLAIN | {"refresh_alpha": 0.7, "clock": "poisson"}, "leapfrog"),
    "partial_refresh_sqrt": (PLAIN | {"refresh_alpha": 0.7, "rates": "sqrt"}, "leapfrog"),
    "step_jitter": ({"step_jitter": 0.5, "refine_levels": 0}, "leapfrog"),
    "refined": ({"refine_levels": 3, "refine_threshold": 0.3}, "leapfrog"),
    "harmonic": (PLAIN, "harmonic"),
}

every_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def compiled():
    """Targets by name, compiled once."""
    known = {}

    def get(name):
        if name not in known:
            known[name] = as_target(CASES[name].distribution)
        return known[name]

    return get


def chains_of(target, case, settings, tuned, seed, draws=DRAWS):
    """Draws (chain, draw, dim) from starts off the centre, after a burn-in."""
    out = np.empty((CHAINS, BURN_IN + draws, target.ndim))
    stats = np.empty((BURN_IN + draws, len(STAT_NAMES)))
    sd = np.sqrt(case.distribution.variance)
    for k, child in enumerate(seed.spawn(CHAINS)):
        process = Process(target, settings, agreeing(settings, tuned), random_words(child))
        process.start(case.distribution.mean + (0.5 + 0.1 * k) * (-1) ** k * sd)
        assert process.run(out[k], stats) == (BURN_IN + draws, 0)
    return out[:, BURN_IN:]


def assert_statistics(case, draws):
    wrong = {}
    for name, values, exact in case.statistics(draws):
        z = batch_z(values, exact, batches=256)
        if not abs(z) < 5:
            wrong[name] = (z, np.mean(values), exact)
    assert not wrong


# A rotation about a Gaussian is no map for heavy tails: it leaves them too rarely for batch means
# (test_heavy_tails.py does without).
PAIRS = [
    (name, simulation)
    for name in CASES
    for simulation in SIMULATIONS
    if (name, simulation) != ("student_t", "harmonic")
]


@pytest.mark.parametrize(("name", "simulation"), PAIRS)
def test_moments_and_tails(seeds, compiled, name, simulation):
    case, (settings, integrator) = CASES[name], SIMULATIONS[simulation]
    seed = seeds(50, list(CASES).index(name), list(SIMULATIONS).index(simulation))
    draws = chains_of(compiled(name), case, Settings(**settings), case.tuned(integrator), seed)
    assert_statistics(case, draws)


@every_case
@pytest.mark.parametrize("simulation", ["metropolis_regular", "sqrt", "refined"])
def test_moments_and_tails_in_any_reparametrisation(seeds, compiled, name, simulation):
    """One that suits none of the targets, though not so little that its chains mix slowly."""
    case, (settings, integrator) = CASES[name], SIMULATIONS[simulation]
    seed = seeds(53, list(CASES).index(name), list(SIMULATIONS).index(simulation))
    ndim = case.distribution.ndim
    reparametrisation = random_reparametrisation(ndim, location_parents=ndim - 2, size=0.1)
    tuned = case.tuned(
        integrator, reparametrisation=reparametrisation, step_size=0.8 * case.step_size
    )
    draws = chains_of(compiled(name), case, Settings(**settings), tuned, seed)
    assert_statistics(case, draws)


@every_case
def test_the_tests_of_moments_see_a_variance_that_is_wrong_by_a_tenth(seeds, compiled, name):
    """The same draws, stretched by 5 % about the mean, must not pass."""
    case = CASES[name]
    settings, integrator = SIMULATIONS["metropolis_regular"]
    seed = seeds(50, list(CASES).index(name), 0)
    # Twice as many draws: that it fails must not hang on the seed either.
    draws = chains_of(
        compiled(name), case, Settings(**settings), case.tuned(integrator), seed, draws=2 * DRAWS
    )
    mean = case.distribution.mean
    with pytest.raises(AssertionError):
        assert_statistics(case, mean + 1.05 * (draws - mean))


@pytest.mark.long
@pytest.mark.parametrize("simulation", SIMULATIONS)
def test_the_variance_is_right_to_four_in_a_thousand(seeds, compiled, simulation):
    """Runs on the asymmetric target, until an error of 0.4 % would be seen."""
    case, (settings, integrator) = CASES["log_gamma"], SIMULATIONS[simulation]
    target, tuned = compiled("log_gamma"), case.tuned(integrator)
    mean, variance = case.distribution.mean, case.distribution.variance
    means = np.empty(0)
    for part in range(12):
        seed = seeds(52, list(SIMULATIONS).index(simulation), part)
        draws = chains_of(target, case, Settings(**settings), tuned, seed, draws=500_000)
        squares = ((draws - mean) ** 2 / variance).mean(axis=2)
        means = np.append(means, batch_means(squares, batches=256))
        error = means.std(ddof=1) / math.sqrt(means.size)
        if 5 * error < 0.004:
            break
    assert 5 * error < 0.004
    assert abs(means.mean() - 1) < 5 * error
