"""Random settings are refused with a typed error, or they sample correctly.

Chains start at exact draws of a Gaussian, and nothing is tuned. So the last draws are exact draws
too, however slowly settings mix: whitened, their sum is normal and their sum of squares has a
chi-square distribution, for one example and for all of them together.
"""

import math
import warnings

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from scipy import stats

import mjhmc_numba as mj
from mjhmc_numba import targets
from mjhmc_numba.coordinates import Metric
from mjhmc_numba.tuned import INTEGRATORS

CHAINS, NDIM = 40, 3
COVARIANCE = np.array([[1.0, 0.6, 0.0], [0.6, 2.0, -0.3], [0.0, -0.3, 0.5]])
MEAN = np.array([1.0, -2.0, 0.5])
ROOT = np.linalg.cholesky(COVARIANCE)
TARGET = targets.correlated_gaussian(COVARIANCE, MEAN)
RARE = 2 * stats.norm.sf(5)  # |z| > 5

NONSENSE = st.sampled_from([0, -1.0, math.nan, math.inf, "much", None, True, 1j, [1.0], b"x"])


def rarely_wrong(good):
    """Values that are meant to be good, and one in twelve that may not be."""
    return st.integers(0, 11).flatmap(lambda k: NONSENSE if k == 0 else good)


METRICS = [
    np.array([1.0, 2.0, 0.5]),
    COVARIANCE,
    Metric.dense(0.5 * COVARIANCE + 0.4 * np.eye(NDIM)).centred([0.5, -1.0, 0.0]),
    np.ones(NDIM + 1),
    np.array([1.0, -2.0, 0.5]),
    np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
]

REQUIRED = {
    "step_size": rarely_wrong(st.floats(1e-6, 4.0)),
    "num_steps": rarely_wrong(st.integers(1, 8)),
    "refresh_rate": rarely_wrong(st.floats(1e-3, 5.0)),
    "draw_interval": rarely_wrong(st.floats(0.01, 5.0)),
    "metric": st.sampled_from(METRICS[:3] * 4 + METRICS[3:]),
}
OPTIONAL = {
    "integrator": rarely_wrong(st.sampled_from(list(INTEGRATORS))),
    "rates": rarely_wrong(st.sampled_from(["metropolis", "barker", "sqrt"])),
    "clock": st.sampled_from([None, None, "regular", "poisson", "sundial"]),
    "method": st.sampled_from([None, None, "thinning", "competing"]),
    "refresh_alpha": rarely_wrong(st.floats(0.0, 0.99)),
    "refresh_jitter": rarely_wrong(st.floats(0.0, 0.99)),
    "step_jitter": rarely_wrong(st.floats(0.0, 0.99)),
    "refine_levels": rarely_wrong(st.integers(0, 4)),
    "refine_threshold": rarely_wrong(st.floats(1e-3, 10.0)),
    "max_gradients": st.sampled_from([10**6] * 12 + [0, None, True, 10**30]),
    "rates_bound": st.sampled_from([None] * 20 + [1.0]),
    "draws": rarely_wrong(st.integers(1, 3)),
}
OPTIONS = st.fixed_dictionaries(REQUIRED, optional=OPTIONAL)


@pytest.fixture(scope="module")
def target():
    return mj.as_target(TARGET)


def last_draws(target, options, seed):
    """Whitened, of all chains; None where the options were refused."""
    rng = np.random.default_rng(seed)
    starts = TARGET.draw(rng, CHAINS)
    given = {"draws": 2, "integrator": "leapfrog", **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mj.SamplingWarning)
        try:
            result = mj.sample(
                target,
                starts,
                tune=0,
                chains=CHAINS,
                cores=1,
                seed=rng.integers(2**62),
                progress=False,
                check_gradient=False,
                reparametrisation="none",
                **given,
            )
        except (mj.SettingsError, mj.TargetError):
            return None
    assert result.draws.shape == (CHAINS, given["draws"], NDIM)
    assert all(np.isfinite(values).all() for values in (result.draws, result.stats["lp"]))
    return np.linalg.solve(ROOT, (result.draws[:, -1] - MEAN).T).ravel()


def p_values(z):
    """Of whitened draws: that of their sum, and that of their sum of squares; each two-sided."""
    of_sum = 2 * stats.norm.sf(abs(z.sum()) / math.sqrt(z.size))
    of_squares = 2 * min(stats.chi2.sf(z @ z, z.size), stats.chi2.cdf(z @ z, z.size))
    return of_sum, of_squares


def test_random_settings_are_refused_by_name_or_sample_correctly(seeds, target):
    seen, refused = [], 0

    @hypothesis.seed(int(seeds(132).generate_state(1)[0]))
    @hypothesis.settings(max_examples=150, deadline=None, database=None)
    @hypothesis.given(options=OPTIONS, seed=st.integers(0, 2**62))
    def check(options, seed):
        nonlocal refused
        z = last_draws(target, options, seed)
        if z is None:
            refused += 1
            return
        seen.append(z)
        assert min(p_values(z)) > RARE

    check()
    assert len(seen) > 30
    assert refused > 10
    assert min(p_values(np.concatenate(seen))) > RARE
