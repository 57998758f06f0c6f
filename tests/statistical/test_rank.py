"""An exact rank test of the process, forwards and backwards in time (Gandy and Scott, 2020).

A path of L states is laid around an exact draw: some states after it, by the process, and some
before it, by the process in reverse time. Where the draw lies on the path is chosen at random. If
the target is invariant the L states are those of a stationary path, and the rank of the draw among
them is uniform, whatever is ranked and however slowly the process mixes.

The process is skew-reversible: with F, which turns the momentum, its reverse is F K F. So the leg
into the past begins with the momentum turned, and its momenta are turned again. A test of the
target alone does not see a process whose reverse is another one; this one does.

Gandy, A. and Scott, J. (2020). Unit testing for MCMC and other Monte Carlo methods.
arXiv:2001.06465.
"""

import numpy as np
import pytest
from scipy import stats

from mjhmc_numba import targets
from mjhmc_numba.density import as_target
from mjhmc_numba.kernel.layout import CLOCK_REGULAR, STAT_NAMES
from mjhmc_numba.process import Process, random_words
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Tuned
from tests.kernel.processes import own_bounded_g
from tests.statistical.test_exact_starts import COORDINATES, TARGET

STATES = 5  # of a path
NEAR = 1e-9
FALSE_ALARMS, ROUNDS, GROWTH, FEWEST_PATHS = 1e-5, 7, 4, 5000

POISSON = {"step_jitter": 0.0, "refine_levels": 0, "clock": "poisson"}
# Regular clocks are not in reverse what they are forwards. But with a full refresh at each draw
# the positions alone are a chain, which is reversible.
REGULAR = {"step_jitter": 0.0, "refine_levels": 0, "refresh_jitter": 0.0}
REFINED = {"refine_levels": 3, "refine_threshold": 0.2}

SIMULATIONS = {
    "metropolis": (POISSON, "leapfrog", "diagonal"),
    "competing": (POISSON | {"method": "competing"}, "three_stage", "dense"),
    "barker": (POISSON | {"rates": "barker"}, "two_stage", "dense"),
    "sqrt": (POISSON | {"rates": "sqrt"}, "leapfrog", "reparametrised"),
    "own": (POISSON | {"rates": own_bounded_g, "rates_bound": 1.0}, "leapfrog", "dense"),
    "partial_refresh": (POISSON | {"refresh_alpha": 0.9}, "leapfrog", "dense"),
    "refined": (POISSON | REFINED, "leapfrog", "reparametrised"),
    "harmonic": (POISSON, "harmonic", "dense"),
    "rotation": (POISSON | {"rates": "sqrt"}, "rotation", "reparametrised"),
    "regular": (REGULAR, "leapfrog", "dense"),
    "regular_barker": (REGULAR | {"rates": "barker"}, "two_stage", "reparametrised"),
    "regular_refined": (REGULAR | REFINED, "leapfrog", "diagonal"),
}


@pytest.fixture(scope="module")
def target():
    return as_target(TARGET)


def make_process(target, simulation, seed):
    options, integrator, coordinates = SIMULATIONS[simulation]
    settings = Settings(**options)
    alpha = settings.refresh_alpha or 0.0
    is_regular = settings.clock_code == CLOCK_REGULAR
    tuned = Tuned(
        step_size=0.8,
        num_steps=1,
        refresh_rate=1.0 if alpha > 0 else 0.5,
        refresh_alpha=alpha,
        # Neighbours in time are neighbours in space; or a whole path lies between them.
        draw_interval=2.0 if is_regular else 1.0,
        integrator=integrator,
        **COORDINATES[coordinates],
    )
    return Process(target, settings, tuned, random_words(seed))


class Legs:
    """Legs of a process into the future and into the past.

    What is ranked is computed of the draws. To them a path that comes back to where it began is
    there but for rounding, so two numbers are alike within NEAR.
    """

    def __init__(self, process, rng):
        self.process, self.rng = process, rng
        self.is_memoryless = process["clock"] != CLOCK_REGULAR
        self.draws = np.empty((1, process.target.ndim))
        self.stats = np.empty((1, len(STAT_NAMES)))

    def _words(self):
        return self.rng.integers(2**64, size=4, dtype=np.uint64)

    def _begin(self, x, words, direction):
        """At x with the momentum of these random words, turned or not; then clocks of its own."""
        process, g_max = self.process, float(self.process["g_max"])
        # Where positions alone are the chain, each leg has a momentum of its own.
        process.rng[...] = words if self.is_memoryless else self._words()
        process.start(x)
        process.rng[...] = self._words()
        if self.is_memoryless:
            now, (ring, refresh) = process["now"], self.rng.exponential(size=2)
            process.state["next_ring"] = now + ring / g_max
            process.state["next_refresh"] = now + refresh / process["refresh_rate"]
            process.state["direction"] = direction
        return np.concatenate([x, direction * self._momentum()])

    def _momentum(self):
        return self.process["direction"] * self.process.rungs[1, self.process._slot]

    def leg(self, x, words, direction, length):
        """The first state and the next ones, (1 + length, 2 d): positions and momenta."""
        states = [self._begin(x, words, direction)]
        for _ in range(length):
            assert self.process.run(self.draws, self.stats) == (1, 0)
            self.process.resolve_flip()
            states.append(np.concatenate([self.draws[0], direction * self._momentum()]))
        return np.array(states)


