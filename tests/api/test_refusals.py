"""A table of bad input: each is refused with a typed error that says what it was."""

import numpy as np
import pytest
from numba import njit

import mjhmc_numba as mj
from mjhmc_numba import targets
from tests.api.densities import FIXED, SHORT, log_gamma, raises_beyond, scaled_normal


@njit
def _vector(x, grad):
    grad[:] = -x
    return -0.5 * x[:1] * x[:1]


@njit
def _one_argument(x):
    return -0.5 * np.sum(x * x), -x


@njit
def _pair(x, grad):
    return -0.5 * np.sum(x * x), -x


def _returning(value):
    """A density in Python that returns always the same."""
    return lambda x: value


TARGET, SETTINGS, MEMORY = mj.TargetError, mj.SettingsError, mj.MemoryRequestError

# density, arguments, error, words of its message
CASES = [
    # What is no density.
    (None, {}, TARGET, "not NoneType"),
    ("normal", {}, TARGET, "not str"),
    (_vector, {}, TARGET, r"does not compile as \(x, grad\) -> logp"),
    (_one_argument, {}, TARGET, r"does not compile as \(x, grad\) -> logp"),
    (_pair, {}, TARGET, r"does not compile as \(x, grad\) -> logp"),
    (_returning((np.zeros(1), np.zeros(2))), {}, TARGET, r"log density of shape \(1,\)"),
    (
        _returning((0.0, np.zeros(3))),
        {},
        TARGET,
        r"gradient of shape \(3,\) for a point of shape \(2,\)",
    ),
    (_returning((0.0, 0.0)), {}, TARGET, r"gradient of shape \(\)"),
    (_returning(0.0), {}, TARGET, r"returns \(logp, grad\), not float"),
    # Its arguments.
    (log_gamma, {"args": None}, TARGET, "args is a sequence"),
    (log_gamma, {"args": "abc"}, TARGET, "args is a sequence"),
    (log_gamma, {"args": (1.0,)}, TARGET, "1 extra arguments"),
    (scaled_normal, {"args": (np.ones(2, "f2"), 1.0)}, TARGET, "float16"),
    *(
        (raises_beyond, {"args": (1.0, value)}, TARGET, r"args\[1\] has dtype")
        for value in ("text", None, 1j, [object()])
    ),
    # Shapes, starts and names.
    (log_gamma, {"ndim": None}, TARGET, "How many dimensions"),
    (log_gamma, {"ndim": 0}, TARGET, "ndim is a whole number >= 1, not 0"),
    (log_gamma, {"ndim": -1}, TARGET, "not -1"),
    (log_gamma, {"ndim": 2.5}, TARGET, "not 2.5"),
    (log_gamma, {"ndim": 10**12}, TARGET, "beyond all machines"),
    (log_gamma, {"initial": 1.0}, TARGET, r"shape \(d,\) or \(chains, d\), not \(\)"),
    (log_gamma, {"initial": []}, TARGET, r"not \(0,\)"),
    (log_gamma, {"initial": np.zeros((2, 3, 4))}, TARGET, r"not \(2, 3, 4\)"),
    (log_gamma, {"initial": np.zeros((3, 2))}, TARGET, "3 rows for 2 chains"),
    (log_gamma, {"initial": np.zeros(2), "ndim": 3}, TARGET, "2 dimensions, but ndim=3"),
    (log_gamma, {"initial": ["a", "b"]}, TARGET, "no array of numbers"),
    (log_gamma, {"initial": [[1.0], [1.0, 2.0]]}, TARGET, "no array of numbers"),
    (log_gamma, {"initial": np.ma.array([0.0, 1.0], mask=[0, 1])}, TARGET, "masked"),
    (log_gamma, {"initial": np.array([0.0, 1j])}, TARGET, "complex128"),
    (log_gamma, {"initial": np.array([True, False])}, TARGET, "dtype bool"),
    (log_gamma, {"names": ["a"]}, TARGET, "1 names for 2 dimensions"),
    (log_gamma, {"names": "ab"}, TARGET, "sequence of strings"),
    (log_gamma, {"names": [1, 2]}, TARGET, "sequence of strings"),
    (log_gamma, {"spread": 1.0}, SETTINGS, "give that too"),
    *(
        (
            log_gamma,
            {"initial": np.zeros(2), "spread": value},
            SETTINGS,
            f"is a distance, not {said}",
        )
        for value, said in ((-1.0, "-1"), (np.nan, "nan"), ("some", "'some'"))
    ),
    # Counts, seeds and memory.
    *(
        (log_gamma, {name: value}, SETTINGS, f"{name} is a whole number")
        for name in ("draws", "tune", "chains", "cores")
        for value in (-1, 2.5, "many", True, np.nan, [3])
    ),
    *(
        (log_gamma, {name: 10**400}, SETTINGS, f"{name} is beyond")
        for name in ("draws", "tune", "chains")
    ),
    *((log_gamma, {"seed": seed}, SETTINGS, "seed=") for seed in (-1, "dice", 1.5)),
    (log_gamma, {"chains": 10**9}, MEMORY, "GB"),
    (log_gamma, {"ndim": 100, "draws": 10**9}, MEMORY, r"take \d+\.\d GB; this machine has"),
    # Settings.
    *(
        (log_gamma, {name: value}, SETTINGS, name)
        for name in ("step_size", "num_steps", "refresh_rate", "draw_interval", "target_accept")
        for value in (-1, 0, np.nan, np.inf, "many", [1.0], True, 1j)
    ),
    *(
        (log_gamma, {name: value}, SETTINGS, name)
        for name in ("refresh_alpha", "refresh_jitter", "step_jitter")
        for value in (-0.1, 1.0, np.nan, "some", False)
    ),
    *(
        (log_gamma, {name: value}, SETTINGS, name)
        for name in ("max_jumps", "max_gradients")
        for value in (0, -1, 2.5, None, True, 10**30)
    ),
    *((log_gamma, {"refine_levels": v}, SETTINGS, "refine_levels") for v in (-1, 2.5, 17, True)),
    *((log_gamma, {"refine_threshold": v}, SETTINGS, "threshold") for v in (-1, 0, np.nan, "a")),
    *((log_gamma, {"rates_bound": v}, SETTINGS, "rates_bound") for v in (-1, 0, np.nan, 2.0)),
    (log_gamma, {"num_steps": 10**30}, SETTINGS, "num_steps is beyond"),
    (log_gamma, {"rates": 5}, SETTINGS, "rates is a name or a function"),
    (log_gamma, {"rates": "sqrt", "clock": "regular"}, SETTINGS, "needs bounded rates"),
    (log_gamma, {"rates": "sqrt", "method": "thinning"}, SETTINGS, "needs bounded rates"),
    (log_gamma, {"method": "competing", "clock": "regular"}, SETTINGS, "leave out clock="),
    (log_gamma, {"jumps": True, "clock": "regular"}, SETTINGS, "clock='poisson'"),
    (log_gamma, {"jumps": True, "method": "thinning"}, SETTINGS, "method='competing'"),
    (log_gamma, {"integrator": np.array(["leapfrog"])}, SETTINGS, "integrator="),
    (log_gamma, {"metric": np.ones(3)}, SETTINGS, "3 dimensions, the density 2"),
    (log_gamma, {"metric": np.array([1 + 1j, 1])}, SETTINGS, "complex128"),
    (log_gamma, {"metric": np.array([True, True])}, SETTINGS, "bool"),
    *(
        (log_gamma, {"metric": np.array(values)}, SETTINGS, "metric|variances|matrix|scale")
        for values in ([-1.0, 1.0], [0.0, 1.0], [np.nan, 1.0], [np.inf, 1.0], [[1.0, 2], [2, 1]])
    ),
    *((log_gamma, {"chain": value}, SETTINGS, "A chain is") for value in (2, -1, "a", 1.0, True)),
    (log_gamma, {"chain": 0, "seed": None}, SETTINGS, "need the same seed"),
    *((log_gamma, {"seed": value}, SETTINGS, "seed=") for value in (object(), -5, [-1], [1.5])),
    *((log_gamma, {"warmup": value}, SETTINGS, "warmup") for value in ("some", None, 1)),
    (log_gamma, {"warm_start": "a result"}, SETTINGS, "warm_start"),
    (log_gamma, {"settings": mj.Settings(), "step_size": 1.0}, SETTINGS, "not both"),
    *((log_gamma, {"checkpoint": "c", "every": v}, SETTINGS, "every is") for v in (-1, "a")),
    *((log_gamma, {"args": value}, TARGET, "args is a sequence") for value in (5, 1.0, {1: 2})),
    (log_gamma, {"names": 5}, TARGET, "sequence of strings"),
    (log_gamma, {"initial": [1e308, np.inf]}, mj.InitialPointError, "not finite"),
    *((log_gamma, {"initial": v}, TARGET, "initial|array") for v in ("ab", [None, None], object())),
    (lambda x: ("a", x), {}, TARGET, "log density that is no number"),
    (lambda x: (None, x), {}, TARGET, "log density that is no number"),
    (lambda x: (1j, x), {}, TARGET, "complex"),
    (lambda x: (0.0, ["a", "b"]), {}, TARGET, "gradient that is no number"),
    (lambda x: (0.0, 1j * x), {}, TARGET, "complex"),
    (lambda x: (1.0, 2.0, 3.0), {}, TARGET, r"returns \(logp, grad\)"),
    *(
        (log_gamma, {name: "something else"}, SETTINGS, name)
        for name in ("integrator", "rates", "clock", "metric", "reparametrisation")
    ),
    (log_gamma, {"metric": ["a", "b"]}, SETTINGS, "metric is no array of numbers"),
    (log_gamma, {"metric": object()}, SETTINGS, "metric is no array of numbers"),
    (log_gamma, {"metric": "diagonal"}, SETTINGS, "metric="),
    (log_gamma, {"reparametrisation": np.ones(2)}, SETTINGS, "not an array"),
    (log_gamma, {"chart": np.ones(2)}, SETTINGS, "Unknown setting 'chart'"),
    (log_gamma, {"settings": {}}, SETTINGS, "settings is a Settings"),
    (log_gamma, {"executor": "dask"}, SETTINGS, "no method `submit`"),
]


