"""Bad starts and densities give a typed error that says where, or are sampled and counted.

What is refused before anything runs stands in `test_refusals.py`.
"""

import math
import time

import numpy as np
import pytest
from numba import njit

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.run import ChainRun
from tests.api.densities import (
    FIXED,
    QUIET,
    SHORT,
    half_normal,
    half_normal_bad_gradient,
    half_normal_inf,
    log_gamma,
    raises_beyond,
    scaled_gradient,
)
from tests.api.monte_carlo import assert_moments

# --- The start


@pytest.mark.parametrize(
    ("density", "what"),
    [
        (half_normal, "log density is nan"),
        (half_normal_inf, "log density is -inf"),
        (half_normal_bad_gradient, r"gradient is not finite in wind \(nan\), tide \(nan\)"),
    ],
)
def test_a_start_outside_the_support_is_named_with_its_value(density, what):
    with pytest.raises(mj.InitialPointError, match=what) as caught:
        mj.sample(density, [-1.25, 0.5], names=["wind", "tide"], **SHORT)
    assert "-1.25" in str(caught.value)


def test_a_start_that_is_not_finite_is_named():
    with pytest.raises(mj.InitialPointError, match="not finite: tide is nan"):
        mj.sample(log_gamma, [0.0, math.nan], names=["wind", "tide"], **SHORT)


@pytest.mark.parametrize("far", [1e76, -1e150])
def test_a_start_whose_squares_of_squares_are_not_finite_is_named(far):
    with pytest.raises(mj.InitialPointError, match="too far away: tide is"):
        mj.sample(targets.standard_normal(2), [0.0, far], names=["wind", "tide"], **SHORT)


def test_random_starts_that_all_fail_say_how_many_were_tried_and_what_to_do():
    @njit
    def nowhere(x, grad):
        return -np.inf

    with pytest.raises(mj.InitialPointError, match=r"random points in .*initial="):
        mj.sample(nowhere, ndim=2, **SHORT)


@pytest.mark.parametrize("check_gradient", [True, False])
def test_a_bad_start_of_a_later_chain_is_named_with_its_chain(check_gradient):
    starts = [[1.0, 0.0], [-1.0, 0.0]]
    with pytest.raises(mj.InitialPointError, match="log density is nan") as caught:
        mj.sample(half_normal, starts, check_gradient=check_gradient, **SHORT)
    assert any("chain 1" in note for note in caught.value.__notes__)


def test_random_starts_look_for_the_support():
    short_steps = FIXED | {"step_size": 0.05}
    result = mj.sample(half_normal_inf, ndim=1, seed=3, draws=2, chains=8, **short_steps)
    assert (result.draws > 0).all()


# --- The gradient


@pytest.mark.parametrize("ndim", [1, 5, 300])
def test_a_gradient_wrong_by_a_factor_is_reported_before_sampling(ndim):
    factor = np.full(ndim, 2.0)
    with pytest.raises(mj.GradientError, match="finite differences say") as caught:
        mj.sample(scaled_gradient, ndim=ndim, args=(factor,), seed=1, **SHORT)
    said, measured = [
        float(word.rstrip(".")) for word in str(caught.value).split() if _is_number(word)
    ]
    assert said == pytest.approx(2 * measured, rel=0.01)


def _is_number(word):
    try:
        float(word.rstrip("."))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(("ndim", "wrong"), [(5, 3), (300, 250)])
def test_the_dimension_with_ascaled_gradient_is_named(ndim, wrong):
    factor = np.ones(ndim)
    factor[wrong] = -1.0
    with pytest.raises(mj.GradientError, match=rf"In x\[{wrong}\] the density says"):
        mj.sample(scaled_gradient, ndim=ndim, args=(factor,), seed=1, **SHORT)


def test_the_check_of_the_gradient_can_be_turned_off():
    factor = np.full(2, 1.2)
    result = mj.sample(
        scaled_gradient, ndim=2, args=(factor,), check_gradient=False, draws=5, chains=1, **FIXED
    )
    assert np.isfinite(result.draws).all()


