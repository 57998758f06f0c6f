"""The case studies of the benchmark: what `problems.py` asks of a folder of models."""

import numpy as np
import pytest
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from tests.benchmark.programs import PROGRAMS, importable


@pytest.fixture(scope="module")
def studies():
    """`MODELS`, imported as the programs do."""
    with importable():
        import problems

        yield problems.bench_models(PROGRAMS / "case_studies")


@pytest.fixture(scope="module")
def built(studies):
    return {name: study() for name, study in studies.items()}


def scored_shapes(study, model) -> dict[str, tuple[int, ...]]:
    return {name: model[name].type.shape for name in study.var_names}


def data(model) -> list[np.ndarray]:
    """Observed values, and all constants that the likelihood is made of."""
    observed = [model.rvs_to_values[variable] for variable in model.observed_RVs]
    variables = ancestors([*observed, *model.observed_RVs, *model.potentials])
    constants = [v.data for v in variables if isinstance(v, Constant)]
    return [value for value in constants if isinstance(value, np.ndarray)]


def test_there_are_twenty_two_under_their_own_names(studies):
    assert len(studies) == 22
    assert all(study.name == name for name, study in studies.items())


def test_all_variables_that_are_scored_are_in_the_model(studies, built):
    for name, study in studies.items():
        known = {v.name for v in built[name].free_RVs + built[name].deterministics}
        assert study.var_names, name
        assert set(study.var_names) <= known, name


def test_each_scored_scalar_has_a_name_of_its_own(studies, built):
    for name, study in studies.items():
        shapes = scored_shapes(study, built[name])
        names = study.param_names(shapes)
        assert len(set(names)) == len(names) == sum(map(np.prod, shapes.values())), name


def test_names_of_scalars_have_indices_from_one_in_the_order_of_ravel(studies):
    shapes = {"phi": (2,), "kappa": (), "theta": (1, 2)}
    names = ["phi[1]", "phi[2]", "kappa", "theta[1,1]", "theta[1,2]"]
    assert studies["dirichlet_multinomial"].param_names(shapes) == names


def test_no_moments_are_known(studies):
    assert all(study.reference() is None for study in studies.values())


def test_a_model_built_again_is_another_one_with_the_same_data(studies, built):
    for name, study in studies.items():
        again = study()
        assert again is not built[name]
        first, second = data(built[name]), data(again)
        assert max(value.size for value in first) >= 30, name
        assert len(first) == len(second), name
        assert all(map(np.array_equal, first, second)), name
