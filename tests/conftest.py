"""Seeds of the tests: fixed, and shifted together for an audit of their false alarms."""

import os

import numpy as np
import pytest


@pytest.fixture(scope="session")
def seeds():
    """Seeds by number: ``seeds(3)`` is the same sequence in every run.

    The environment variable MJHMC_NUMBA_TEST_SEED moves all of them at once. A statistical test
    must hold for (nearly) every value of it, or its bound is wrong.
    """
    shift = int(os.environ.get("MJHMC_NUMBA_TEST_SEED", "0"))
    return lambda *numbers: np.random.SeedSequence([shift, *numbers])
