"""A density in each of its forms becomes the one that the kernel calls."""

import gc
import warnings
import weakref

import numpy as np
import pytest
from numba import njit
from numba.core import event

import mjhmc_numba as mj
from mjhmc_numba import targets
from tests.api.densities import FIXED, SHORT, log_gamma, log_gamma_in_python, scaled_normal
from tests.api.monte_carlo import assert_moments
from tests.same_bits import assert_same_stats

# Runs are short here; whether their draws can be trusted is asserted elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")


def compilations(action):
    """How often Numba compiles anything while `action` runs."""
    with event.install_recorder("numba:compile") as recorder:
        action()
    return len(recorder.buffer)


def test_new_data_needs_no_compilation():
    def run(mean, scale):
        options = {**FIXED, "draws": 20, "chains": 1, "seed": 1}
        return mj.sample(scaled_normal, ndim=mean.size, args=(mean, scale), **options)

    first = run(np.zeros(3), 1.0)
    assert compilations(lambda: run(np.ones(3), 2.0)) == 0
    assert compilations(lambda: run(np.zeros(5), 1.0)) == 0
    assert (run(np.ones(3), 2.0).draws != first.draws).any()


def test_a_new_density_compiles_itself_and_not_the_kernel():
    mj.sample(log_gamma, ndim=2, **SHORT)

    @njit
    def another(x, grad):
        grad[:] = -x
        return -0.5 * np.sum(x * x)

    with event.install_recorder("numba:compile") as recorder:
        mj.sample(another, ndim=2, **SHORT)
    compiled = {str(entry.data["dispatcher"].py_func.__module__) for _, entry in recorder.buffer}
    assert compiled
    assert not any(name.startswith("mjhmc_numba.kernel") for name in compiled)


def test_the_data_reach_the_density(seeds):
    mean, scale = np.array([3.0, -1.0]), 0.5
    result = mj.sample(
        scaled_normal, ndim=2, args=(mean, scale), seed=seeds(132), draws=500, progress=False
    )
    assert_moments(result.draws, mean, scale**2)


def test_the_data_are_copied():
    mean = np.zeros(2)
    target = mj.as_target(scaled_normal, 2, (mean, 1.0))
    before = target.logp_and_grad([1.0, 1.0])[0]
    mean[:] = 10.0
    assert target.logp_and_grad([1.0, 1.0])[0] == before


def test_arguments_of_every_shape_and_kind_arrive():
    @njit
    def density(x, grad, cube, index, flag, column):
        grad[0] = 0.0
        return cube[1, 2, 3] + 10 * index + (100 if flag else 0) + 1000 * column[1]

    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    column = np.array([[1, 2], [3, 4]], dtype=np.int32)[:, 0]  # not contiguous
    target = mj.as_target(density, 1, (cube, 7, True, column))
    assert target.logp_and_grad([0.0])[0] == 23 + 70 + 100 + 3000


def test_a_density_may_have_more_arguments_than_a_plain_call_holds():
    """From 31 on Python passes them by other instructions, which Numba knows in few places."""
    names = [f"a{k}" for k in range(40)]
    text = f"def density(x, grad, {', '.join(names)}):\n    grad[0] = 0.0\n"
    text += f"    return {' + '.join(f'{name}[0]' for name in names)}\n"
    scope = {}
    exec(text, scope)
    target = mj.as_target(njit(scope["density"]), 1, [np.array([float(k)]) for k in range(40)])
    assert target.logp_and_grad([0.0])[0] == sum(range(40))


def test_a_python_density_makes_the_same_draws_and_is_warned_of_once():
    options = {**SHORT, "seed": 9}
    fast = mj.sample(log_gamma, ndim=2, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        slow = mj.sample(log_gamma_in_python, ndim=2, **options)
    assert [warning.category for warning in caught] == [mj.SlowDensityWarning]
    assert "log_gamma_in_python" in str(caught[0].message)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(slow.draws, fast.draws)
    assert_same_stats(slow.stats, fast.stats)


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")
def test_a_python_density_gets_its_arguments_and_a_point_of_its_own():
    seen = []

    def density(x, shift):
        seen.append(x)
        return -0.5 * np.sum((x - shift) ** 2), shift - x

    result = mj.sample(density, [1.0], args=(1.0,), draws=20, chains=1, seed=1, **FIXED)
    assert len({id(x) for x in seen}) == len(seen)
    assert abs(result.draws.mean() - 1.0) < 2


def test_a_distribution_brings_its_dimensions_and_arrays():
    distribution = targets.gaussian([1.0, 2.0], mean=[3.0, 4.0])
    target = mj.as_target(distribution)
    assert target.ndim == 2
    logp, grad = target.logp_and_grad([4.0, 4.0])
    expected_logp, expected_grad = distribution.logp_and_grad([4.0, 4.0])
    assert logp == expected_logp
    np.testing.assert_array_equal(grad, expected_grad)


def test_a_target_is_used_as_it_is():
    target = mj.as_target(log_gamma, 2)
    assert mj.as_target(target) is target
    assert compilations(lambda: mj.sample(target, seed=1, draws=5, chains=1, **FIXED)) == 0


def test_a_target_from_an_address_needs_no_compilation_and_cannot_be_sent():
    made = mj.as_target(log_gamma, 2)
    target = mj.Target.from_address(made.address, 2, table=made.table, keepalive=made)
    result = mj.sample(target, seed=1, draws=5, chains=1, **FIXED)
    same = mj.sample(log_gamma, ndim=2, seed=1, draws=5, chains=1, **FIXED)
    np.testing.assert_array_equal(result.draws, same.draws)
    with pytest.raises(TypeError, match="cannot be pickled"):
        target.__reduce__()


def small_density():
    @njit
    def density(x, grad, scale):
        grad[:] = -x / scale
        return -0.5 * np.sum(x * x) / scale

    return density


def test_a_density_that_nobody_needs_is_released():
    density = small_density()
    alive = weakref.ref(density)
    target = mj.as_target(density, 2, (1.0,))
    assert target.logp_and_grad([1.0, 1.0])[0] == -1.0
    del density
    gc.collect()
    assert alive() is not None  # the target needs it
    assert target.logp_and_grad([1.0, 1.0])[0] == -1.0
    del target
    gc.collect()
    assert alive() is None


def test_machine_code_is_kept_as_long_as_the_density():
    density = small_density()
    address = mj.as_target(density, 2, (1.0,)).address
    gc.collect()
    assert compilations(lambda: mj.as_target(density, 3, (2.0,))) == 0
    assert mj.as_target(density, 3, (2.0,)).address == address
