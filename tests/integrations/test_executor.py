"""Chains of a PyMC model on an executor: the same bits."""

import multiprocessing
import pickle
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import mjhmc_numba as mj
import mjhmc_numba.pymc as mp
from mjhmc_numba.executors import Shipped
from tests.integrations import models
from tests.integrations.chains import SMALL
from tests.same_bits import TIMINGS

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
    pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning"),
]


class Parcels(ThreadPoolExecutor):
    """Threads that get all they call as pickled bytes, as other processes do."""

    def submit(self, function, *args):
        return super().submit(open_and_call, pickle.dumps((function, args)))


def open_and_call(data):
    function, args = pickle.loads(data)
    return function(*args)


@pytest.fixture(scope="module")
def compiled():
    return mp.compile(models.regression())


@pytest.fixture(scope="module")
def here(compiled):
    return compiled.sample(**SMALL, discard_tuned_samples=False)


def assert_same(there, here):
    for group in ("posterior", "warmup_posterior", "sample_stats"):
        assert set(there[group].data_vars) == set(here[group].data_vars)
        for name, values in here[group].data_vars.items():
            if name not in TIMINGS:
                np.testing.assert_array_equal(there[group][name], values, name)


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, Parcels])
def test_draws_on_an_executor_are_those_of_threads(compiled, here, kind):
    with kind(2) as executor:
        there = compiled.sample(**SMALL, discard_tuned_samples=False, executor=executor)
    assert_same(there, here)


def test_sample_takes_an_executor(compiled, here):
    with ThreadPoolExecutor(2) as executor:
        there = mp.sample(
            model=compiled.density.model, **SMALL, discard_tuned_samples=False, executor=executor
        )
    assert_same(there, here)


def test_a_worker_compiles_a_model_once(compiled):
    target = compiled.density.snapshot().target()
    one, other = (pickle.loads(pickle.dumps(Shipped(target))).value for _ in range(2))
    assert one is other
    assert one is not target
    x = np.linspace(-1.0, 1.0, target.ndim)
    np.testing.assert_array_equal(one.logp_and_grad(x)[1], target.logp_and_grad(x)[1])


def test_a_run_in_the_background_is_looked_into_and_aborted(compiled):
    with ThreadPoolExecutor(1) as executor:
        options = SMALL | {"draws": 3_000_000, "chains": 2}
        sampling = compiled.sample(**options, blocking=False, executor=executor)
        time.sleep(0.3)
        assert not sampling.is_finished
        assert sampling.inspect() is None
        began = time.monotonic()
        data = sampling.abort()
    assert time.monotonic() - began < 10
    assert sampling.is_finished
    assert data is None or 0 < data["posterior"].sizes["draw"] < 3_000_000


def test_what_takes_no_calls_is_refused(compiled):
    with pytest.raises(mj.SettingsError, match="has no method `submit`"):
        compiled.sample(**SMALL, executor="dask")


@pytest.mark.long
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_draws_in_other_processes_are_those_of_threads(compiled, here, start):
    with ProcessPoolExecutor(2, multiprocessing.get_context(start)) as executor:
        there = compiled.sample(**SMALL, discard_tuned_samples=False, executor=executor)
    assert_same(there, here)


def test_chains_that_ran_apart_are_those_of_one_run(compiled, here):
    options = SMALL | {"discard_tuned_samples": False}
    apart = [compiled.sample(**options, chain=k) for k in (2, 0, 1)]
    assert [data["posterior"]["chain"].values.tolist() for data in apart] == [[2], [0], [1]]
    data = mj.combine(apart)
    assert_same(data, here)
    assert "observed_data" in data
    for name in ("reparametrisation_parents", "step_size"):
        assert list(data["posterior"].attrs[name]) == list(here["posterior"].attrs[name])
    with pytest.raises(mj.SettingsError, match="need the same seed"):
        compiled.sample(**SMALL | {"random_seed": None}, chain=1)


def test_a_pooled_warm_up_serves_models_too(compiled):
    options = SMALL | {"chains": 5, "warmup": "pooled"}
    data = compiled.sample(**options)
    assert len(set(data["posterior"].attrs["step_size"])) == 1
    with Parcels(2) as executor:
        there = compiled.sample(**options, executor=executor)
    np.testing.assert_array_equal(there["posterior"]["beta"], data["posterior"]["beta"])
