"""The folders of models that lie beside the programs: they need nothing that is not in a clone."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from pytensor.compile.mode import Mode

from tests.benchmark.programs import PROGRAMS, importable

# By how much the log density changes from a point near the initial one to another, from the model
# files that these were made of. Constants drop out: PyMC 6.4 corrected that of `LKJCholeskyCov`.
CHANGES = json.loads(Path(__file__).with_name("changes_of_log_density.json").read_text())
FOLDERS = ("posteriors", "gallery")


@pytest.fixture(scope="module")
def folders():
    """`MODELS` of each folder, imported as the programs do."""
    with importable():
        import problems

        yield {name: problems.bench_models(PROGRAMS / name) for name in FOLDERS}


@pytest.fixture(scope="module")
def built(folders):
    return {name: entry() for models in folders.values() for name, entry in models.items()}


def change_of_log_density(model) -> float:
    logp = model.compile_logp(mode=Mode(linker="py", optimizer="fast_compile"))

    def shifted(by: float) -> float:
        start = model.initial_point().items()
        return float(logp({k: np.asarray(v, float) + by * np.cos(np.size(v)) for k, v in start}))

    return shifted(0.1) - shifted(0.05)


def shapes(entry, model) -> dict[str, tuple[int, ...]]:
    return {v: tuple(model[v].shape.eval()) for v in entry.var_names}


def test_there_are_twenty_posteriors_and_twelve_models_of_the_gallery(folders):
    assert {name: len(models) for name, models in folders.items()} == {
        "posteriors": 20,
        "gallery": 12,
    }


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation")
def test_models_state_the_densities_that_they_were_made_of(built):
    assert set(built) == set(CHANGES)
    for name, model in built.items():
        assert change_of_log_density(model) == pytest.approx(CHANGES[name], rel=1e-8), name


def test_each_scored_scalar_of_a_posterior_has_known_moments(folders, built):
    for name, entry in folders["posteriors"].items():
        names = entry.param_names(shapes(entry, built[name]))
        known = entry.reference().take(names)
        assert list(known.names) == names
        np.testing.assert_allclose(known.var, known.sd**2, rtol=1e-3, err_msg=name)
        np.testing.assert_allclose(known.m2, known.var + known.mean**2, rtol=1e-3, err_msg=name)
        assert (known.kind == "exact") == (not known.mcse_mean.any())


def test_all_free_variables_of_the_gallery_are_scored(folders, built):
    for name, entry in folders["gallery"].items():
        assert set(entry.var_names) == {v.name for v in built[name].free_RVs}
        assert entry.reference() is None


def test_data_are_small_and_each_file_is_named_with_its_source():
    files = [file for folder in FOLDERS for file in (PROGRAMS / folder).rglob("*.json.gz")]
    assert sum(file.stat().st_size for file in files) < 400_000
    sources = (PROGRAMS / "posteriors/README.md").read_text()
    for file in files:
        assert f"`{file.name.removesuffix('.json.gz')}`" in sources, file
        assert isinstance(json.loads(gzip.decompress(file.read_bytes())), dict)


def test_folders_with_modules_of_the_same_name_do_not_mix(tmp_path):
    with importable():
        import problems

        for name in "ab":
            (tmp_path / name).mkdir()
            (tmp_path / name / "models.py").write_text("from part import MODELS\n")
            (tmp_path / name / "part.py").write_text(f"MODELS = {{'{name}': None}}\n")
        for name in "ab":
            assert list(problems.bench_models(tmp_path / name)) == [name]


def test_an_unknown_model_or_folder_is_refused_with_those_that_are_known():
    with importable():
        import argparse

        import problems

        with pytest.raises(SystemExit, match=r"unknown models: nonsense; known: .*arK.*banana"):
            problems.choose("arK,nonsense", problems.POSTERIORS)
        with pytest.raises(argparse.ArgumentTypeError, match=r"no models\.py in 'nowhere'"):
            problems.folder("nowhere")
        assert problems.folder("gallery") == PROGRAMS / "gallery"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation")
@pytest.mark.parametrize(
    "name", ["arK", "earn_height", "eight_schools_noncentered", "garch11", "kidscore_interaction"]
)
def test_moments_agree_with_the_reference_draws_of_posteriordb(seeds, folders, name):
    """`correctness.py` for some models that take seconds; it writes down all of them."""
    with importable():
        import correctness

        seed = int(seeds(160).generate_state(1)[0])
        row = correctness.check(name, folders["posteriors"][name], seed)
    assert row["reference"] == "posteriordb"
    assert max(row["z_mean"], row["z_second"]) < 4.5
    assert row["r_hat"] < 1.01
