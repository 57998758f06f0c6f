"""Every target: gradient, moments and draws belong to one and the same density."""

import dataclasses
import math
import pickle

import numpy as np
import pytest

from mjhmc_numba import targets

COVARIANCE = np.array([[2.0, 0.9, -0.3], [0.9, 1.0, 0.2], [-0.3, 0.2, 0.5]])
MIXING = np.array([[1.0, 0.5, 0.0], [-0.3, 2.0, 0.4], [0.0, 0.1, 0.7]])

# Small and asymmetric where that is possible, and light-tailed enough for the central limit
# theorem to hold for squares where moments are claimed.
TARGETS = {
    "standard_normal": targets.standard_normal(3),
    "gaussian": targets.gaussian([0.5, 3.0], mean=[1.0, -2.0]),
    "log_gaussian": targets.log_gaussian(3, log_conditioning=6),
    "correlated_gaussian": targets.correlated_gaussian(COVARIANCE, mean=[1.0, 0.0, -3.0]),
    "multimodal": targets.multimodal_gaussian(2, 1.5, sd=0.8, weight=0.3),
    "rough_well": targets.rough_well(),
    "rough_well_released": targets.rough_well(period=4.0),
    "rough_well_narrow": targets.rough_well(2, period=3.0, sigma=1.0),
    "funnel": targets.funnel(4, scale=0.5),
    "banana": targets.banana(3, scale=1.5, curvature=0.3),
    "student_t": targets.student_t(12.0, 3),
    "log_gamma": targets.log_gamma([0.4, 1.0, 5.0], 3),
    "product_of_t": targets.product_of_t(3, nu=[13.0, 15.0, 14.0], filters=MIXING),
    "product_of_experts": targets.product_of_experts(4, 8),
    "paper_experts": targets.product_of_experts(),
    "released_product_of_t": targets.product_of_t(),
    "neals_funnel": targets.funnel(),
    "sparse_cauchy": targets.sparse_image_code(2, 3),
    "sparse_laplace": targets.sparse_image_code(1, 3, prior="laplace"),
}
# Moments of squares are infinite or too heavy for a z score here; the same builders stand above.
HEAVY = {"neals_funnel", "released_product_of_t"}
WITH_DRAWS = [name for name, target in TARGETS.items() if target.draw is not None]

# On a line: target, and reach and step of the quadrature.
LINE = {
    "normal": (targets.gaussian([0.7], mean=0.4), 12.0, 1 / 64),
    "log_gamma": (targets.log_gamma(1.0), 45.0, 1 / 64),
    "log_gamma_flat": (targets.log_gamma(0.3), 150.0, 1 / 64),
    "log_gamma_peaked": (targets.log_gamma(30.0), 15.0, 1 / 256),
    "rough_well": (targets.rough_well(1), 1200.0, 1 / 16),
    "rough_well_released": (targets.rough_well(1, period=4.0), 1200.0, 1 / 16),
    "rough_well_narrow": (targets.rough_well(1, period=3.0, sigma=1.0), 12.0, 1 / 64),
    "multimodal": (targets.multimodal_gaussian(1, 2.0, sd=0.6, weight=0.2), 15.0, 1 / 64),
    "student_t": (targets.student_t(9.0), 300.0, 1 / 32),
}


def differences(target, x):
    """Gradient by central differences, the leading error taken out."""
    out = np.empty(target.ndim)
    for j in range(target.ndim):
        estimates = []
        for h in (1e-3, 5e-4):
            up, down = x.copy(), x.copy()
            up[j] += h
            down[j] -= h
            estimates.append((target.logp(up) - target.logp(down)) / (up[j] - down[j]))
        out[j] = (4.0 * estimates[1] - estimates[0]) / 3.0
    return out


def points(target, n, rng):
    if target.draw is not None:
        return target.draw(rng, n)
    return rng.standard_normal((n, target.ndim))


def z_scores(samples, expected):
    """Standardised difference of the column means of samples (n, ...) from what is expected."""
    error = samples.std(axis=0, ddof=1) / math.sqrt(samples.shape[0])
    return (samples.mean(axis=0) - expected) / error


