"""By name: PyMC assigns MJHMC once it is registered, and takes it as a sampler."""

import inspect
import pickle
from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytest
from pymc.sampling import mcmc
from pymc.step_methods import NUTS, STEP_METHODS

import mjhmc_numba.pymc as mp
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.pymc.packaging import answer_arguments
from mjhmc_numba.settings import Settings
from tests.integrations import models
from tests.integrations.chains import FIXED, OTHERS_WARN, OWNER_OF_LIST, QUIET

pytestmark = OTHERS_WARN

SHORT = {"draws": 20, "tune": 30, "chains": 2, "cores": 1, "random_seed": 5} | QUIET


@pytest.fixture(autouse=True)
def nothing_stays():
    """Whatever a test does, PyMC's list and functions are as they were."""
    answer_arguments()  # as the first step does that is made
    before, function = list(STEP_METHODS), mcmc.instantiate_steppers
    yield
    assert before == STEP_METHODS
    assert mcmc.instantiate_steppers is function


def assigned(model):
    return list(mcmc.assign_step_methods(model, methods=STEP_METHODS)[1])


def test_pm_sample_assigns_mjhmc_while_it_is_registered():
    model = models.gaussian()
    with model, mp.register():
        by_name = pm.sample(**SHORT)
    with model:
        by_step = pm.sample(step=mp.MJHMC(), **SHORT)
    assert np.array_equal(by_name["posterior"]["x"], by_step["posterior"]["x"])
    assert "n_L" in by_name["sample_stats"]
    assert assigned(model) == [NUTS]


def test_chains_run_in_other_processes():
    model = models.gaussian()
    with model, mp.register():
        alone = pm.sample(**SHORT)
        beside = pm.sample(**SHORT | {"cores": 2})
    assert np.array_equal(alone["posterior"]["x"], beside["posterior"]["x"])


def test_arguments_reach_the_step():
    model = models.gaussian()
    slow = {"step_size": 0.01, "num_steps": 1, "refresh_rate": 0.25}
    with model, mp.register(**FIXED):
        registered = pm.sample(**SHORT)["sample_stats"]
        called = pm.sample(**SHORT, mjhmc=slow)["sample_stats"]
        replaced = pm.sample(**SHORT, mjhmc={"settings": Settings(**slow)})["sample_stats"]
    assert np.all(registered["step_size_bar"] == FIXED["step_size"])
    assert np.all(called["step_size_bar"] == 0.01)
    assert np.all(called["draw_interval"] == FIXED["draw_interval"])
    assert np.all(replaced["step_size_bar"] == 0.01)
    with model, mp.register(settings=Settings(**FIXED)):
        assert np.all(pm.sample(**SHORT)["sample_stats"]["step_size_bar"] == FIXED["step_size"])


def test_what_pymc_advises_after_divergences_works():
    made = []
    with models.gaussian(), mp.register(integrator="leapfrog"):
        for target in (0.6, 0.99):
            data = pm.sample(**SHORT | {"tune": 100}, target_accept=target)
            made.append(float(data["sample_stats"]["step_size_bar"].mean()))
    assert made[1] < made[0]


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize("given", [{"target_accept": 0.95}, {"mjhmc": {"target_accept": 0.95}}])
def test_arguments_of_a_step_that_is_made_already_are_told_where_they_go(registered, given):
    """PyMC's advice after divergences is to increase `target_accept`."""
    with models.gaussian(), mp.register() if registered else nullcontext():
        for step in (mp.MJHMC(), [mp.MJHMC()]):
            with pytest.raises(SettingsError, match=r"step=MJHMC\(target_accept=0.95\)"):
                pm.sample(step=step, **SHORT, **given)
        with pytest.raises(SettingsError, match="max_treedepth: MJHMC has no trees"):
            pm.sample(step=step, **SHORT, nuts={"max_treedepth": 5})


def test_arguments_of_other_steps_reach_them_and_are_checked_by_pymc():
    with models.mixed() as model:
        step = mp.MJHMC([model["a"]])
        data = pm.sample(step=step, **SHORT, target_accept=0.99)  # NUTS has the rest
        with pytest.raises(ValueError, match="Invalid key"):
            pm.sample(step=pm.Metropolis(), **SHORT, target_accept=0.99)
    assert {"reached_max_treedepth", "n_L"} <= set(data["sample_stats"].data_vars)


def test_arguments_of_nuts_alone_are_refused():
    with models.gaussian(), mp.register(), pytest.raises(SettingsError, match="no trees"):
        pm.sample(**SHORT, nuts={"max_treedepth": 5})


def test_other_variables_keep_their_steps():
    with models.mixed() as model, mp.register():
        selected = mcmc.assign_step_methods(model, methods=STEP_METHODS)[1]
        data = pm.sample(**SHORT)
    chosen = {method.name: [v.name for v in found] for method, found in selected.items()}
    assert chosen.pop("mjhmc") == ["a", "b"]
    assert sorted(name for names in chosen.values() for name in names) == ["k", "z"]
    assert {"a", "b", "k", "z"} <= set(data["posterior"].data_vars)


