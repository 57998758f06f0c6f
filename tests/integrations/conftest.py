"""What several tests of the step method share."""

import pytest

from tests.integrations import models
from tests.integrations.chains import sample


@pytest.fixture(scope="module")
def model():
    return models.gaussian()


@pytest.fixture(scope="module")
def sequential(model):
    return sample(model, discard_tuned_samples=False)


@pytest.fixture
def zarr_backend(monkeypatch):
    """PyMC's, where it works: `make test-zarr` has an environment in which it does."""
    backend = pytest.importorskip("pymc.backends.zarr")
    if not backend._zarr_available:
        pytest.skip("PyMC's backend works with zarr 2 alone; what else is installed wants zarr 3")
    pickles = pytest.importorskip("numcodecs.pickles")
    # PyMC pickles the state of a step; newer versions of numcodecs ask before they read it.
    monkeypatch.setattr(pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    return backend
