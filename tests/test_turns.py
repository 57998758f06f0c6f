"""Chains take turns in Python, and give their turn away while compiled code runs."""

import pickle
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest

import mjhmc_numba as mj
from mjhmc_numba.run.tasks import LARGEST_IN_TURN
from mjhmc_numba.targets import standard_normal
from mjhmc_numba.turns import WORTH_A_TURN, Turn, away, away_for

pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")

PATIENCE = 20.0  # seconds until a test gives up: others use the machine too


def in_thread(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def is_free(one):
    """Whether another thread could have the turn now."""
    thread = in_thread(lambda: one.__enter__() or one.__exit__())
    thread.join(0.2)
    return not thread.is_alive()


def test_one_thread_at_a_time_has_its_turn():
    one, inside, most = Turn(), [], []

    def work():
        for _ in range(50):
            with one:
                inside.append(1)
                most.append(len(inside))
                time.sleep(1e-4)
                inside.pop()

    threads = [in_thread(work) for _ in range(4)]
    for thread in threads:
        thread.join(PATIENCE)
    assert len(most) == 200
    assert max(most) == 1


def test_away_lets_another_thread_go_first_and_takes_the_turn_back():
    one = Turn()
    with one:
        assert not is_free(one)
        with away():
            assert is_free(one)
        assert not is_free(one)
    assert is_free(one)


def test_away_is_nothing_where_this_thread_has_no_turn():
    one = Turn()
    with away():
        pass
    with one:
        thread = in_thread(lambda: away().__enter__())
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not is_free(one)


def test_a_density_may_sample_while_its_chain_is_away():
    outer, inner = Turn(), Turn()
    with outer, away():
        with inner, away():
            assert is_free(outer)
            assert is_free(inner)
        assert is_free(inner)
    assert is_free(outer)


def test_a_turn_ends_with_an_exception_away_from_it():
    one = Turn()
    with pytest.raises(ValueError, match="raised"), one, away():
        raise ValueError("raised")
    assert is_free(one)


def test_another_process_has_a_turn_of_its_own():
    one = Turn()
    with one:
        assert is_free(pickle.loads(pickle.dumps(one)))


def test_compiled_code_that_may_take_long_is_worth_a_turn():
    target = mj.as_target(standard_normal(2))
    assert not isinstance(away_for(target, 1), nullcontext)  # nothing is known of it yet
    mj.sample(target, draws=200, tune=0, chains=1, seed=1, progress=False)
    per_gradient = target.gradient_seconds
    assert 0 < per_gradient < WORTH_A_TURN
    assert isinstance(away_for(target, 0.5 * WORTH_A_TURN / per_gradient), nullcontext)
    assert not isinstance(away_for(target, 2 * WORTH_A_TURN / per_gradient), nullcontext)


@pytest.mark.parametrize("ndim", [2, LARGEST_IN_TURN + 1])
@pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")
def test_chains_are_in_a_slow_density_at_the_same_time(ndim):
    """At some of its calls, in the search for a start, the warm-up and after it, a chain waits
    until the other one is there too: in turn it would wait for ever.
    """
    together = threading.Barrier(2, timeout=PATIENCE)
    calls, met = {}, []

    def slow(x):
        mine = calls[threading.get_ident()] = calls.get(threading.get_ident(), 0) + 1
        time.sleep(2e-4)
        if mine in (1, 2, 40, 150):
            together.wait()
            met.append(mine)
        return -0.5 * x @ x, -x

    fixed = {"step_size": 0.5, "num_steps": 2, "refresh_rate": 0.5, "draw_interval": 5.0}
    mj.sample(
        slow,
        np.zeros((2, ndim)),
        draws=30,
        tune=30,
        chains=2,
        cores=2,
        seed=1,
        progress=False,
        check_gradient=False,
        **fixed,
    )
    assert sorted(met) == [1, 1, 2, 2, 40, 40, 150, 150]