def test_the_list_may_be_another_than_that_which_pymc_made(monkeypatch):
    """pymc-bart puts one of its own in the place of PyMC 5's."""
    model, theirs = models.gaussian(), list(STEP_METHODS)
    monkeypatch.setattr(OWNER_OF_LIST, "STEP_METHODS", theirs)
    with model, mp.register():
        data = pm.sample(**SHORT)
    assert "n_L" in data["sample_stats"]
    assert theirs == STEP_METHODS


def test_a_list_that_is_put_in_place_of_pymcs_meanwhile_is_cleared_too(monkeypatch):
    before = list(STEP_METHODS)
    with mp.register():
        theirs = [*STEP_METHODS, pm.Metropolis]
        monkeypatch.setattr(OWNER_OF_LIST, "STEP_METHODS", theirs)
    assert theirs == [*before, pm.Metropolis]
    assert before == STEP_METHODS


def test_registrations_may_be_nested_and_undone_in_any_order():
    model = models.gaussian()
    first = mp.register(**FIXED)
    second = mp.register()
    assert assigned(model) == [mp.MJHMC]
    first.undo()
    assert "undone" in repr(first)
    assert assigned(model) == [mp.MJHMC]
    second.undo()
    second.undo()
    assert assigned(model) == [NUTS]


def test_a_registration_ends_with_an_error_and_begins_with_none():
    with pytest.raises(SettingsError, match="Unknown setting 'stepsize'"):
        mp.register(stepsize=1.0)
    with pytest.raises(ZeroDivisionError), mp.register():
        raise ZeroDivisionError
    assert assigned(models.gaussian()) == [NUTS]


class BambiModel:
    """As much of a Bambi model as matters here; `make test-clients` has the real one."""

    def __init__(self):
        self.model = models.gaussian()

    def fit(self, inference_method="pymc", omit_offsets=True, **options):
        with self.model:
            return pm.sample(nuts_sampler=inference_method, **options)


def test_a_bambi_model_is_fitted_through_its_own_method():
    data = mp.fit_bambi(BambiModel(), mjhmc=FIXED, **SHORT)
    assert np.all(data["sample_stats"]["step_size_bar"] == FIXED["step_size"])
    with pytest.raises(SettingsError, match="'vi' is not MJHMC"):
        mp.fit_bambi(BambiModel(), inference_method="vi")


# --------------------------------------------------------------- pm.sample(sampler=...)


def sample_by(sampler, model, **run):
    """What ``pm.sample(sampler=...)`` does in PyMC's pull request 8358: hands on all of these."""
    asked = {
        "draws": 1000,
        "tune": None,
        "chains": None,
        "cores": None,
        "blas_cores": "auto",
        "initvals": None,
        "random_seed": None,
        "progressbar": True,
        "quiet": False,
        "discard_tuned_samples": True,
        "keep_warning_stat": False,
        "var_names": None,
        "idata_kwargs": None,
        "compute_convergence_checks": True,
    }
    assert set(run) <= set(asked)
    return sampler.sample_from_init(model=model, **asked | run)


def test_a_sampler_runs_whole_chains_with_its_settings():
    model = models.gaussian()
    sampler = mp.MJHMCSampler(**FIXED)
    again = pickle.loads(pickle.dumps(sampler))
    made = [sample_by(s, model, **SHORT, var_names=["x"]) for s in (sampler, again)]
    native = mp.sample(model=model, **SHORT, **FIXED)
    for data in made:
        assert set(data["posterior"].data_vars) == {"x"}
        assert np.array_equal(data["posterior"]["x"], native["posterior"]["x"])


def test_a_sampler_takes_the_arguments_of_the_run():
    model = models.gaussian()
    run = SHORT | {"quiet": True, "discard_tuned_samples": False, "initvals": {"x": [4.0, 4.0]}}
    data = sample_by(mp.MJHMCSampler(jitter=False, step_size=1e-4), model, **run)
    assert data["warmup_posterior"].sizes["draw"] == 30
    assert np.allclose(data["warmup_posterior"]["x"][:, 0], 4.0, atol=0.1)
    with pytest.raises(SettingsError, match="Unknown setting 'stepsize'"):
        mp.MJHMCSampler(stepsize=1.0)


def test_a_sampler_keeps_to_pymcs_own_interface():
    base = pytest.importorskip("pymc.sampling.samplers.base", reason="PyMC has none yet")
    theirs = inspect.signature(base.Sampler.sample_from_init).parameters
    assert set(inspect.signature(mp.MJHMCSampler.sample_from_init).parameters) == set(theirs)
    with models.gaussian():
        data = pm.sample(sampler=mp.MJHMCSampler(), **SHORT)
    assert "n_L" in data["sample_stats"]