def functions(states, metric):
    """What is ranked, (..., k): positions, log density, kinetic energy, momenta."""
    x, v = np.split(states, 2, axis=-1)
    logp = (TARGET.args[0] * x - np.exp(x)).sum(axis=-1)
    kinetic = 0.5 * np.einsum("...i,ij,...j->...", v, metric.covariance(), v)
    along = ((x - TARGET.mean) * v).sum(axis=-1)
    return np.concatenate([x, np.stack([logp, kinetic, v[..., 0], along], axis=-1)], axis=-1)


def ranks(process, paths, rng):
    """Ranks (path, k), from 0 to STATES - 1, of exact draws on paths around them."""
    legs, starts = Legs(process, rng), TARGET.draw(rng, paths)
    states = np.empty((paths, STATES, 2 * TARGET.ndim))  # the draw first
    for path, x in zip(states, starts, strict=True):
        before = int(rng.integers(STATES))
        words = legs._words()
        path[: STATES - before] = legs.leg(x, words, +1, STATES - 1 - before)
        path[STATES - before :] = legs.leg(x, words, -1, before)[1:]
    values = functions(states, process.tuned.metric)
    if not legs.is_memoryless:
        values = values[..., : TARGET.ndim + 1]
    away = values[:, 1:] - values[:, :1]
    near = NEAR * (1 + np.abs(values[:, :1]))
    lower, ties = (away < -near).sum(axis=1), (np.abs(away) <= near).sum(axis=1)
    return lower + rng.integers(ties + 1)


def p_value(found):
    """That all columns of ranks are uniform: the least of chi-square tests, times their number."""
    counts = [np.bincount(column, minlength=STATES) for column in found.T]
    return min(1.0, len(counts) * min(stats.chisquare(c).pvalue for c in counts))


def is_rejected(draw_ranks):
    """Algorithm 3 of Gandy and Scott: false alarms have probability FALSE_ALARMS at most.

    What is neither good nor clearly bad is tried again, with more paths.
    """
    level = FALSE_ALARMS / ROUNDS
    doubt, paths = level ** (1 / ROUNDS), FEWEST_PATHS
    for _ in range(ROUNDS):
        p = p_value(draw_ranks(paths))
        if p <= level:
            return True
        if p > doubt + level:
            return False
        level /= doubt
        paths = max(paths, GROWTH * FEWEST_PATHS)
    return False


def rejects(target, simulation, seed):
    process = make_process(target, simulation, seed)
    rng = np.random.default_rng(seed.spawn(1)[0])
    return is_rejected(lambda paths: ranks(process, paths, rng))


LONG = set(SIMULATIONS) - {"metropolis", "sqrt", "refined", "regular"}


@pytest.mark.parametrize(
    "simulation", [pytest.param(s, marks=[pytest.mark.long] * (s in LONG)) for s in SIMULATIONS]
)
def test_an_exact_draw_has_a_uniform_rank_on_its_path(seeds, target, simulation):
    seed = seeds(56, list(SIMULATIONS).index(simulation))
    assert not rejects(target, simulation, seed)


@pytest.mark.parametrize("simulation", ["metropolis", "refined"])
def test_the_rank_test_sees_a_density_that_is_off(seeds, simulation):
    off = as_target(targets.log_gamma(1.5 * TARGET.args[0], 3))
    assert rejects(off, simulation, seeds(57, list(SIMULATIONS).index(simulation)))


@pytest.mark.parametrize("simulation", ["sqrt", "partial_refresh"])
def test_the_rank_test_sees_a_past_whose_momentum_is_not_turned(
    seeds, target, simulation, monkeypatch
):
    def unturned(self, x, words, direction, length, leg=Legs.leg):
        return leg(self, x, words, +1, length)

    monkeypatch.setattr(Legs, "leg", unturned)
    assert rejects(target, simulation, seeds(58, list(SIMULATIONS).index(simulation)))


def test_uniform_ranks_are_doubted_about_as_often_as_the_test_says(seeds):
    """The first round ends in doubt in as many cases as its level says."""
    rng = np.random.default_rng(seeds(59))
    doubt = (FALSE_ALARMS / ROUNDS) ** (1 / ROUNDS)
    doubtful = sum(p_value(rng.integers(STATES, size=(2000, 1))) < doubt for _ in range(2000))
    assert abs(doubtful - 2000 * doubt) < 5 * np.sqrt(2000 * doubt * (1 - doubt))
