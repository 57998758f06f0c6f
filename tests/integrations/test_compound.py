"""Beside other step methods: joint posteriors that are known exactly."""

import itertools
import math

import numpy as np
import pymc as pm
import pytest
from pymc.step_methods import (
    BinaryGibbsMetropolis,
    BinaryMetropolis,
    CategoricalGibbsMetropolis,
    Metropolis,
    Slice,
)
from pymc.step_methods.compound import CompoundStep
from pymc.step_methods.hmc import NUTS
from pymc.step_methods.state import equal_dataclass_values

from mjhmc_numba.coordinates import Metric
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.process import Process
from mjhmc_numba.pymc import MJHMC
from tests.integrations.chains import FIXED, begin, chain, run, vectors
from tests.reparametrisations import random_reparametrisation
from tests.statistical.estimates import batch_z

# PyTensor from pip says so when it compiles a matrix product.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")

TUNE, DRAWS, CHAINS = 150, 4000, 2


def draw(step, model, seeds, key, draws=DRAWS, tune=TUNE):
    """Values by name, (chain, draw, ...)."""
    chains = [chain(step, model.initial_point(), seeds(key, k), draws, tune) for k in range(CHAINS)]
    return {name: np.stack([c[name] for c in chains]) for name in chains[0]}


def normal_density(y, mean, variance):
    return math.exp(-0.5 * (y - mean) ** 2 / variance) / math.sqrt(2 * math.pi * variance)


# -------------------------------------------------------------- Gaussian and Bernoulli

MEANS, SDS, SHARE, SEEN = (-1.0, 1.5), (0.4, 1.3), 0.35, 0.6


def switched(shape=None):
    """x has another mean and scale when k is on; y is x with noise."""
    with pm.Model() as model:
        k = pm.Bernoulli("k", SHARE)
        mean = pm.math.switch(k, MEANS[1], MEANS[0])
        x = pm.Normal("x", mean, pm.math.switch(k, SDS[1], SDS[0]), shape=shape)
        pm.Normal("y", x, 1.0, observed=SEEN if shape is None else np.full(shape, SEEN))
    return model


def switched_moments():
    """E k, E x, E x^2, E k x."""
    weights, first, second = [], [], []
    for k in (0, 1):
        variance = SDS[k] ** 2
        weights.append((1 - SHARE, SHARE)[k] * normal_density(SEEN, MEANS[k], variance + 1.0))
        shrunk = 1 / (1 / variance + 1)
        first.append(shrunk * (MEANS[k] / variance + SEEN))
        second.append(shrunk + first[-1] ** 2)
    p = weights[1] / sum(weights)
    mix = [(1 - p) * values[0] + p * values[1] for values in (first, second)]
    return p, *mix, p * first[1]


@pytest.mark.parametrize("other", [BinaryGibbsMetropolis, BinaryMetropolis, Metropolis])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_gaussian_beside_a_switch_has_the_exact_moments(seeds, other, is_first):
    model = switched()
    with model:
        steps = [MJHMC(["x"], tune=TUNE), other([model["k"]])]
        step = CompoundStep(steps if is_first else steps[::-1])
    drawn = draw(step, model, seeds, 90 + is_first)
    k, x = drawn["k"].astype(float), drawn["x"]
    for values, truth in zip((k, x, x**2, k * x), switched_moments(), strict=True):
        assert abs(batch_z(values, truth)) < 5


def test_a_rotation_beside_a_switch_needs_a_gaussian_of_the_users(seeds):
    model = switched()
    with model:
        with pytest.raises(SettingsError, match=r"cannot be learnt for x beside .* give metric="):
            MJHMC(["x"], integrator="rotation")
        wide = Metric.diagonal([2.0**2]).centred([0.3])
        rotating = MJHMC(["x"], tune=TUNE, integrator="rotation", metric=wide)
        step = CompoundStep([rotating, BinaryGibbsMetropolis([model["k"]])])
    drawn = draw(step, model, seeds, 98)
    assert rotating._process.tuned.integrator == "rotation"
    k, x = drawn["k"].astype(float), drawn["x"]
    for values, truth in zip((k, x, x**2, k * x), switched_moments(), strict=True):
        assert abs(batch_z(values, truth)) < 5


def test_ignoring_the_others_would_be_noticed(seeds, monkeypatch):
    """The test above can fail: a ladder that is never rebuilt has other moments."""
    monkeypatch.setattr(MJHMC, "_follow", lambda self, process, x: None)
    model = switched()
    with model:
        step = CompoundStep([MJHMC(["x"], **FIXED), BinaryGibbsMetropolis([model["k"]])])
    drawn = draw(step, model, seeds, 92, tune=0)
    k, x = drawn["k"].astype(float), drawn["x"]
    z = [batch_z(v, t) for v, t in zip((k, x, x**2, k * x), switched_moments(), strict=True)]
    assert np.abs(z).max() > 8


