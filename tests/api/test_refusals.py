"""A table of bad input: each is refused with a typed error that says what it was."""

import numpy as np
import pytest
from numba import njit

import mjhmc_numba as mj
from tests.api.densities import SHORT, log_gamma, scaled_normal


@njit
def _vector(x, grad):
    grad[:] = -x
    return -0.5 * x[:1] * x[:1]


def _python_vector(x):
    return np.array([-0.5 * x @ x]), -x


TARGET, SETTINGS = mj.TargetError, mj.SettingsError

# density, arguments, error, words of its message
CASES = [
    (log_gamma, {"args": None}, TARGET, "args is a sequence"),
    (log_gamma, {"args": "abc"}, TARGET, "args is a sequence"),
    (scaled_normal, {"args": (np.ones(2, "f2"), 1.0)}, TARGET, "float16"),
    (log_gamma, {"draws": 10**400}, SETTINGS, "draws is beyond"),
    (log_gamma, {"tune": 10**400}, SETTINGS, "tune is beyond"),
    (log_gamma, {"chains": 10**400}, SETTINGS, "chains is beyond"),
    (log_gamma, {"chains": 10**9}, mj.MemoryRequestError, "GB"),
    (log_gamma, {"metric": ["a", "b"]}, SETTINGS, "metric is no array of numbers"),
    (log_gamma, {"metric": object()}, SETTINGS, "metric is no array of numbers"),
    (log_gamma, {"metric": "diagonal"}, SETTINGS, "metric="),
    (log_gamma, {"reparametrisation": np.ones(2)}, SETTINGS, "not an array"),
    (log_gamma, {"chart": np.ones(2)}, SETTINGS, "Unknown setting 'chart'"),
    (_vector, {}, TARGET, "does not compile"),
    (_python_vector, {}, TARGET, r"log density of shape \(1,\)"),
    (log_gamma, {"executor": "dask"}, SETTINGS, "no method `submit`"),
    (log_gamma, {"initial": np.ma.array([0.0, 1.0], mask=[0, 1])}, TARGET, "masked"),
    (log_gamma, {"initial": np.array([0.0, 1j])}, TARGET, "complex128"),
    (log_gamma, {"initial": np.array([True, False])}, TARGET, "dtype bool"),
    (log_gamma, {"names": "ab"}, TARGET, "sequence of strings"),
    (log_gamma, {"names": [1, 2]}, TARGET, "sequence of strings"),
    (log_gamma, {"settings": {}}, SETTINGS, "settings is a Settings"),
    (None, {}, TARGET, "not NoneType"),
    (log_gamma, {"ndim": 10**12}, TARGET, "beyond all machines"),
    *(
        (log_gamma, {name: value}, SETTINGS, name)
        for name in ("step_size", "num_steps", "refresh_rate", "draw_interval", "target_accept")
        for value in (-1, 0, np.nan, "many", [1.0])
    ),
    *(
        (log_gamma, {name: "something else"}, SETTINGS, name)
        for name in ("integrator", "rates", "clock", "metric", "reparametrisation")
    ),
    *(
        (log_gamma, {name: value}, SETTINGS, name)
        for name in ("draws", "tune", "chains", "cores")
        for value in (-1, 2.5, "many", True, np.nan, [3])
    ),
]


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")
@pytest.mark.parametrize(("density", "arguments", "error", "message"), CASES)
def test_bad_input_is_refused_by_name(density, arguments, error, message):
    given = {**SHORT, "seed": 1, **arguments}
    if "initial" not in given:
        given.setdefault("ndim", 2)
    with pytest.raises(error, match=message):
        mj.sample(density, **given)


def test_numbers_of_another_byte_order_are_taken():
    swapped, native = (
        mj.sample(
            scaled_normal,
            ndim=2,
            args=(np.arange(2.0).astype(order), 1.0),
            step_size=0.5,
            num_steps=2,
            refresh_rate=0.3,
            draw_interval=1.5,
            draws=5,
            tune=0,
            chains=1,
            seed=1,
            progress=False,
        )
        for order in (">f8", "<f8")
    )
    np.testing.assert_array_equal(swapped.draws, native.draws)
