"""`mjhmc_numba.pymc.sample` takes what `pm.sample` takes, or says why not."""

import inspect
import logging
import warnings

import numpy as np
import pymc as pm
import pytest
from pymc.backends.base import MultiTrace
from pymc.exceptions import SamplingError
from pymc.step_methods import STEP_METHODS, Metropolis
from pymc.step_methods.compound import Competence

import mjhmc_numba.pymc as mp
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.pymc import arguments, step
from mjhmc_numba.pymc.errors import OtherMethodError, UnknownVariableError
from tests.integrations import models
from tests.integrations.chains import OTHERS_WARN, OWNER_OF_LIST

pytestmark = [
    *OTHERS_WARN,
    pytest.mark.filterwarnings("ignore:.*too short a warm-up:mjhmc_numba.errors.SamplingWarning"),
]

SMALL = {"draws": 6, "tune": 8, "chains": 2, "random_seed": 2, "progressbar": False}
SMALL |= {"compute_convergence_checks": False}


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        pm.Normal("x", [1.0, 2.0], [1.0, 3.0])
    return model


@pytest.fixture(scope="module")
def usual(model):
    return mp.sample(**SMALL, model=model)


def same(data, usual):
    return np.array_equal(data["posterior"]["x"], usual["posterior"]["x"])


def test_every_argument_of_the_installed_pymc_is_taken_or_answered():
    """A new one fails here: give it a meaning, or a sentence in `arguments.NOT_OURS`."""
    theirs = set(inspect.signature(pm.sample).parameters) - {"kwargs"}
    ours = set(inspect.signature(mp.sample).parameters)
    assert theirs <= ours | set(arguments.NOT_OURS), theirs - ours
    assert not ours & set(arguments.NOT_OURS)


def test_the_defaults_of_pymc_may_be_spelt_out(model, usual):
    given = {
        name: parameter.default
        for name, parameter in inspect.signature(pm.sample).parameters.items()
        if parameter.default is not parameter.empty and name != "nuts_sampler"
    }
    assert same(mp.sample(**given | SMALL | {"model": model}), usual)


WORDS = {
    "step": "mixes step methods",
    "nuts_sampler": "runs NUTS",
    "nuts_sampler_kwargs": "not NUTS",
    "nuts": "target_accept",
    "n_init": "ADVI",
    "mp_ctx": "chains run on threads",
    "progressbar_theme": "no themes",
    "backend": "Numba",
    "max_treedepth": "max_gradients",
    "scaling": "metric=",
    "start": "initvals",
    "Emax": "setting of NUTS",
}


@pytest.mark.parametrize("name", WORDS)
def test_an_argument_that_means_nothing_is_answered_about_itself(model, name):
    with pytest.raises(SettingsError, match=f"^{name}: .*{WORDS[name]}"):
        mp.sample(model=model, **{name: {"a": 1}})