def density_on_a_line(target, reach, step):
    x = np.arange(-reach, reach + step, step)
    logp = np.array([target.logp([point]) for point in x])
    weight = np.exp(logp - logp.max())
    return x, weight / weight.sum()


# --- All of them ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
def test_gradient_is_the_derivative_of_the_log_density(name):
    target, rng = TARGETS[name], np.random.default_rng(1)
    for x in points(target, 5, rng):
        _, grad = target.logp_and_grad(x)
        expected = differences(target, x)
        np.testing.assert_allclose(grad, expected, rtol=1e-6, atol=1e-6 * (1 + abs(expected).max()))


@pytest.mark.parametrize("name", WITH_DRAWS)
def test_draws_obey_steins_identities_of_the_density(name):
    # E[grad log p] = 0 and E[(x_i - m_i) d_j log p] = -1 if i = j else 0, for exact draws.
    target, rng = TARGETS[name], np.random.default_rng(2)
    n = 20_000 if target.ndim > 5 else 60_000
    draws = target.draw(rng, n)
    assert draws.shape == (n, target.ndim)
    scores = np.array([target.logp_and_grad(x)[1] for x in draws])
    assert np.abs(z_scores(scores, 0.0)).max() < 5.0
    size = min(target.ndim, 4)
    products = (draws[:, :size, None] - target.mean[:size, None]) * scores[:, None, :size]
    assert np.abs(z_scores(products, -np.eye(size))).max() < 5.0


@pytest.mark.parametrize("name", [name for name in WITH_DRAWS if name not in HEAVY])
def test_claimed_moments_are_those_of_the_draws(name):
    target, rng = TARGETS[name], np.random.default_rng(3)
    draws = target.draw(rng, 1_000_000)
    assert np.abs(z_scores(draws, target.mean)).max() < 5.0
    assert np.abs(z_scores((draws - target.mean) ** 2, target.variance)).max() < 5.0


@pytest.mark.parametrize("name", LINE)
def test_claimed_moments_are_those_of_the_density_by_quadrature(name):
    target, reach, step = LINE[name]
    x, weight = density_on_a_line(target, reach, step)
    mean = weight @ x
    scale = math.sqrt(target.variance[0])
    assert mean == pytest.approx(target.mean[0], abs=1e-9 * scale)
    assert weight @ (x - mean) ** 2 == pytest.approx(target.variance[0], rel=1e-8)


@pytest.mark.parametrize("name", LINE)
def test_draws_have_the_distribution_function_of_the_density(name):
    target, reach, step = LINE[name]
    x, weight = density_on_a_line(target, reach, step)
    n = 20_000
    draws = np.sort(target.draw(np.random.default_rng(4), n)[:, 0])
    # The trapezoidal distribution function, and Kolmogorov's distance: P(> 2.6 / sqrt n) < 3e-6.
    distribution = np.interp(draws, x, np.cumsum(weight) - 0.5 * weight)
    steps = np.arange(n + 1) / n
    distance = max(np.max(steps[1:] - distribution), np.max(distribution - steps[:-1]))
    assert distance < 2.6 / math.sqrt(n)