# ---------------------------------------------------------------------------- mixture

POINTS = np.array([-1.2, 0.3, 0.9, 2.5])
COMPONENTS = {"centre": np.array([-1.0, 1.0]), "sd": np.array([1.0, 1.5])}
WEIGHTS, NOISE = np.array([0.4, 0.6]), 0.8


def mixture():
    with pm.Model() as model:
        z = pm.Categorical("z", WEIGHTS, shape=POINTS.size)
        mu = pm.Normal("mu", COMPONENTS["centre"], COMPONENTS["sd"], shape=2)
        pm.Normal("y", mu[z], NOISE, observed=POINTS)
    return model


def mixture_moments():
    """E z, E mu, E mu^2 by a sum over all indicators, given which all is Gaussian."""
    total, moments = 0.0, np.zeros((POINTS.size + 4,))
    for z in itertools.product((0, 1), repeat=POINTS.size):
        z = np.array(z)
        weight, means, variances = np.prod(WEIGHTS[z]), [], []
        for c in (0, 1):
            mine = POINTS[z == c]
            precision = 1 / COMPONENTS["sd"][c] ** 2 + mine.size / NOISE**2
            mean = COMPONENTS["centre"][c] / COMPONENTS["sd"][c] ** 2 + mine.sum() / NOISE**2
            means.append(mean / precision)
            variances.append(1 / precision)
            covariance = np.full((mine.size, mine.size), COMPONENTS["sd"][c] ** 2)
            covariance += NOISE**2 * np.eye(mine.size)
            off = mine - COMPONENTS["centre"][c]
            _, log_det = np.linalg.slogdet(2 * np.pi * covariance)
            weight *= math.exp(-0.5 * (off @ np.linalg.solve(covariance, off) + log_det))
        total += weight
        squares = np.square(means) + variances
        moments += weight * np.concatenate([z, means, squares])
    return moments / total


def test_a_mixture_with_indicators_has_the_exact_moments(seeds):
    model = mixture()
    with model:
        step = CompoundStep([CategoricalGibbsMetropolis([model["z"]]), MJHMC(["mu"], tune=TUNE)])
    drawn = draw(step, model, seeds, 93)
    values = np.concatenate([drawn["z"], drawn["mu"], drawn["mu"] ** 2], axis=-1)
    for j, truth in enumerate(mixture_moments()):
        assert abs(batch_z(values[..., j], truth)) < 5


# ------------------------------------------------------------- two continuous blocks

CORRELATION = 0.7


def correlated():
    """A pair of normal distributions with mean (1, -1), sd (1, 2) and a correlation."""
    with pm.Model() as model:
        a = pm.Normal("a", 1.0, 1.0)
        pm.Normal("b", -1.0 + 2 * CORRELATION * (a - 1), 2 * math.sqrt(1 - CORRELATION**2), shape=1)
    return model


def second_block(kind, model):
    if kind is MJHMC:
        return MJHMC(["b"], tune=TUNE)
    return kind([model["b"]])


@pytest.mark.parametrize("kind", [MJHMC, NUTS, Slice, Metropolis])
def test_two_continuous_blocks_have_the_exact_moments(seeds, kind):
    model = correlated()
    with model:
        step = CompoundStep([MJHMC(["a"], tune=TUNE), second_block(kind, model)])
    drawn = draw(step, model, seeds, 94)
    a, b = drawn["a"] - 1, (drawn["b"][..., 0] + 1) / 2
    for values, truth in ((a, 0), (b, 0), (a * a, 1), (b * b, 1), (a * b, CORRELATION)):
        assert abs(batch_z(values, truth)) < 5


def test_two_steps_may_share_a_variable(seeds):
    """Another step may move our own variables too."""
    model = correlated()
    with model:
        step = CompoundStep([MJHMC(tune=TUNE), Metropolis([model["a"]])])
    drawn = draw(step, model, seeds, 95)
    a, b = drawn["a"] - 1, (drawn["b"][..., 0] + 1) / 2
    for values, truth in ((a, 0), (b, 0), (a * a, 1), (b * b, 1), (a * b, CORRELATION)):
        assert abs(batch_z(values, truth)) < 5


@pytest.mark.parametrize("pause", [20, 80])
def test_a_compound_goes_on_from_its_state(pause):
    model = switched()

    def make():
        with model:
            return CompoundStep([MJHMC(["x"], tune=60), BinaryGibbsMetropolis([model["k"]])])

    step, other = make(), make()
    begin(step, 7, 60)
    points, _ = run(step, model.initial_point(), draws=1, tune=pause)
    other.sampling_state = step.sampling_state
    ours, theirs = (run(s, points[-1], draws=50)[0] for s in (step, other))
    assert np.array_equal(vectors(ours), vectors(theirs))
    assert equal_dataclass_values(step.sampling_state, other.sampling_state)


