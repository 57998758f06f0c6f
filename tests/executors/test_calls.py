"""Calls on an executor: none is lost with another's worker."""

import multiprocessing
import time
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

import mjhmc_numba as mj
from mjhmc_numba.executors import Calls, check_executor
from mjhmc_numba.executors.calls import TRIES_ALONE
from tests.executors.callees import square_or_die


def pool(workers):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("forkserver"))


def collect(calls):
    values, errors = {}, {}
    while calls.waiting:
        for k, value, error in calls.ended(1.0):
            assert k not in values
            assert k not in errors
            if error is None:
                values[k] = value
            else:
                errors[k] = error
    calls.close()
    return values, errors


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("deaths", [1, TRIES_ALONE])
def test_calls_of_a_worker_that_dies_are_made_again(tmp_path, workers, deaths):
    with pool(workers) as executor:
        calls = Calls(executor, square_or_die, [(k, tmp_path, deaths) for k in range(8)])
        values, errors = collect(calls)
    assert values == {k: k**2 for k in range(8)}
    assert errors == {}
    assert 3 in calls.rerun
    assert len(calls.rerun) <= 2 * workers  # those that a broken pool may have been at
    assert len(list(tmp_path.iterdir())) == deaths


def test_a_call_that_always_kills_is_lost_alone_after_a_bounded_number_of_tries(tmp_path):
    with pool(2) as executor:
        calls = Calls(executor, square_or_die, [(k, tmp_path, 10**6) for k in range(8)])
        values, errors = collect(calls)
    assert values == {k: k**2 for k in range(8) if k != 3}
    assert list(errors) == [3]
    assert isinstance(errors[3], BrokenProcessPool)
    # Alone twice; in a shared pool once, or again if the first time another stood before it.
    assert TRIES_ALONE + 1 <= len(list(tmp_path.iterdir())) <= TRIES_ALONE + 2


def test_what_a_call_raises_is_its_own():
    with ThreadPoolExecutor(2) as executor:
        values, errors = collect(Calls(executor, divmod, [(7, 2), (7, 0)]))
    assert values == {0: (3, 1)}
    assert isinstance(errors[1], ZeroDivisionError)


def test_cancelling_cancels_what_has_not_begun():
    with ThreadPoolExecutor(1) as executor:
        calls = Calls(executor, time.sleep, [(0.2,), (100.0,), (100.0,)])
        time.sleep(0.05)
        calls.cancel()
        values, errors = collect(calls)
    assert values == {0: None}
    assert [type(error) for error in errors.values()] == [CancelledError, CancelledError]


class Broken:
    """An executor of another kind that is broken from the start."""

    def submit(self, function, *args):
        future = Future()
        future.set_exception(BrokenProcessPool("gone"))
        return future


def test_a_broken_executor_of_an_unknown_kind_gives_its_error():
    values, errors = collect(Calls(Broken(), abs, [(1,), (2,), (3,)]))
    assert values == {}
    assert sorted(errors) == [0, 1, 2]


@pytest.mark.parametrize("executor", ["dask", 4])
def test_what_takes_no_calls_is_refused(executor):
    check_executor(None)
    with pytest.raises(mj.SettingsError, match="has no method `submit`"):
        mj.sample(lambda x: (0.0, x), [0.0], executor=executor)