@pytest.mark.parametrize(
    ("target", "reach"),
    [
        (targets.banana(2, scale=1.5, curvature=0.3), (12.0, 45.0)),
        (targets.funnel(2, scale=0.5), (5.0, 25.0)),
        (targets.multimodal_gaussian(2, 1.5, sd=0.8, weight=0.3), (10.0, 10.0)),
        (targets.correlated_gaussian(COVARIANCE[:2, :2], [0.5, -1.0]), (16.0, 12.0)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_claimed_moments_are_those_of_the_density_in_the_plane(target, reach):
    # The trapezoidal rule is exponentially accurate for densities that are smooth and decay.
    x, y = np.linspace(-reach[0], reach[0], 161), np.linspace(-reach[1], reach[1], 801)
    logp = np.array([[target.logp([a, b]) for b in y] for a in x])
    weight = np.exp(logp - logp.max())
    weight /= weight.sum()
    mean = np.array([weight.sum(axis=1) @ x, weight.sum(axis=0) @ y])
    second = np.array([weight.sum(axis=1) @ x**2, weight.sum(axis=0) @ y**2])
    np.testing.assert_allclose(mean, target.mean, atol=1e-6)
    np.testing.assert_allclose(second - mean**2, target.variance, rtol=1e-6)


@pytest.mark.parametrize("name", TARGETS)
def test_distribution_survives_pickling(name):
    target = TARGETS[name]
    copy, x = pickle.loads(pickle.dumps(target)), np.full(target.ndim, 0.3)
    assert copy.name == target.name
    assert copy.logp(x) == target.logp(x)
    if target.draw is not None:
        expected = target.draw(np.random.default_rng(5), 3)
        np.testing.assert_array_equal(copy.draw(np.random.default_rng(5), 3), expected)


@pytest.mark.parametrize("name", TARGETS)
def test_arguments_and_moments_are_float64_arrays_of_the_right_shape(name):
    target = TARGETS[name]
    assert all(a.dtype == np.float64 and a.flags.c_contiguous for a in target.args)
    for known in (target.mean, target.variance):
        assert known is None or (known.shape == (target.ndim,) and known.dtype == np.float64)


@pytest.mark.parametrize("name", WITH_DRAWS)
def test_no_draws_are_an_empty_array(name):
    target = TARGETS[name]
    assert target.draw(np.random.default_rng(6), 0).shape == (0, target.ndim)


def test_other_parameters_use_the_same_compiled_density():
    first, second = targets.banana(2), targets.banana(5, scale=2.0, curvature=0.7)
    assert first.density is second.density
    first.logp(np.zeros(2))
    second.logp(np.zeros(5))
    assert len(first.density.signatures) == 1


def test_distribution_cannot_be_changed_and_checks_the_shape_of_a_point():
    target = targets.standard_normal(2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.ndim = 3
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        target.logp(np.zeros(3))
    x = np.array([1, 2])
    assert target.logp(x) == -2.5
    np.testing.assert_array_equal(x, [1, 2])


def test_density_compiles_where_no_cache_can_be_written(monkeypatch):
    calls = []

    def njit(function, **options):
        calls.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return function

    monkeypatch.setattr(targets.distribution, "njit", njit)
    assert targets.distribution.compile_density(math.sqrt) is math.sqrt
    assert calls == [True, False]


# --- One by one -------------------------------------------------------------------------------


def test_log_gaussian_has_log_spaced_precisions():
    target = targets.log_gaussian(4, log_conditioning=6)
    np.testing.assert_allclose(1.0 / target.variance, [1e-6, 1e-4, 1e-2, 1.0], rtol=1e-12)
    assert target.logp([0.0, 0.0, 10.0, 2.0]) == pytest.approx(-0.5 * (1.0 + 4.0), rel=1e-14)


def test_rough_well_is_the_papers_energy_and_the_released_one_has_half_the_period():
    x = np.array([17.3, -41.8])
    energy = x @ x / (2.0 * 100.0**2) + np.cos(math.pi * x / 4.0).sum()
    assert targets.rough_well().logp(x) == pytest.approx(-energy, rel=1e-13)
    energy = x @ x / (2.0 * 100.0**2) + np.cos(2.0 * math.pi * x / 4.0).sum()
    assert targets.rough_well(period=4.0).logp(x) == pytest.approx(-energy, rel=1e-13)


def test_rough_well_of_many_periods_has_the_variance_of_the_smooth_well():
    np.testing.assert_allclose(targets.rough_well().variance, 1e4, rtol=1e-12)
    assert abs(targets.rough_well(period=3.0, sigma=1.0).variance[0] - 1.0) > 0.1


def test_log_gamma_moments_are_digamma_and_trigamma():
    euler = 0.57721566490153286061
    one, half = targets.log_gamma(1.0), targets.log_gamma(0.5)
    assert one.mean[0] == pytest.approx(-euler, rel=1e-14)
    assert one.variance[0] == pytest.approx(math.pi**2 / 6.0, rel=1e-14)
    assert half.mean[0] == pytest.approx(-euler - 2.0 * math.log(2.0), rel=1e-14)
    assert half.variance[0] == pytest.approx(math.pi**2 / 2.0, rel=1e-14)


def test_log_gamma_draws_do_not_underflow_for_tiny_shapes():
    target = targets.log_gamma(1e-4)
    draws = target.draw(np.random.default_rng(7), 20_000)
    assert np.all(np.isfinite(draws))
    assert abs(z_scores(draws, target.mean)[0]) < 5.0


def test_neals_funnel_draws_are_normal_once_scaled():
    draws = targets.funnel().draw(np.random.default_rng(8), 100_000)
    v, scaled = draws[:, 0] / 3.0, draws[:, 1:] * np.exp(-0.5 * draws[:, :1])
    white = np.column_stack([v, scaled])
    assert np.abs(z_scores(white, 0.0)).max() < 5.0
    assert np.abs(z_scores(white**2, 1.0)).max() < 5.0
    assert np.abs(z_scores(v[:, None] * scaled**2, 0.0)).max() < 5.0
    np.testing.assert_allclose(targets.funnel().variance, [9.0] + [math.exp(4.5)] * 9)


def test_neals_funnel_is_normalised_in_x_for_every_v():
    # log p(v, x) - log p(x | v) depends on v as N(0, 9) does; without (d - 1) v / 2 it would not.
    target, x = targets.funnel(), np.linspace(-1.0, 2.0, 9)
    rest = []
    for v in (-2.0, 0.0, 1.5):
        conditional = np.sum(-0.5 * v - 0.5 * x**2 * math.exp(-v))
        rest.append(target.logp(np.concatenate([[v], x])) - conditional + v**2 / 18.0)
    np.testing.assert_allclose(rest, 0.0, atol=1e-12)


def test_multimodal_density_stays_finite_far_away():
    target = targets.multimodal_gaussian(2, separation=6.0, sd=0.5**0.5)
    for x in ([1e5, 0.0], [-1e5, 3.0], [0.0, 0.0]):
        logp, grad = target.logp_and_grad(x)
        assert math.isfinite(logp)
        assert np.all(np.isfinite(grad))
    x, centre = np.array([0.3, -0.2]), np.array([6.0, 0.0])
    released = np.log(np.exp(-np.sum((x + centre) ** 2)) + np.exp(-np.sum((x - centre) ** 2)))
    assert target.logp(x) == pytest.approx(released, rel=1e-12)


def test_moments_that_are_not_finite_are_not_claimed():
    assert targets.student_t(1.0).mean is None
    assert targets.student_t(2.0).variance is None
    assert targets.student_t(2.0).mean is not None
    assert targets.product_of_t(2, nu=2.0).variance is None
    assert targets.product_of_t(2, nu=1.0).mean is None


def test_product_of_t_is_the_released_energy():
    target, rng = targets.product_of_t(), np.random.default_rng(9)
    nu = 2.0 * target.args[1] - 1.0
    assert target.ndim == 36
    assert np.all((nu > 2.1) & (nu < 4.1))
    x = rng.normal(size=36)
    energy = np.sum(0.5 * (nu + 1.0) * np.log(1.0 + (x / nu) ** 2))
    assert target.logp(x) == pytest.approx(-energy, rel=1e-13)


def test_papers_experts_span_the_space_and_are_a_quarter_active():
    target = TARGETS["paper_experts"]
    filters, alpha = target.args
    assert filters.shape == (72, 36)
    assert np.all((filters != 0.0).sum(axis=1) == 9)
    assert abs(filters[filters != 0.0].mean()) < 5.0 / math.sqrt(3.0 * 9 * 72)
    assert np.all(alpha > 1.5)
    assert np.linalg.matrix_rank(filters) == 36
    x = np.random.default_rng(10).normal(size=36)
    expected = -np.sum(alpha * np.log(1.0 + (filters @ x) ** 2))
    assert target.logp(x) == pytest.approx(expected, rel=1e-13)
    assert target.draw is None
    assert target.variance is None


def test_experts_that_leave_a_direction_free_are_refused():
    filters, alpha = np.eye(3), np.array([1.0, 1.0, 0.5])
    with pytest.raises(ValueError, match="normalised"):
        targets.experts._product("improper", filters, alpha)
    with pytest.raises(ValueError, match="positive"):
        targets.experts._product("repelling", filters, np.array([1.0, 1.0, -1.0]))
    with pytest.raises(ValueError, match="normalised"):
        targets.product_of_experts(36, 20)
    assert targets.experts._product("proper", filters, np.array([1.0, 1.0, 0.51])).ndim == 3


@pytest.mark.parametrize("prior", ["cauchy", "laplace"])
def test_sparse_code_is_reconstruction_plus_prior(prior):
    target = targets.sparse_image_code(3, 4, prior=prior, scale=0.7, noise=0.3)
    dictionary, patches, _ = target.args
    assert target.ndim == 3 * 32
    assert dictionary.shape == (16, 32)
    codes = np.random.default_rng(12).normal(size=(3, 32))
    logp = -0.5 * np.sum((patches - codes @ dictionary.T) ** 2) / 0.3**2
    if prior == "cauchy":
        logp -= np.sum(np.log(1.0 + (codes / 0.7) ** 2))
    else:
        logp -= np.sum(np.sqrt((codes / 0.7) ** 2 + 0.1**2))
    assert target.logp(codes.ravel()) == pytest.approx(logp, rel=1e-12)


def test_sparse_code_dictionary_has_zero_mean_atoms_of_length_one():
    dictionary = targets.sparse_image_code().args[0]
    assert dictionary.shape == (36, 72)
    np.testing.assert_allclose(dictionary.mean(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(dictionary, axis=0), 1.0, rtol=1e-13)
    # A constant patch cannot be coded, all others can.
    assert np.linalg.matrix_rank(dictionary) == 35


@pytest.mark.parametrize("build", [targets.sparse_image_code, targets.product_of_experts])
def test_generated_problem_depends_on_the_seed_alone(build):
    first, again, other = build(seed=3), build(seed=3), build(seed=4)
    for a, b in zip(first.args, again.args, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.any(first.args[1] != other.args[1])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: targets.standard_normal(0), "ndim"),
        (lambda: targets.standard_normal(1.5), "ndim"),
        (lambda: targets.gaussian([1.0, -1.0]), "sd"),
        (lambda: targets.gaussian([1.0, 1.0], mean=[0.0]), "mean"),
        (lambda: targets.correlated_gaussian([[1.0, 2.0]]), "square"),
        (lambda: targets.correlated_gaussian([[1.0, 0.2], [0.1, 1.0]]), "symmetric"),
        (lambda: targets.correlated_gaussian([[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: targets.multimodal_gaussian(weight=1.0), "weight"),
        (lambda: targets.multimodal_gaussian(sd=0.0), "sd"),
        (lambda: targets.rough_well(sigma=-1.0), "sigma"),
        (lambda: targets.rough_well(period=math.inf), "period"),
        (lambda: targets.funnel(1), "ndim"),
        (lambda: targets.funnel(scale=math.nan), "scale"),
        (lambda: targets.banana(1), "ndim"),
        (lambda: targets.student_t(0.0), "df"),
        (lambda: targets.log_gamma(-1.0), "shape"),
        (lambda: targets.log_gamma([1.0, 2.0], 3), "shape"),
        (lambda: targets.product_of_t(2, nu=0.0), "nu"),
        (lambda: targets.product_of_t(2, filters=np.eye(3)), "filters"),
        (lambda: targets.product_of_t(2, filters=np.ones((2, 2))), "normalised"),
        (lambda: targets.sparse_image_code(prior="gauss"), "prior"),
        (lambda: targets.sparse_image_code(noise=0.0), "noise"),
        (lambda: targets.sparse_image_code(0), "patches"),
    ],
)
def test_parameters_that_make_no_distribution_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
