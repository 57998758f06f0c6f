import numpy as np
import pytest

from examples.paper import samplers
from mjhmc_numba import targets


@pytest.mark.parametrize("n", [50, 1000, 200_000])
def test_autocovariances_are_the_mean_products(seeds, n):
    series = np.random.default_rng(seeds(n)).standard_normal((2, n, 3)).cumsum(axis=1)
    expected = [np.mean(series[:, : n - lag] * series[:, lag:]) for lag in range(20)]
    np.testing.assert_allclose(samplers.autocovariance(series, 19), expected, rtol=1e-9)


def test_the_integrated_time_of_an_autoregression_is_found(seeds):
    rng, phi = np.random.default_rng(seeds(1)), 0.9
    x = rng.standard_normal((1, 200_000, 1))
    for t in range(1, x.shape[1]):
        x[0, t] = phi * x[0, t - 1] + np.sqrt(1 - phi**2) * x[0, t]
    tau, last = samplers.integrated_time(samplers.autocovariance(x, 5000))
    exact = (1 + phi) / (1 - phi)
    assert abs(tau / exact - 1) < 5 * np.sqrt(2 * (2 * last + 1) / x.shape[1])


def test_a_corruption_fraction_is_a_rate_of_refreshes():
    assert samplers.refresh_rate(0.012314) == pytest.approx(0.00620, abs=1e-5)
    assert samplers.refresh_probability(0.429956) == pytest.approx(0.281, abs=1e-3)


def test_a_run_takes_about_the_gradients_it_was_asked_for():
    target = targets.rough_well()
    run = samplers.paper_mjhmc(
        target, step_size=0.6, num_steps=25, rate=0.1, gradients=400_000, draws=1000, seed=3
    )
    assert run.gradients == pytest.approx(400_000, rel=0.3)
    assert run.gradients == run.steps.sum()