def test_there_are_more_than_120_cases():
    assert len(CASES) > 120


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")
@pytest.mark.parametrize(("density", "arguments", "error", "message"), CASES)
def test_bad_input_is_refused_by_name(density, arguments, error, message):
    given = {**SHORT, "seed": 1, **arguments}
    if "initial" not in given:
        given.setdefault("ndim", 2)
    with pytest.raises(error, match=message):
        mj.sample(density, **given)


@pytest.mark.parametrize("arguments", [{"ndim": 4}, {"initial": np.zeros(4)}])
@pytest.mark.parametrize("as_it_is", [True, False])
def test_a_number_of_dimensions_that_is_not_the_targets_is_refused(arguments, as_it_is):
    target = targets.standard_normal(3)
    with pytest.raises(mj.TargetError, match=r"4 .*3"):
        mj.sample(target if as_it_is else mj.as_target(target), **arguments, **SHORT)


@pytest.mark.parametrize("arguments", [{"args": (1.0,)}, {"names": ["a", "b"]}])
def test_a_target_takes_no_new_args_or_names(arguments):
    with pytest.raises(mj.TargetError, match="has its args and names already"):
        mj.sample(mj.as_target(log_gamma, 2), **arguments, **SHORT)


@pytest.mark.parametrize("point", [np.zeros(3), np.zeros((2, 1)), 0.0])
def test_a_point_of_the_wrong_shape_is_refused(point):
    with pytest.raises(mj.TargetError, match=r"shape \(2,\)"):
        mj.as_target(log_gamma, 2).logp_and_grad(point)


def test_numbers_of_another_byte_order_are_taken():
    swapped, native = (
        mj.sample(
            scaled_normal,
            ndim=2,
            args=(np.arange(2.0).astype(order), 1.0),
            draws=5,
            chains=1,
            seed=1,
            **FIXED,
        )
        for order in (">f8", "<f8")
    )
    np.testing.assert_array_equal(swapped.draws, native.draws)