# --- Densities that are not finite everywhere


@pytest.mark.parametrize("density", [half_normal, half_normal_inf, half_normal_bad_gradient])
def test_a_half_space_without_density_is_sampled_correctly_and_counted(density, seeds):
    with pytest.warns(mj.SamplingWarning, match="met a divergence"):
        result = mj.sample(density, ndim=2, seed=seeds(131), draws=2000, tune=500, **QUIET)
    assert (result.draws[..., 0] > 0).all()
    assert result.stats["diverging"].any()
    assert_moments(result.draws, [math.sqrt(2 / math.pi), 0.0], [1 - 2 / math.pi, 1.0])


def test_an_infinite_density_is_never_entered():
    @njit
    def spike(x, grad):
        grad[0] = -x[0]
        return np.inf if x[0] < -1.0 else -0.5 * x[0] ** 2

    with pytest.warns(mj.SamplingWarning, match="met a divergence"):
        result = mj.sample(spike, initial=[0.5], seed=2, draws=300, chains=2, **FIXED)
    assert (result.draws >= -1).all()


# --- Densities that raise


def test_an_exception_of_a_compiled_density_arrives_with_its_message_and_the_draws():
    with pytest.raises(ValueError, match="the pump is dry") as caught:
        mj.sample(raises_beyond, [0.0], args=(3.2,), draws=100_000, chains=2, seed=1, **FIXED)
    result = caught.value.result
    assert any("Raised in chain" in note and "`result`" in note for note in caught.value.__notes__)
    assert 0 < result.draws.shape[1] < 100_000
    assert (result.draws <= 3.2).all()
    assert all(values.shape == result.draws.shape[:2] for values in result.stats.values())


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")
def test_the_draws_before_an_exception_are_those_of_a_run_without_one():
    options = {"seed": 1, "chains": 1, **FIXED}
    with pytest.raises(ValueError, match="the pump is dry") as caught:
        mj.sample(raises_beyond, [0.0], args=(3.2,), draws=100_000, **options)
    draws = caught.value.result.draws
    whole = mj.sample(raises_beyond, [0.0], args=(1e3,), draws=draws.shape[1], **options)
    np.testing.assert_array_equal(draws, whole.draws)


class DryPumpError(RuntimeError):
    """An exception of the user's own."""


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SlowDensityWarning")
def test_an_exception_of_a_python_density_is_the_very_object_that_it_raised():
    raised = []

    def density(x):
        if abs(x[0]) > 2.5:
            raised.append(DryPumpError("no water", x[0]))
            raise raised[-1]
        return -0.5 * x @ x, -x

    with pytest.raises(DryPumpError) as caught:
        mj.sample(density, [0.0], draws=100_000, chains=2, seed=1, **FIXED)
    assert any(caught.value is error for error in raised)
    assert caught.value.result.draws.shape[1] > 0


def raised_in_the_warm_up(**options):
    """The exception of a density that raises in a warm-up that would take long."""
    fixed = {"step_size": 0.5, "metric": [1.0], "chains": 1, "seed": 1, **QUIET}
    with pytest.raises(ValueError, match="the pump is dry") as caught:
        mj.sample(raises_beyond, [0.0], args=(3.2,), tune=100_000, **fixed, **options)
    return caught.value


def test_an_exception_in_the_warm_up_brings_what_was_drawn_of_it():
    error = raised_in_the_warm_up()
    result = error.result
    assert result.draws.shape[1] == 0
    made = result.warmup_draws.shape[1]
    assert made > 0
    assert np.isfinite(result.warmup_draws).all()
    assert any(f"after {made} of 100000 draws of its warm-up" in n for n in error.__notes__)


