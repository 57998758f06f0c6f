import math

import numpy as np
import pytest

from mjhmc_numba import Reparametrisation, sample, targets
from mjhmc_numba.estimates import EstimateError, estimate
from tests.estimates.known import COVARIANCE, TARGETS, exact_chains


def chains_of(name, seed, draws=500, stay=0.0):
    target = TARGETS[name]()
    return target, *exact_chains(target, np.random.default_rng(seed), 4, draws, stay)


def test_on_a_gaussian_means_and_variances_are_exact(seeds):
    target, x, g = chains_of("correlated_gaussian", seeds(31))
    found = estimate(x, g, covariances=True)
    np.testing.assert_allclose(found.mean, target.mean, atol=1e-8)
    np.testing.assert_allclose(found.sd, np.sqrt(target.variance), rtol=1e-7)
    np.testing.assert_allclose(found.covariance, COVARIANCE, atol=1e-7)
    assert found.gain.min() > 1e6


@pytest.mark.parametrize("stay", [0.0, 0.6])
def test_estimates_are_right_and_sharper_than_averages(stay, seeds):
    target, x, g = chains_of("log_gamma_10", seeds(32, int(10 * stay)), stay=stay)
    found = estimate(x, g)
    plain = np.abs(x.mean(axis=(0, 1)) - target.mean)
    sharp = np.abs(found.mean - target.mean)
    assert np.max(sharp / found.mcse_mean) < 5
    assert np.max(np.abs(found.sd - np.sqrt(target.variance)) / found.mcse_sd) < 5
    assert np.sqrt(np.mean(plain**2)) > 4 * np.sqrt(np.mean(sharp**2))
    assert np.median(found.gain) > 30


def test_covariances_have_errors_that_hold(seeds):
    target, x, g = chains_of("banana", seeds(33))
    found = estimate(x, g, covariances=True)
    exact = np.diag(target.variance)
    assert np.max(np.abs(found.covariance - exact) / found.mcse_covariance) < 5
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), found.sd)


def test_truth_values_give_probabilities_and_functions_any_expectation(seeds):
    _, x, g = chains_of("log_gamma_3", seeds(34))
    found = estimate(
        x,
        g,
        {
            "first": lambda x: x[..., 0] < 0,
            "gamma": lambda x: np.exp(x),
            "pair": x[..., :2].reshape(4, 500, 2, 1),
        },
    )
    assert found.names[:2] == ["first", "gamma[0]"]
    assert found.names[-1] == "pair[1, 0]"
    below = 1 - math.exp(-1)  # e^x is exponential
    assert abs(found["first"]["mean"] - below) < 5 * found["first"]["mcse_mean"]
    assert found["first"]["sd"] == pytest.approx(math.sqrt(below * (1 - below)), rel=0.02)
    # The gradient is a - e^x: a linear feature is all that is needed.
    assert found["gamma[2]"]["mean"] == pytest.approx(5.0, abs=1e-8)


def test_where_nothing_helps_the_plain_average_is_returned(seeds):
    _, x, g = chains_of("rough_well", seeds(35))
    noise = np.random.default_rng(seeds(36)).normal(size=(4, 500, 8))
    found = estimate(x, g, {"noise": noise})
    plain = found.gain == 1
    assert plain.any()
    np.testing.assert_allclose(found.mean[plain], noise.mean(axis=(0, 1))[plain], atol=1e-15)
    assert found.gain.min() == 1
    assert found.gain.max() < 1.1


def test_what_does_not_vary_has_no_error_and_what_is_not_finite_is_noted(seeds):
    _, x, g = chains_of("log_gamma_3", seeds(37))
    wrong = x[..., 0].copy()
    wrong[1, 7] = np.nan
    found = estimate(x, g, {"three": np.full(x.shape[:2], 3.0), "wrong": wrong})
    assert found["three"] == {
        "mean": 3.0,
        "sd": 0.0,
        "mcse_mean": 0.0,
        "mcse_sd": 0.0,
        "gain": 1.0,
        "gain_sd": 1.0,
        "ess": 2000.0,
    }
    assert math.isnan(found["wrong"]["mean"])
    assert "not finite" in found.notes["wrong"]


