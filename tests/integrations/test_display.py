"""What a person reads while a model is compiled and sampled."""

import re
import threading

import pymc as pm
import pytest

import mjhmc_numba.pymc as mp
from mjhmc_numba.process import Process
from mjhmc_numba.pymc.expand import Expansion

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")


@pytest.fixture(scope="module", autouse=True)
def _kernel():
    """No test is the first to need the kernel: it would be told so."""
    Process.compile_kernel()


@pytest.fixture
def model():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        pm.Deterministic("variance", scale**2)
        pm.Normal("y", 0, scale, observed=[0.3, -0.7, 1.1])
    return model


# What PyMC logs about convergence is not ours.
RUN = {
    "draws": 200,
    "tune": 200,
    "chains": 2,
    "random_seed": 3,
    "compute_convergence_checks": False,
}
GRADIENT = r"Compiling the model: gradient \.\.\. done in \d+\.\d s"
DETERMINISTICS = r"Compiling the model: Deterministics \.\.\.( done in \d+\.\d s)?"
CLOSING = (
    r"Sampled 2 chains x \(200 \+ 200\) draws in \d+\.\d s: [\d,]+ gradients, \d+ diverging, "
    r"worst R-hat \d\.\d{3}, worst ESS \d+"
)


def test_a_native_run_says_what_it_compiles_and_what_came_of_it(model, capsys):
    mp.sample(model=model, **RUN)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(GRADIENT, lines[0])
    assert re.fullmatch(DETERMINISTICS, lines[1])
    assert sum(re.fullmatch(CLOSING, line) is not None for line in lines) == 1


def test_a_step_says_what_it_compiles_before_pymc_shows_its_chains(model, capsys):
    with model:
        mp.MJHMC()
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(GRADIENT, line)


def test_quiet_runs_write_nothing(model, capsys):
    with model:
        mp.MJHMC(progressbar=False)
    mp.sample(model=model, progressbar=False, **RUN)
    mp.compile(model, progressbar=False).sample(progressbar=False, **RUN)
    assert capsys.readouterr().err == ""


@pytest.fixture
def compiling_threads(monkeypatch):
    """Chains begin when Deterministics are compiled: never, if that comes after them. Filled with
    the threads that compile them.
    """
    threads, prepared = [], threading.Event()
    usual_run, usual_prepare = mp.sampling.run_with_warmup, Expansion._prepare

    def prepare(self):
        threads.append(threading.current_thread())
        usual_prepare(self)
        prepared.set()

    def run_when_prepared(*args, **options):
        assert prepared.wait(60)
        return usual_run(*args, **options)

    monkeypatch.setattr(Expansion, "_prepare", prepare)
    monkeypatch.setattr(mp.sampling, "run_with_warmup", run_when_prepared)
    return threads


def test_deterministics_are_compiled_while_the_chains_run(model, compiling_threads):
    data = mp.sample(model=model, progressbar=False, **RUN)
    assert data["posterior"]["variance"].to_numpy() == pytest.approx(
        data["posterior"]["scale"].to_numpy() ** 2
    )
    assert len(compiling_threads) == 1


def test_waiting_for_a_run_in_the_background_compiles_meanwhile(model, compiling_threads):
    compiled = mp.compile(model, progressbar=False)
    data = compiled.sample(progressbar=False, blocking=False, **RUN).wait()
    assert "variance" in data["posterior"]
    # PyTensor knows nothing of threads, and this one may be using it.
    assert compiling_threads == [threading.main_thread()]
