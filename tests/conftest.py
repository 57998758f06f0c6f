"""Seeds of the tests: fixed, and shifted together for an audit of their false alarms."""

import os
import signal

import numpy as np
import pytest


@pytest.fixture(scope="session")
def seeds(request):
    """Seeds by number: ``seeds(3)`` is the same sequence in every run.

    The environment variable MJHMC_NUMBA_TEST_SEED moves all of them at once, and so does
    `tests/statistical/audit.py`. A statistical test must hold for (nearly) every value of it, or
    its bound is wrong.
    """
    shift = getattr(request, "param", int(os.environ.get("MJHMC_NUMBA_TEST_SEED", "0")))
    return lambda *numbers: np.random.SeedSequence([shift, *numbers])


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_interrupts():
    """A job in the background ignores Ctrl-C, and so would the tests of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
