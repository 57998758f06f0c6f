"""Dual averaging alone, on acceptance curves that are known."""

import math

import numpy as np
import pytest

from mjhmc_numba.warmup import step_size


def acceptance(step, scale):
    """Falls from 1 to 0 as the step grows, as that of an integrator of second order does."""
    return math.erfc((step / scale) ** 2)


def solve(target, scale):
    low, high = 1e-6 * scale, 1e3 * scale
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if acceptance(middle, scale) > target else (low, middle)
    return low


def tune(target, scale, begin, updates, noise=None):
    state = step_size.init(begin)
    for _ in range(updates):
        value = acceptance(math.exp(state.log_step), scale)
        if noise is not None:
            value = float(np.clip(value + noise(), 0, 1))
        state = step_size.update(state, value, target)
    return step_size.final(state)


@pytest.mark.parametrize("target", [0.6, 0.8, 0.9])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_it_converges_to_the_step_with_the_target_acceptance(target, scale):
    found = tune(target, scale, begin=2 * scale, updates=2000)
    assert found == pytest.approx(solve(target, scale), rel=0.05)


def test_it_forgets_where_it_began():
    found = [tune(0.8, 1.0, begin, updates=3000) for begin in (0.05, 1.0, 20.0)]
    assert max(found) / min(found) < 1.1


def test_noise_is_averaged_out(seeds):
    rng = np.random.default_rng(seeds(71))
    found = tune(0.8, 1.0, 1.0, 2000, noise=lambda: rng.uniform(-0.2, 0.2))
    assert found == pytest.approx(solve(0.8, 1.0), rel=0.15)


def test_it_knows_only_what_it_was_given():
    state = step_size.init(0.7)
    assert step_size.final(state) == pytest.approx(0.7)
    worse = step_size.update(state, 0.1, 0.8)
    better = step_size.update(state, 1.0, 0.8)
    assert worse.log_step < state.log_step < better.log_step
    assert state == step_size.init(0.7)  # a state is never changed in place
