"""A chain that warms up where there is next to no mass is run again from where the others are."""

import numba
import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba.density import as_target
from mjhmc_numba.initial import Region
from mjhmc_numba.run import ChainOutput, ChainTask, lost
from mjhmc_numba.run.lost import lost_chains
from mjhmc_numba.run.memory import forget
from mjhmc_numba.settings import Settings
from mjhmc_numba.stats import Rows
from mjhmc_numba.tuned import Starts
from mjhmc_numba.warmup.first import first_guess

DEEP = 60.0  # differences of the log densities of two modes, far from each other
FAR = 40.0


@numba.njit
def two_modes(x, grad, minor):
    """Standard normals about 0 and about (FAR, FAR), the latter with another mass."""
    first, second = 0.0, minor
    for j in range(x.size):
        first -= 0.5 * x[j] ** 2
        second -= 0.5 * (x[j] - FAR) ** 2
    centre = 0.0 if first > second else FAR
    for j in range(x.size):
        grad[j] = centre - x[j]
    return max(first, second)


STARTS = np.array([[FAR, FAR], [0.0, 0.0], [0.5, -0.5]])


def run(minor=-DEEP, initial=STARTS, **options):
    options = {"chains": len(initial), "draws": 100, "tune": 300, "seed": 1} | options
    return mj.sample(two_modes, initial, args=(minor,), progress=False, **options)


def test_a_chain_in_a_mode_without_mass_is_run_again_and_told():
    with pytest.warns(mj.SamplingWarning, match="Chain 0 had warmed up where there is next to no"):
        result = run()
    assert np.abs(result.draws).max() < 10
    alone = run(initial=STARTS[1:], chains=2)
    lost = result.warmup_gradients[0]
    assert lost > 1.5 * alone.warmup_gradients.max()  # what was in vain is counted


def test_the_others_are_as_without_it():
    with pytest.warns(mj.SamplingWarning):
        result = run()
    for k in (1, 2):
        options = {"args": (-DEEP,), "draws": 100, "tune": 300, "seed": 1, "progress": False}
        alone = mj.run_chain(k, two_modes, STARTS, chains=3, **options)
        np.testing.assert_array_equal(result.draws[k], alone.draws[0])
    with pytest.warns(mj.SamplingWarning):
        once = run(starts=1)
    assert np.abs(once.draws[0] - FAR).max() < 10  # this one stays where it was
    assert not np.array_equal(result.draws[0], once.draws[0])
    with pytest.warns(mj.SamplingWarning):
        on_two = run(cores=2)
    np.testing.assert_array_equal(result.draws, on_two.draws)


def test_chains_in_modes_of_about_the_same_mass_stay():
    with pytest.warns(mj.SamplingWarning, match="The chains disagree"):
        result = run(minor=-3.0)
    assert np.abs(result.draws[0] - FAR).max() < 10


def ended(log_density, log_mass):
    starts = Starts(log_density=log_density, log_mass=log_mass)
    tuned = first_guess(Settings(), 2).replace(starts=starts)
    none = Rows.empty(0, 2)
    return ChainOutput(none, none, tuned=tuned)


@pytest.mark.parametrize(
    ("ends", "lost"),
    [
        ([(0, 0), (-40, -40)], {1: 0}),
        ([(-40, -40), (0, 0), (-41, -39)], {0: 1, 2: 1}),
        ([(0, 0), (-5, -5)], {}),  # one mode shows as much
        ([(40, -60), (0, 0)], {}),  # a narrow mode that is higher and has less mass: it is told
        ([(-40, 60), (0, 0)], {}),  # a wide one with more mass: nobody leaves it, or is drawn out
        ([(None, None), (-40, -40)], {}),  # too short a warm-up to tell
    ],
)
def test_a_chain_is_lost_if_density_and_mass_are_far_below_those_of_another(ends, lost):
    outputs = [ended(*end) for end in ends]
    assert lost_chains([task() for _ in ends], outputs) == lost


def task(**options):
    target = as_target(two_modes, 2, (-DEEP,))
    seed = np.random.SeedSequence(1)
    options = {"settings": Settings(), "draws": 10, "tune": 300} | options
    return ChainTask(target, seed=seed, region=Region.anywhere(2), **options)


@pytest.mark.parametrize(
    "options",
    [{"settings": Settings(starts=1)}, {"tuned": first_guess(Settings(), 2)}, {"draws": 0}],
)
def test_chains_stay_where_the_user_has_said_how_they_run(options):
    outputs = [ended(0, 0), ended(-40, -40)]
    assert lost_chains([task(**options), task(**options)], outputs) == {}


def test_the_others_are_kept_whole_where_it_is_cut_short(monkeypatch):
    usual, calls = lost.run_chains, []

    def cut(tasks, *, on_start, **how):
        calls.append(len(tasks))

        def start(runs):
            on_start(runs)
            for one in runs if len(calls) == 2 else ():
                one.abort()

        return usual(tasks, on_start=start, **how)

    monkeypatch.setattr(lost, "run_chains", cut)
    with pytest.warns(mj.SamplingWarning) as told:
        result = run()
    assert any("Interrupted: 100 draws, of 2 chains" in str(one.message) for one in told)
    assert calls == [3, 1]
    assert result.chains == [1, 2]
    assert result.draws.shape == (2, 100, 2)
    assert np.abs(result.draws).max() < 10


def test_chains_go_on_after_it():
    with pytest.warns(mj.SamplingWarning):
        result = run()
    with pytest.warns(mj.SamplingWarning):
        longer = run(draws=150)
    np.testing.assert_array_equal(result.extend(50).draws, longer.draws)


@pytest.mark.parametrize("n", [10, 100_000])
def test_memory_is_given_back_of_what_is_written_anew_alone(n):
    block = np.ones((3, n))
    forget(block[1])
    block[1] = 2.0
    np.testing.assert_array_equal(block, np.array([[1.0], [2.0], [1.0]]) * np.ones((1, n)))