def test_an_exception_in_the_warm_up_brings_the_warm_up_on_request():
    result = raised_in_the_warm_up(draws=1, keep_warmup=True).result
    assert result.draws.shape == (1, 0, 1)
    assert 0 < result.warmup_draws.shape[1] < 100_000


def test_an_exception_at_the_first_draw_has_nothing_to_bring():
    with pytest.raises(ValueError, match="the pump is dry") as caught:
        mj.sample(raises_beyond, [0.0], args=(1e-6,), seed=1, check_gradient=False, **SHORT)
    assert caught.value.result is None


@njit
def _one_point(x, grad):
    grad[:] = 0.0
    return 0.0 if np.all(x == 1.0) else -np.inf


@pytest.mark.parametrize("options", [{"tune": 150}, FIXED], ids=["tuned", "fixed"])
def test_a_chain_that_cannot_move_raises_with_its_number(options):
    with pytest.raises(mj.StuckError, match="did not move once in 1") as caught:
        mj.sample(_one_point, np.ones(2), draws=120, chains=1, **{**QUIET, **options})
    assert any("chain 0" in note for note in caught.value.__notes__)
    assert caught.value.result is not None


def test_a_chain_that_cannot_even_begin_keeps_nobody_waiting(monkeypatch):
    def make_room(self):
        raise MemoryError("no room for chain 0")

    monkeypatch.setattr(ChainRun, "make_room", make_room)
    with pytest.raises(MemoryError, match="no room for chain 0"):
        mj.sample(_one_point, np.ones(2), draws=20, chains=2, **QUIET)


def test_after_a_chain_that_fails_no_other_begins(monkeypatch):
    begun, begin = [], ChainRun._begin

    def note(self):
        begun.append(self.task.number)
        begin(self)

    monkeypatch.setattr(ChainRun, "_begin", note)
    with pytest.raises(mj.StuckError):
        mj.sample(_one_point, np.ones(2), draws=120, chains=3, cores=1, **{**QUIET, **FIXED})
    assert begun == [0]


def test_an_exception_at_the_start_arrives():
    with pytest.raises(ValueError, match="the pump is dry"):
        mj.sample(raises_beyond, [2.0], args=(1.0,), **SHORT)


# --- Targets that cannot be sampled, and starts from afar


@njit
def _flat(x, grad):
    grad[:] = 0.0
    return 0.0


@njit
def _flat_in_one(x, grad):
    grad[0] = -x[0]
    grad[1] = 0.0
    return -0.5 * x[0] ** 2


@njit
def _rising(x, grad):
    grad[:] = 1.0
    return np.sum(x)


@pytest.mark.parametrize("chains", [1, 4])
@pytest.mark.parametrize(
    ("density", "message"),
    [
        (_flat, r"does not depend on x\[0\], x\[1\]"),
        (_flat_in_one, r"does not depend on x\[1\]:"),
        (_rising, r"disagree in x\[0\], x\[1\]"),
    ],
)
def test_a_density_without_a_finite_integral_is_warned_of(density, message, chains):
    with pytest.warns(mj.SamplingWarning, match=message):
        mj.sample(density, ndim=2, draws=200, chains=chains, seed=1, **{**FIXED, "num_steps": 5})


@pytest.mark.parametrize("density", [_flat, _flat_in_one, _rising])
def test_a_density_without_a_finite_integral_is_tuned_without_a_hang(density):
    with pytest.warns(mj.SamplingWarning) as caught:
        mj.sample(
            density, ndim=2, draws=100, tune=200, chains=2, seed=1, max_gradients=2000, **QUIET
        )
    assert any("finite integral" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("rates", ["sqrt", "metropolis"])
def test_a_start_a_million_standard_deviations_away_comes_back(rates):
    began = time.monotonic()
    result = mj.sample(
        targets.standard_normal(3), np.full(3, 1e6), rates=rates, chains=2, seed=1, **QUIET
    )
    assert time.monotonic() - began < 10
    assert np.abs(result.draws).max() < 10
