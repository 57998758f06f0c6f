"""Types and import contracts, on the package as it is installed."""

import inspect
import tomllib

import pytest

import mjhmc_numba
import mjhmc_numba.pymc
from mjhmc_numba import finite_ladder, targets, weights
from tests.installed.lint import ROOT, assemble, check

PUBLIC = [mjhmc_numba, mjhmc_numba.pymc, finite_ladder, targets, weights]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    assemble(folder)
    return folder


def test_all_contracts_are_kept(installed):
    code, messages = check("imports", installed)
    assert code == 0, messages
    assert "0 broken" in messages


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("mjhmc_numba/warmup/schedule.py", "import mjhmc_numba.run.seeds"),
        ("mjhmc_numba/kernel/rates.py", "import mjhmc_numba.errors"),
        ("mjhmc_numba/results.py", "import mjhmc_numba.pymc.errors"),
        ("mjhmc_numba/settings.py", "import pymc"),
        ("mjhmc_numba/pymc/step.py", "import mjhmc_numba.pymc.sampling"),
        ("mjhmc_numba/homeless.py", ""),
        ("mjhmc_numba/pymc/homeless.py", ""),
        ("mjhmc_numba/kernel/homeless.py", ""),
    ],
)
def test_an_import_against_the_stream_or_a_module_without_a_layer_is_noticed(tmp_path, file, line):
    assemble(tmp_path)
    path = tmp_path / file
    path.write_text((path.read_text() if path.exists() else "") + f"\n{line}\n")
    code, messages = check("imports", tmp_path)
    assert code != 0
    assert "1 broken" in messages or "2 broken" in messages


def test_each_package_has_a_contract_of_its_own():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    layers = [c for c in tool["importlinter"]["contracts"] if c["type"] == "layers"]
    assert all(c["exhaustive"] for c in layers)
    assert not any("(" in layer for c in layers for layer in c["layers"])
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "packages"
    ]
    assert sorted(name for c in layers for name in c["containers"]) == packages


def test_types_are_right(installed):
    code, messages = check("types", installed)
    assert code == 0, messages


def public_callables():
    """What a user calls: functions, and methods of classes, that are ours."""
    for module in PUBLIC:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing):
                for own, member in vars(thing).items():
                    function = inspect.unwrap(getattr(member, "__func__", member))
                    if inspect.isfunction(function) and (own == "__init__" or own[0] != "_"):
                        yield f"{module.__name__}.{name}.{own}", function
            elif inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", inspect.unwrap(thing)


@pytest.mark.parametrize(("name", "function"), sorted(public_callables()))
def test_public_signatures_have_types(name, function):
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    assert [p.name for p in parameters if p.annotation is p.empty] == []
    assert name.endswith("__init__") or signature.return_annotation is not signature.empty


def test_the_picture_of_the_rooms_shows_the_layers_in_their_order():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c for c in tool["contracts"] if c.get("containers") == ["mjhmc_numba"])["layers"]
    picture = (ROOT / "ARCHITECTURE.md").read_text().split("```")[1]
    rows = [line.split("  ") for line in picture.splitlines() if line[1:2].isalpha()]
    shown = [{word.strip() for word in row} for row in rows]
    assert len(shown) == len(layers)
    for row, layer in zip(shown, layers, strict=True):
        assert set(layer.split(" | ")) <= row
