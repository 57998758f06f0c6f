"""A pytest plugin that writes the outcome of each test to the file $OUTCOMES, a JSON object."""

from __future__ import annotations

import json
import os

_found: dict[str, str] = {}


def pytest_runtest_logreport(report) -> None:
    known = _found.get(report.nodeid)
    if known == "failed" or (report.outcome == "passed" and report.when != "call"):
        return
    if report.outcome == "skipped" and hasattr(report, "wasxfail"):
        _found[report.nodeid] = "xfailed"
    elif report.when == "call" or report.outcome != "passed":
        _found[report.nodeid] = report.outcome


def pytest_collectreport(report) -> None:
    if report.failed:
        _found[report.nodeid] = "failed"


def pytest_sessionfinish(session) -> None:
    if not hasattr(session.config, "workerinput"):  # not in a worker of pytest-xdist
        with open(os.environ["OUTCOMES"], "w") as file:
            json.dump(_found, file)
