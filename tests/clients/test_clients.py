"""Packages that call PyMC, with MJHMC: the page docs/clients.md, and that its numbers are right.

They have an environment of their own: `make test-clients`.
"""

import re
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("default"),  # of what others warn
    pytest.mark.filterwarnings("error::mjhmc_numba.errors.SamplingWarning"),
]

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
SETUP = re.search(r"```python\n(.*?)```", PAGE, flags=re.DOTALL).group(1)
SECTIONS = dict(re.findall(r"\n## (.*?)\n.*?```python\n(.*?)```", PAGE, flags=re.DOTALL))


@pytest.fixture
def run():
    """Run the block of a section after the data of the page; returns the names it made."""

    def run(title):
        names = {"__name__": "page"}
        exec(compile(SETUP, "clients.md", "exec"), names)
        exec(compile(SECTIONS[title], f"clients.md: {title}", "exec"), names)
        return names

    return run


def is_ours(data):
    return "n_L" in data["sample_stats"] and "tree_size" not in data["sample_stats"]


def assert_same_means(ours, theirs, names):
    """Means agree within five standard errors of both."""
    import arviz as az

    for name in names:
        tables = [az.summary(data, var_names=[name], round_to="none") for data in (ours, theirs)]
        (mean, error), (other, other_error) = (
            (t["mean"].to_numpy(float), t["mcse_mean"].to_numpy(float)) for t in tables
        )
        assert np.all(np.abs(mean - other) < 5 * np.hypot(error, other_error)), name


NUTS = {"draws": 1000, "random_seed": 2, "progressbar": False}


def test_every_section_has_a_test():
    tests = {name for name in globals() if name.startswith("test_")} - {
        "test_every_section_has_a_test"
    }
    assert len(tests) >= len(SECTIONS) == 9


def test_bambi_from_formula_to_predictions(run):
    made = run("Bambi")
    ours = made["idata"]
    assert is_ours(ours)
    assert not [name for name in ours["posterior"].data_vars if name.endswith("_offset")]
    assert ours["posterior_predictive"]["y"].sizes["__obs__"] == 5
    theirs = made["model"].fit(**NUTS, target_accept=0.95)
    assert not is_ours(theirs)
    assert_same_means(ours, theirs, ["Intercept", "x", "1|group_sigma", "sigma"])


def test_customer_lifetime_value(run):
    made = run("pymc-marketing: customer lifetime value")
    assert is_ours(made["idata"])
    purchases = made["clv"].expected_purchases(made["customers"].head(3), future_t=10)
    assert np.all(purchases.mean(("chain", "draw")) > 0)
    theirs = type(made["clv"])().fit(made["customers"], **NUTS)
    # a and b have heavy tails: what they are made of is compared.
    assert_same_means(made["idata"], theirs, ["alpha", "r", "phi_dropout"])


def test_customer_lifetime_value_takes_a_step(run):
    import mjhmc_numba.pymc as mp

    made = run("pymc-marketing: customer lifetime value")
    clv = type(made["clv"])()
    clv.build_model(made["customers"])
    with clv.model:
        step = mp.MJHMC()
    assert is_ours(clv.fit(made["customers"], step=step, draws=100, progressbar=False))


def test_media_mix(run):
    made = run("pymc-marketing: media mix")
    assert is_ours(made["idata"])
    theirs = type(made["mmm"])(
        date_column="date",
        channel_columns=["tv", "radio"],
        target_column="sales",
        **made["parts"],
    ).fit(made["weeks"], made["sales"], **NUTS, target_accept=0.95)
    assert_same_means(made["idata"], theirs, ["intercept_contribution", "adstock_alpha", "y_sigma"])
    made["mmm"].sample_posterior_predictive(made["weeks"], random_seed=1)


def test_discrete_variables_summed_out(run):
    import pymc as pm

    made = run("pymc-extras: discrete variables summed out")
    ours = made["idata"]
    assert set(np.unique(ours["posterior"]["k"])) == {0, 1}
    with made["mixture"]:  # NUTS beside a Gibbs step for k
        theirs = pm.sample(**NUTS | {"draws": 4000})
    assert_same_means(ours, theirs, ["mu"])


def test_state_space_models(run):

    made = run("pymc-extras: state space models")
    assert is_ours(made["idata"])
    assert float(made["idata"]["posterior"]["sigma_level_trend"].mean()) == pytest.approx(
        0.3, abs=0.2
    )


def test_find_map_gives_initial_values(run):
    made = run("pymc-extras: starting where `find_MAP` ends")
    posterior = made["idata"]["posterior"]
    for name, value in made["start"].items():
        assert abs(posterior[name].mean() - value) < posterior[name].std()
    slope, intercept = np.polyfit(made["x"], made["y"], 1)
    assert float(posterior["slope"].mean()) == pytest.approx(slope, abs=0.05)
    assert float(posterior["intercept"].mean()) == pytest.approx(intercept, abs=0.05)


def test_bart_beside_mjhmc(run):
    import pymc as pm
    import pymc_bart as pmb

    import mjhmc_numba.pymc as mp

    made = run("pymc-bart")
    with pm.Model():
        mu = pmb.BART("mu", made["x"][:, None], made["y"], m=20)
        pm.Normal("y", mu, pm.HalfNormal("sigma"), observed=made["y"])
        theirs = pm.sample(**NUTS)
        with mp.register():
            assigned = pm.sample(**NUTS)
    for ours in (made["idata"], assigned):
        assert is_ours(ours)
        sigma, other = ours["posterior"]["sigma"], theirs["posterior"]["sigma"]
        assert abs(float(sigma.mean() - other.mean())) < 0.75 * float(other.std())
        gap = ours["posterior"]["mu"].mean(("chain", "draw")) - made["y"]
        assert 0.8 < float(sigma.mean()) / float(gap.std()) < 1.25


def test_do_and_observe(run):
    made = run("`pm.do` and `pm.observe`")
    seen, done = made["seen"]["posterior"], made["done"]["posterior"]
    # c = a + b + noise of variance 1/4: exact posterior means and variances.
    for values, mean, variance in (
        (seen["a"], 1 / 2.25, 1 - 1 / 2.25),
        (done["b"], 1 / 1.25, 1 - 1 / 1.25),
    ):
        assert float(values.mean()) == pytest.approx(mean, abs=0.06)
        assert float(values.var()) == pytest.approx(variance, rel=0.12)
    assert "a" not in done


def test_loo_compare_and_psense(run):
    import arviz as az
    import pymc as pm

    made = run("ArviZ: loo, compare, psense")
    x, y = made["x"], made["y"]
    with pm.Model():
        line = pm.Normal("intercept", 0, 5) + pm.Normal("slope", 0, 5) * x
        pm.Normal("y", line, pm.HalfNormal("sigma"), observed=y)
        theirs = pm.stats.compute_log_likelihood(pm.sample(**NUTS, nuts_sampler="pymc"))
    ours = az.loo(made["idata"])
    assert ours.elpd == pytest.approx(az.loo(theirs).elpd, abs=0.3)
    assert (ours.pareto_k < 0.7).all()
    assert set(az.psense_summary(made["idata"])["diagnosis"]) == {"✓"}
