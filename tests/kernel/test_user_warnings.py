"""A warning points at the line of the user's that led to it."""

import inspect
import warnings

import pytest

import mjhmc_numba as mj
from mjhmc_numba import targets

CUT_SHORT = {"step_size": 0.5, "num_steps": 1, "refresh_rate": 0.3, "draw_interval": 9.0}
CUT_SHORT |= {"max_jumps": 2, "tune": 0, "draws": 30, "chains": 1, "seed": 1}


def lines_of(caught, category):
    assert all(w.filename == __file__ for w in caught if issubclass(w.category, category))
    return [w.lineno for w in caught if issubclass(w.category, category)]


def test_of_a_run_each_warning_is_told_once_at_the_call():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mj.sample(targets.gaussian([1.0]), progress=False, **CUT_SHORT)
        line = inspect.currentframe().f_lineno - 1
    assert lines_of(caught, mj.SamplingWarning) == [line] * len(caught)
    assert len({str(w.message) for w in caught}) == len(caught) > 0


def test_of_a_density_in_python_at_the_call():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mj.as_target(lambda x: (-0.5 * x @ x, -x), 2)
        line = inspect.currentframe().f_lineno - 1
    assert lines_of(caught, mj.SlowDensityWarning) == [line]


@pytest.mark.parametrize("how", ["sample", "compiled", "background"])
def test_of_a_pymc_model_at_the_call_whichever_it_is(how):
    pm = pytest.importorskip("pymc")
    import mjhmc_numba.pymc as mp

    with pm.Model() as model:
        pm.Normal("x")
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    options = CUT_SHORT | quiet
    options["random_seed"] = options.pop("seed")
    compiled = mp.compile(model, progressbar=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if how == "sample":
            mp.sample(model=model, **options)
            line = inspect.currentframe().f_lineno - 1
        elif how == "compiled":
            compiled.sample(**options)
            line = inspect.currentframe().f_lineno - 1
        else:
            run = compiled.sample(**options, blocking=False)
            run.wait()
            line = inspect.currentframe().f_lineno - 1
    assert set(lines_of(caught, mj.SamplingWarning)) == {line}