def test_an_argument_of_nuts_is_answered_by_the_step_too(model):
    with pytest.raises(SettingsError, match="max_treedepth: MJHMC has no trees"), model:
        mp.MJHMC(max_treedepth=12)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"progressbar": "some"}, "progressbar='some'"),
        ({"init": "best"}, "init='best'"),
        ({"blas_cores": "many"}, "blas_cores"),
        ({"jitter_max_retries": -1}, "jitter_max_retries"),
        ({"jumps": True, "callback": print}, "jumps goes with whole chains"),
        ({"blocking": False, "draws": 0}, "blocking goes with whole chains"),
        ({"clocks": 1}, "Unknown setting"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_compiled(model, wrong, word):
    with pytest.raises(SettingsError, match=word):
        mp.sample(**SMALL | {"model": model} | wrong)


@pytest.mark.parametrize("before", [(), (100,), (100, 100)])
def test_a_model_given_as_a_number_is_told_where_it_goes(model, before):
    with pytest.raises(SettingsError, match="model="):
        mp.sample(*before, model)


# Whole chains in native code, and draw by draw through PyMC.
PATHS = [{}, {"callback": lambda trace, draw: None}]


@pytest.mark.parametrize("path", PATHS, ids=["native", "callback"])
def test_random_starts_are_tried_once_and_as_often_again_as_was_asked_for(path):
    """Nine in ten lie outside of the support: the first of this seed does, one of 50 does not."""
    with pm.Model() as model:
        x = pm.Flat("x", initval=0.0)
        pm.Potential("inside", pm.math.switch(abs(x) < 0.1, -x * x, -np.inf))
    how = SMALL | {"tune": 1, "chains": 1, "model": model, "quiet": True} | path
    with pytest.raises(SamplingError, match="none of 1 random"):
        mp.sample(**how, jitter_max_retries=0)
    data = mp.sample(**how)
    assert float(abs(data["posterior"]["x"]).max()) < 0.1


@pytest.mark.parametrize("path", PATHS, ids=["native", "callback"])
def test_no_more_random_starts_than_the_first_are_needed_where_it_is_good(model, usual, path):
    assert same(mp.sample(**SMALL, model=model, jitter_max_retries=0, **path), usual)


@pytest.mark.parametrize("path", PATHS, ids=["native", "callback"])
def test_a_transformed_name_is_refused_on_both_paths(path):
    with pytest.raises(UnknownVariableError, match="include_transformed"):
        mp.sample(**SMALL, model=models.regression(), var_names=["sigma_log__"], **path)


def test_the_check_of_a_gradient_can_be_turned_off_where_pymc_draws(model, monkeypatch):
    checked = []
    monkeypatch.setattr(step, "check_custom_gradients", lambda *args: checked.append(args))
    for check in (True, False):
        mp.sample(**SMALL, model=model, cores=1, check_gradient=check, **PATHS[1])
    assert len(checked) == SMALL["chains"]


@pytest.mark.parametrize(
    "given",
    [
        {"progressbar": "split+stats"},
        {"quiet": True},
        {"blas_cores": 2},
        {"blas_cores": "auto"},
        {"jitter_max_retries": 5},
        {"mjhmc": {"target_accept": None}},
        {"store_divergences": True},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_applies_works_and_changes_no_draw(model, usual, given):
    assert same(mp.sample(**SMALL | {"model": model} | given), usual)


def test_no_number_of_chains_or_of_tuning_draws_means_the_default(model):
    data = mp.sample(draws=3, tune=None, chains=None, cores=3, model=model, quiet=True)
    assert data["posterior"].sizes["chain"] == 3
    assert data["posterior"].attrs["tuning_steps"] == 1000


def test_another_initialisation_warns_and_changes_no_draw(model, usual):
    with pytest.warns(UserWarning, match="init='advi' is not used"):
        assert same(mp.sample(**SMALL, model=model, init="advi"), usual)


def test_quiet_is_quiet(caplog, capfd):
    with warnings.catch_warnings(), caplog.at_level(logging.INFO):
        warnings.simplefilter("error")
        data = mp.sample(
            50, 50, 2, models.wall(), random_seed=1, quiet=True, step_size=0.3, num_steps=1,
            refresh_rate=0.25, draw_interval=2.0,
        )  # fmt: skip
    assert not caplog.records
    assert "".join(capfd.readouterr()) == ""
    assert "divergence" in data["sample_stats"].attrs["warnings"]


def test_where_draws_diverged_is_stored_on_request():
    options = {"step_size": 0.3, "num_steps": 1, "refresh_rate": 0.25, "draw_interval": 2.0}
    options |= {"metric": [1.0], "integrator": "leapfrog"}  # so that a step is 0.3 long
    data = mp.sample(
        200, 20, 2, models.wall(), random_seed=1, quiet=True, store_divergences=True, **options
    )
    stats = data["sample_stats"]
    start, diverging = stats["divergence_start"].values, stats["diverging"].values
    assert start.shape == (2, 200, 1)
    assert 10 < diverging.sum() < 390
    assert np.array_equal(np.isfinite(start[..., 0]), diverging)
    assert (start[diverging] > 0).all()  # within the support
    assert (start[diverging] < 1.5).all()  # near its end


# ------------------------------------------------------------------- draw by draw, by PyMC


@pytest.mark.parametrize("cores", [1, 2])
def test_a_callback_is_called_for_each_draw_in_this_process(model, usual, cores):
    seen = []
    data = mp.sample(
        **SMALL, model=model, cores=cores, callback=lambda trace, draw: seen.append(draw)
    )
    assert same(data, usual)
    assert len(seen) == 2 * (6 + 8)
    kept = [d.point["x"] for d in seen if d.chain == 1 and not d.tuning]
    assert np.array_equal(kept, usual["posterior"]["x"][1])


@pytest.mark.filterwarnings("ignore:.*return_inferencedata=False:FutureWarning")
def test_a_multitrace_has_the_same_draws(model, usual):
    trace = mp.sample(**SMALL, model=model, return_inferencedata=False)
    assert isinstance(trace, MultiTrace)
    assert np.array_equal(trace.get_values("x", chains=[1]), usual["posterior"]["x"][1])


@pytest.mark.filterwarnings("ignore:.*MemoryStore:UserWarning")
@pytest.mark.filterwarnings("ignore:.*return_inferencedata=False:FutureWarning")
def test_a_zarr_trace_is_filled_with_the_same_draws(model, usual, zarr_backend):
    """Run by `make test-zarr`."""
    trace = zarr_backend.ZarrTrace()
    mp.sample(**SMALL, model=model, trace=trace, cores=1, return_inferencedata=False)
    assert np.array_equal(trace.posterior["x"][:], usual["posterior"]["x"])


def test_no_draws_leave_the_warm_up(model):
    data = mp.sample(
        **SMALL | {"draws": 0}, model=model, discard_tuned_samples=False, cores=1, quiet=True
    )
    assert data["warmup_posterior"].sizes["draw"] == 8
    with pytest.raises(ValueError, match="Not enough samples"):
        mp.sample(**SMALL | {"draws": 0}, model=model, cores=1, quiet=True)


def test_a_compilation_in_another_mode_is_followed(model, usual):
    with pytest.warns(UserWarning, match="asks for mode"):
        data = mp.sample(**SMALL, model=model, compile_kwargs={"mode": "FAST_COMPILE"})
    assert np.allclose(data["posterior"]["x"][:, 0], usual["posterior"]["x"][:, 0])


# -------------------------------------------------------------- models that are not ours


class Claiming(Metropolis):
    """A step method that claims what is called `own`, as PGBART claims BART."""

    name = "claiming"

    @staticmethod
    def competence(var, has_grad=False):
        return Competence.IDEAL if var.name == "own" else Competence.INCOMPATIBLE


@pytest.fixture(params=["in PyMC's list", "in another list in its place"])
def claimed(request, monkeypatch):
    """Packages announce their methods in one way or the other."""
    if request.param == "in PyMC's list":
        STEP_METHODS.append(Claiming)
    else:
        monkeypatch.setattr(OWNER_OF_LIST, "STEP_METHODS", [*STEP_METHODS, Claiming])
    with pm.Model() as model:
        own = pm.Normal("own")
        pm.Normal("y", own, pm.HalfNormal("s"), observed=[1.0, 2.0])
    yield model
    if Claiming in STEP_METHODS:
        STEP_METHODS.remove(Claiming)


@pytest.mark.parametrize("path", PATHS, ids=["native", "callback"])
def test_a_variable_of_another_step_method_is_refused(claimed, path):
    with pytest.raises(OtherMethodError, match=r"own \(Claiming\)"):
        mp.sample(model=claimed, **path)
    with pytest.raises(OtherMethodError, match=r"own \(Claiming\)"), claimed:
        mp.MJHMC([claimed["own"], claimed["s"]])


def test_a_variable_of_another_step_method_is_left_to_it(claimed):
    with claimed:
        ours = mp.MJHMC()
        assert [v.name for v in ours.vars] == ["s_log__"]
        data = pm.sample(step=ours, cores=1, **SMALL)
        both = [Claiming([claimed["own"]]), mp.MJHMC([claimed["s"]])]
        pm.sample(step=both, cores=1, **SMALL)
    assert {"own", "s"} <= set(data["posterior"].data_vars)
    assert "accept" in data["sample_stats"]  # Metropolis's
