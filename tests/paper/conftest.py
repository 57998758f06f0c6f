"""The quick form of each figure, computed once, and drawn."""

import importlib

import pytest

from examples.paper.common import parameters


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """``quick("dynamics")``: what its `claims` say after a quick run, and the folder of it."""
    done = {}

    def run(name):
        if name not in done:
            place = tmp_path_factory.mktemp(name)
            module = importlib.import_module(f"examples.paper.{name}")
            module.compute(parameters(name, quick=True), place / "results")
            module.draw(place / "results", place / "figures")
            done[name] = module.claims(place / "results"), place
        return done[name]

    return run
