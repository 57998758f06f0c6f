"""A plugin of pytest for `audit.py`: tests that ask for seeds, each with many, in one process.

The environment says with which (MJHMC_NUMBA_AUDIT, JSON): how many seeds of each test were run
before, up to which seed to go, after how many seconds to end, and where to write what came of it.
"""

import json
import os
import time

import pytest

AUDIT = json.loads(os.environ.get("MJHMC_NUMBA_AUDIT", "{}"))


class Audit:
    """Counts runs and failures of each test, until the time is over."""

    def __init__(self):
        self.until = time.monotonic() + AUDIT["seconds"]
        self.rows = {}
        self.running = None

    def pytest_generate_tests(self, metafunc):
        if "seeds" in metafunc.fixturenames:
            wanted = range(1, AUDIT["seeds"] + 1)
            # Seed by seed, as pytest sorts tests by the parameters of a whole session.
            metafunc.parametrize(
                "seeds", wanted, indirect=True, ids=[f"seed-{n}" for n in wanted], scope="session"
            )

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        chosen = [item for item in items if self._is_wanted(item)]
        if chosen:
            chosen.sort(key=lambda item: seed_of(item))  # stable: modules stay together
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen

    def _is_wanted(self, item):
        seed = seed_of(item)
        return seed is not None and seed > AUDIT["done"].get(name_of(item), 0)

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            return
        test, seed = self.running
        row = self.rows.setdefault(test, {"last": 0, "failed": [], "seconds": 0.0})
        row["last"] = seed
        row["seconds"] += report.duration
        if report.failed and seed not in row["failed"]:
            row["failed"].append(seed)

    def pytest_runtest_protocol(self, item, nextitem):
        self.running = name_of(item), seed_of(item)

    def pytest_runtest_logfinish(self, nodeid, location):
        if time.monotonic() > self.until:
            pytest.exit("the time is over", returncode=0)

    def pytest_sessionfinish(self, session):
        with open(AUDIT["out"], "w") as file:
            json.dump(self.rows, file)


def seed_of(item):
    """With which seed a test is to be run; None if it asks for none."""
    call = getattr(item, "callspec", None)
    return None if call is None else call.params.get("seeds")


def name_of(item):
    """Of the test, without the seed."""
    rest = item.nodeid.replace(f"seed-{seed_of(item)}", "")
    return rest.replace("[]", "").replace("[-", "[").replace("-]", "]").replace("--", "-")


def pytest_configure(config):
    if AUDIT:
        config.pluginmanager.register(Audit())
