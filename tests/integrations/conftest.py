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
