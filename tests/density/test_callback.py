"""A Python function behind the C signature, and what becomes of its exceptions."""

import ctypes
import sys
import threading

import numpy as np
import pytest
from numpy.linalg import LinAlgError

import mjhmc_numba as mj
from mjhmc_numba.density.callback import KEPT_EXCEPTIONS, PythonDensity
from mjhmc_numba.density.signature import C_FUNCTION, NOT_FINITE, RAISED, SUCCESS, evaluate
from mjhmc_numba.density.table import ArrayTable
from mjhmc_numba.kernel.layout import DENSITY_RAISED, STAT_NAMES
from mjhmc_numba.process import Process, random_words
from mjhmc_numba.settings import Settings
from mjhmc_numba.warmup.first import first_guess


def ask(density, *x):
    return evaluate(density.address, np.array(x), ArrayTable(len(x)).entries)


def normal(x):
    if x[0] > 3:
        raise LinAlgError("not positive definite")
    if x[0] > 2:
        raise ArithmeticError(f"more than two: {x[0]}")
    return -0.5 * np.sum(x * x), -x


def test_log_density_and_gradient_arrive():
    code, logp, grad = ask(PythonDensity(normal, 2), 1.0, -1.0)
    assert (code, logp, grad.tolist()) == (SUCCESS, -1.0, [-1.0, 1.0])


def test_exceptions_are_kept_by_point():
    density = PythonDensity(normal, 1)
    assert ask(density, 2.25).code == RAISED
    assert ask(density, 2.5).code == RAISED
    assert "2.25" in str(density.error_at(np.array([2.25])))
    assert "2.5" in str(density.error_at(np.array([2.5])))
    assert density.error_at(np.array([1.0])) is None


def test_threads_find_their_own_exceptions():
    density, found = PythonDensity(normal, 1), {}

    def work(x):
        for _ in range(50):
            assert ask(density, x).code == RAISED
            found.setdefault(x, set()).add(str(density.error_at(np.array([x]))))

    threads = [threading.Thread(target=work, args=(x,)) for x in (2.125, 2.25, 2.5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {x: {f"more than two: {x}"} for x in (2.125, 2.25, 2.5)}


def test_few_exceptions_are_kept():
    density = PythonDensity(normal, 1)
    points = np.linspace(2.1, 2.9, KEPT_EXCEPTIONS + 1)
    for x in points:
        ask(density, x)
    assert density.error_at(points[:1]) is None
    assert density.error_at(points[1:2]) is not None


def test_what_is_called_a_rejection_means_not_finite():
    assert ask(PythonDensity(normal, 1), 4.0).code == RAISED
    rejecting = PythonDensity(normal, 1, rejections=(LinAlgError,))
    assert ask(rejecting, 4.0)[:2] == (NOT_FINITE, -np.inf)
    assert ask(rejecting, 2.5).code == RAISED


@pytest.mark.parametrize("check", [False, True])
def test_a_gradient_that_is_not_finite_is_noticed_on_request(check):
    density = PythonDensity(lambda x: (0.0, np.array([np.nan])), 1, check_finite=check)
    assert ask(density, 0.0).code == (NOT_FINITE if check else SUCCESS)


def test_a_function_that_is_not_reentrant_is_called_by_one_thread_at_a_time():
    inside, most = [], []

    def slow(x):
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.002)
        inside.pop()
        return 0.0, np.zeros(1)

    density = PythonDensity(slow, 1, lock=threading.Lock())
    threads = [
        threading.Thread(target=lambda: [ask(density, 0.0) for _ in range(10)]) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1


# ------------------------------------------------- callbacks that fail without a word


@pytest.fixture
def failing(monkeypatch):
    """A callback of ctypes that lets an exception out at its third call and later."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    calls = []

    def density(x, grad, logp, table):
        calls.append(1)
        if len(calls) > 2:
            raise ValueError("not caught")
        ctypes.c_double.from_address(grad).value = -ctypes.c_double.from_address(x).value
        ctypes.c_double.from_address(logp).value = 0.0
        return SUCCESS

    callback = C_FUNCTION(density)
    return ctypes.cast(callback, ctypes.c_void_p).value, callback


def test_a_callback_that_fails_without_a_word_has_raised(failing):
    """ctypes returns what lies on the stack then: here the code of the last call, SUCCESS."""
    target = mj.Target.from_address(failing[0], 1, keepalive=failing)
    assert target.logp_and_grad([0.5])[0] == 0.0
    assert target.logp_and_grad([0.5])[0] == 0.0
    for _ in range(3):
        with pytest.raises(mj.TargetError, match="raised an exception"):
            target.logp_and_grad([0.5])


def test_the_kernel_stops_at_a_callback_that_fails_without_a_word(failing):
    target = mj.Target.from_address(failing[0], 1, keepalive=failing)
    settings = Settings(step_size=0.1, num_steps=1, refresh_rate=0.5, draw_interval=5.0)
    rng = random_words(np.random.SeedSequence(1))
    process = Process(target, settings, first_guess(settings, 1), rng)
    process.start(np.array([0.5]))
    draws, stats = np.empty((5, 1)), np.empty((5, len(STAT_NAMES)))
    assert process.run(draws, stats)[1] == DENSITY_RAISED
    assert isinstance(process.error(), mj.TargetError)


@pytest.mark.parametrize("code", [0, 3, -1])
def test_a_code_that_is_none_means_raised(code):
    callback = C_FUNCTION(lambda x, grad, logp, table: code)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert evaluate(address, np.zeros(1), ArrayTable(1).entries).code == RAISED