@pytest.mark.parametrize("chains", [1, 2, 3, 7])
def test_any_number_of_chains_will_do(chains, seeds):
    target = TARGETS["log_gamma_3"]()
    x, g = exact_chains(target, np.random.default_rng(seeds(38, chains)), chains, 600)
    found = estimate(x, g)
    assert np.max(np.abs(found.mean - target.mean) / found.mcse_mean) < 5
    assert np.median(found.gain) > 50


def test_gradients_come_from_the_density_if_not_given(seeds):
    target, x, g = chains_of("log_gamma_3", seeds(39))
    np.testing.assert_array_equal(estimate(x, density=target).mean, estimate(x, g).mean)
    with pytest.raises(EstimateError, match="or the density"):
        estimate(x)


def test_a_result_brings_its_names_and_coordinates(seeds):
    target = targets.funnel(5, 1.0)
    result = sample(target, draws=500, tune=500, seed=seeds(43), progress=False)
    found = estimate(result, density=target)
    assert found.names == result.names
    assert np.max(np.abs(found.mean) / found.mcse_mean) < 5


def test_in_better_coordinates_the_gain_is_larger(seeds):
    """Neal's funnel, which its non-centred coordinates make a standard normal."""
    target = targets.funnel(5, 1.0)
    x, g = exact_chains(target, np.random.default_rng(seeds(40)), 4, 500)

    non_centred = Reparametrisation(
        children=np.arange(1, 5),
        location_parents=np.zeros(0, np.int64),
        location=np.zeros((4, 1)),
        scale_parents=np.array([0]),
        knots=np.array([[-40.0, 0.0, 40.0, 1.0]]),  # straight wherever the draws are
        log_scale=np.tile([0.0, 0.5, 0.0], (4, 1)),
        shift=np.zeros((4, 3)),
    )
    centred = estimate(x, g)
    sharper = estimate(x, g, reparametrisation=non_centred)
    assert sharper.gain[0] > 1e4 > centred.gain[0]
    np.testing.assert_allclose(sharper.mean[0], 0.0, atol=1e-3)


def test_the_table_is_for_people_too(seeds):
    _, x, g = chains_of("log_gamma_3", seeds(41))
    found = estimate(x, g, names=["a", "b", "<c>"])
    text = repr(found).splitlines()
    assert text[0].split() == ["mean", "sd", "mcse_mean", "mcse_sd", "gain", "gain_sd", "ess"]
    assert [line.split()[0] for line in text[1:]] == ["a", "b", "<c>"]
    assert "&lt;c&gt;" in found._repr_html_()
    low, high = found.interval(0.9).T
    assert (low < found.mean).all()
    np.testing.assert_allclose(high - low, 2 * 1.6449 * found.mcse_mean, rtol=1e-4)
    assert list(found.to_dict()) == found.names
    with pytest.raises(KeyError, match="No estimate of d"):
        found["d"]


def test_wrong_arguments_are_named(seeds):
    _, x, g = chains_of("log_gamma_3", seeds(42))
    for arguments, options, message in (
        ((x, g[:, :-1]), {}, "same shape"),
        ((x[:, :20], g[:, :20]), {}, "too few"),
        ((x, np.where(x > 100, x, np.inf)), {}, "gradients are not finite"),
        ((x, g, {"f": np.zeros(3)}), {}, "f has shape"),
        ((x, g), {"if_refused": "never"}, "if_refused"),
        ((x, g, {"f": np.zeros((4, 500, 50))}), {"covariances": True}, "too many"),
    ):
        with pytest.raises(EstimateError, match=message):
            estimate(*arguments, **options)
