"""Discrete-time HMC, the paper's control and the standard one."""

import math

import numpy as np
import pytest
from numba import njit

from examples.paper.discrete_hmc import run_hmc, sample_hmc
from mjhmc_numba import Settings, as_target, targets
from mjhmc_numba.kernel.layout import DENSITY_RAISED, FINISHED, INTERRUPTED, STAT_NAMES
from mjhmc_numba.reference import ReferenceProcess, ReferenceRun, uniform
from tests.kernel.processes import settings, skewed_target, started, tuned, words
from tests.kernel.test_reference import METRICS, NDIM, VARIATIONS, assert_equal_runs
from tests.statistical.cases import CASES
from tests.statistical.estimates import batch_z

RUN = {"step_size": 0.6, "num_steps": 3}


def empty(draws, ndim):
    return np.empty((draws, ndim)), np.empty((draws, len(STAT_NAMES)))


# --- The twin


class ReferenceHMC(ReferenceProcess):
    """Discrete-time HMC by the plain twin of the kernel."""

    def step(self, refresh_probability):
        """L with probability min(1, pi_ahead / pi), else F."""
        here = self.here
        self._begin_ladder(here.x, self.s * here.v, here.grad, here.logp)
        ahead = self._log_ratio(self._neighbour_energy(1))
        self._count_acceptance(ahead, 1.0)
        if uniform(self.rng) < math.exp(min(0.0, ahead)):
            self.i = 1
            self.counts["n_L"] += 1
        else:
            self.s = -1
            self.counts["n_F"] += 1
        if uniform(self.rng) < refresh_probability:
            self._refresh()
            self.counts["n_R"] += 1

    def run(self, draws, refresh_probability):
        positions, rows = np.empty((draws, self.here.x.size)), []
        for n in range(draws):
            self.step(refresh_probability)
            positions[n] = self.here.x
            rows.append(self.statistics())
        stats = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        return ReferenceRun(positions, stats, self.jumps)


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("metric", METRICS)
def test_the_compiled_sampler_and_its_twin_make_the_same_draws(metric, probability):
    target = skewed_target(NDIM)
    for turn, variation in enumerate(VARIATIONS):
        chosen = Settings(**variation)
        values = tuned(NDIM, step_size=0.8, num_steps=1 + turn, metric=METRICS[metric])
        process = started(target, chosen, values, 23)
        draws, stats = empty(200, NDIM)
        assert run_hmc(process.state, draws, stats, probability) == (200, FINISHED)
        twin = ReferenceHMC(target.logp_and_grad, np.zeros(NDIM), chosen, values, words(23))
        made = twin.run(200, probability)
        assert_equal_runs(draws, stats, made)
        assert made.stats["n_F"].sum() > 0


# --- What it draws


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("probability", [0.2, 1.0])
def test_moments_and_tails(seeds, name, probability):
    """From starts off the centre, after a burn-in."""
    case, target = CASES[name], as_target(CASES[name].distribution)
    draws = np.empty((8, 16_200, target.ndim))
    stats = np.empty((16_200, len(STAT_NAMES)))
    sd = np.sqrt(case.distribution.variance)
    seed = seeds(51, list(CASES).index(name), int(10 * probability))
    for k, child in enumerate(seed.spawn(8)):
        x0 = case.distribution.mean + (0.5 + 0.1 * k) * (-1) ** k * sd
        process = started(target, Settings(), case.tuned(num_steps=2), child, x0)
        assert run_hmc(process.state, draws[k], stats, probability) == (16_200, FINISHED)
    z = {
        what: batch_z(values, exact, batches=256)
        for what, values, exact in case.statistics(draws[:, 200:])
    }
    assert not {what: value for what, value in z.items() if not abs(value) < 5}


@pytest.fixture(scope="module", params=[1.0, 0.3])
def run(request, seeds):
    """Refresh probability, draws and statistics of a few chains."""
    probability = request.param
    options = {"draws": 5000, "chains": 4, "seed": seeds(133).entropy, **RUN}
    return probability, *sample_hmc(
        targets.rough_well(), refresh_probability=probability, **options
    )


def test_each_step_is_accepted_or_flipped(run):
    _, draws, stats = run
    np.testing.assert_array_equal(stats["n_L"] + stats["n_F"], 1)
    moved = (np.diff(draws, axis=1) != 0).any(axis=2)
    np.testing.assert_array_equal(moved, stats["n_L"][:, 1:] == 1)


def test_each_step_costs_its_gradients(run):
    np.testing.assert_array_equal(run[2]["n_gradients"], RUN["num_steps"])


def test_acceptance_is_the_probability_to_move(run):
    moves, acceptance = run[2]["n_L"], run[2]["acceptance_rate"]
    error = np.sqrt(np.sum(acceptance * (1 - acceptance)))
    assert error > 0
    assert abs(moves.sum() - acceptance.sum()) / error < 5


def test_refreshes_come_with_their_probability(run):
    probability, _, stats = run
    error = np.sqrt(probability * (1 - probability) / stats["n_R"].size)
    assert abs(stats["n_R"].mean() - probability) <= 5 * error


def test_more_draws_and_more_chains_begin_with_the_same():
    options = {"refresh_probability": 0.5, "seed": 5, **RUN}
    one, _ = sample_hmc(targets.standard_normal(2), draws=20, chains=2, **options)
    more, _ = sample_hmc(targets.standard_normal(2), draws=50, chains=3, **options)
    np.testing.assert_array_equal(more[:2, :20], one)
    assert (one[0] != one[1]).any()


# --- What it refuses, and how it ends


@pytest.mark.parametrize("probability", [0.0, 1.5, math.nan])
def test_a_refresh_probability_that_is_none_is_refused(probability):
    with pytest.raises(ValueError, match="refresh_probability lies in"):
        sample_hmc(
            targets.standard_normal(2),
            refresh_probability=probability,
            draws=1,
            chains=1,
            seed=1,
            **RUN,
        )


@njit
def raises_far_out(x, grad):
    if abs(x[0]) > 2:
        raise ValueError("too far")
    grad[0] = -x[0]
    return -0.5 * x[0] * x[0]


def test_it_stops_where_the_density_raises():
    process = started(as_target(raises_far_out, 1), settings(), tuned(1), 4)
    draws, stats = empty(20_000, 1)
    filled, status = run_hmc(process.state, draws, stats, 0.5)
    assert status == DENSITY_RAISED
    assert 0 < filled < 20_000
    assert np.isfinite(draws[:filled]).all()
    assert "too far" in str(process.error())


def test_what_the_density_raises_is_raised():
    target = targets.Distribution("edge", 1, raises_far_out)
    options = {"refresh_probability": 1.0, "draws": 20_000, "chains": 1, "seed": 1, **RUN}
    with pytest.raises(ValueError, match="too far"):
        sample_hmc(target, np.zeros((1, 1)), **options)


def test_it_stops_when_aborted():
    process = started(skewed_target(2), settings(), tuned(2), 6)
    process.abort()
    assert run_hmc(process.state, *empty(10, 2), 0.5) == (0, INTERRUPTED)
