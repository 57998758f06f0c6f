"""Models whose modes are known: the parameters of the simulation lie in the one with the mass."""

import numpy as np
import pytest
from pytensor.compile.mode import Mode

from tests.benchmark.programs import PROGRAMS, importable

PLAIN = Mode(linker="py", optimizer="fast_compile")  # each operation in Python, as written
FEWEST = 8
with importable():
    import modes
    import problems

    FOLDER = problems.bench_module(PROGRAMS / "several_modes")


def log_density(name: str):
    """A function of a point's values, and the point of the truth."""
    model = FOLDER.MODELS[name]()
    inputs = model.continuous_value_vars
    logp = model.compile_fn(model.logp(), inputs=inputs, mode=PLAIN, point_fn=False)
    point = modes.point_at(model, FOLDER.TRUTH[name])
    return lambda at: float(logp(*(at[v.name] for v in inputs))), point


def test_there_are_enough_with_data_that_stay_the_same():
    assert len(FOLDER.MODELS) >= FEWEST
    for name, entry in FOLDER.MODELS.items():
        first, second = (entry().initial_point() for _ in range(2))
        assert first.keys() == second.keys(), name


@pytest.mark.parametrize(
    "name", ["labelled_mixture", "mixture_of_scales", "two_lines", "two_peaks"]
)
def test_the_truth_fits_far_better_than_the_same_with_parts_exchanged(name):
    logp, point = log_density(name)
    exchanged = {k: v[::-1].copy() if v.shape == (2,) else v for k, v in point.items()}
    assert logp(point) > logp(exchanged) + 20


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of models, which say what they like
@pytest.mark.parametrize("name", FOLDER.MODELS)
def test_no_start_of_a_chain_is_as_good_as_the_truth(name):
    logp, point = log_density(name)
    start, rng = FOLDER.MODELS[name]().initial_point(), np.random.default_rng(1)
    for _ in range(5):
        there = {k: v + rng.uniform(-1, 1, np.shape(v)) for k, v in start.items()}
        assert logp(there) < logp(point)