BRIEF = {
    "draws": 20,
    "tune": 20,
    "chains": 2,
    "cores": 1,
    "random_seed": 1,
    "progressbar": False,
    "compute_convergence_checks": False,
}


def test_pm_sample_gives_the_rest_to_other_steps():
    """With two samplers in one trace, and the names of both."""
    model = mixture()
    with model:
        data = pm.sample(step=MJHMC(["mu"]), **BRIEF)
    assert data["posterior"]["z"].shape == (2, 20, 4)
    assert data["posterior"]["mu"].shape == (2, 20, 2)
    assert data["sample_stats"]["n_steps"].shape[:2] == (2, 20)


def test_two_blocks_with_statistics_of_the_same_names_fit_into_one_trace():
    model = correlated()
    with model:
        data = pm.sample(step=[MJHMC(["a"]), NUTS([model["b"]])], **BRIEF)
    assert data["sample_stats"]["diverging"].shape == (2, 20, 2)
    assert data["sample_stats"]["n_steps"].shape == (2, 20, 2)


# ----------------------------------------------------------------------------- Geweke


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"rates": "barker"}, FIXED | {"rates": "sqrt"}], ids=str)
def test_joint_distribution_of_parameters_and_data(seeds, options):
    """Geweke (2004): parameters given data by the step, data given parameters by the model, in
    turn. Then both have the law of the model, whose moments are known.
    """
    with pm.Model() as model:
        seen = pm.Data("seen", np.zeros(2))
        k = pm.Bernoulli("k", SHARE)
        mean = pm.math.switch(k, MEANS[1], MEANS[0])
        x = pm.Normal("x", mean, pm.math.switch(k, SDS[1], SDS[0]))
        log_s = pm.Normal("log_s", 0.0, 0.5)
        pm.Normal("y", x, pm.math.exp(log_s), observed=seen)
        step = CompoundStep(
            [MJHMC(["x", "log_s"], tune=300, **options), BinaryGibbsMetropolis([model["k"]])]
        )
    tune = 0 if "step_size" in options else 300
    rng = np.random.default_rng(seeds(96))
    begin(step, seeds(97), tune, 1)
    point = model.initial_point()
    rows = np.empty((60_000, 5))
    for n in range(-tune, len(rows)):
        if n == 0:
            step.stop_tuning()
        point, _ = step.step(point)
        y = rng.normal(point["x"], np.exp(point["log_s"]), size=2)
        seen.set_value(y)
        if n >= 0:
            rows[n] = point["k"], point["x"], point["log_s"], *y
    k, x, log_s, y0, y1 = rows.T
    first = (1 - SHARE) * MEANS[0] + SHARE * MEANS[1]
    second = sum(p * (m**2 + s**2) for p, m, s in zip((1 - SHARE, SHARE), MEANS, SDS, strict=True))
    noise = math.exp(2 * 0.5**2)  # E exp(2 log_s)
    statistics = {
        "k": (k, SHARE),
        "x": (x, first),
        "x^2": (x**2, second),
        "kx": (k * x, SHARE * MEANS[1]),
        "log_s": (log_s, 0.0),
        "log_s^2": (log_s**2, 0.25),
        "x log_s": (x * log_s, 0.0),
        "k log_s": (k * log_s, 0.0),
        "y": (y0, first),
        "y y'": (y0 * y1, second),
        "xy": (x * y0, second),
        "s^2": (np.exp(2 * log_s), noise),
    }
    z = {name: batch_z(values, truth) for name, (values, truth) in statistics.items()}
    assert max(map(abs, z.values())) < 5, z


@pytest.mark.parametrize("given", [None, random_reparametrisation(3)], ids=["x", "z"])
def test_integrators_are_tried_on_the_density_as_it_is_now(monkeypatch, given):
    """What was seen of the density in earlier draws belongs to other values of the others."""
    model = switched(shape=3)
    with model:
        mine = MJHMC(["x"], tune=80, reparametrisation="none" if given is None else given)
        step = CompoundStep([mine, BinaryGibbsMetropolis([model["k"]])])
    probe, seen = Process.probe, []

    def check(process, draws, *rest):
        assert draws.coordinates is given
        x, grad, logp, _ = draws.to(None)
        for k in np.ndindex(np.shape(logp)):
            value, slope = process.target.logp_and_grad(x[k])
            # Rounded on the way from z to x, where there is one.
            seen.append(np.allclose(np.asarray(logp)[k], value, rtol=1e-9, atol=0))
            seen.append(np.allclose(grad[k], slope, rtol=1e-9, atol=1e-9))
        return probe(process, draws, *rest)

    monkeypatch.setattr(Process, "probe", check)
    begin(step, 1, 80)
    run(step, model.initial_point(), draws=1, tune=80)
    assert mine._tuner.density_changes
    assert len(seen) > 40
    assert all(seen)
