"""Reports from where chains run, and the wish that they stop."""

import pickle
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mjhmc_numba.executors import Reports, reporting
from mjhmc_numba.executors import reports as module
from mjhmc_numba.progress import ChainProgress

ROW = ChainProgress(7, 10, "draws", 2, 0.25, 99, 7)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "REPORT_SECONDS", 0.01)


@pytest.fixture
def reports():
    with ThreadPoolExecutor(1) as executor, Reports(executor) as made:
        yield made


def until(condition, reports):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        reports.read()
        time.sleep(0.005)
    assert condition()


def test_the_last_report_of_each_chain_arrives(reports):
    link = pickle.loads(pickle.dumps(reports.link))
    with reporting(link, 3, lambda: ROW, lambda: None):
        until(lambda: reports.progress(3) is not None, reports)
    assert reports.progress(3) == ROW
    assert reports.progress(2) is None
    assert reports.started_again == set()


def test_a_chain_that_was_started_twice_is_known(reports):
    for _ in range(2):
        with reporting(reports.link, 3, lambda: ROW, lambda: None):
            pass
    until(lambda: reports.started_again == {3}, reports)


def test_a_chain_is_told_to_stop_even_if_it_begins_later(reports):
    for begins_later in (False, True):
        stopped = threading.Event()
        with reporting(reports.link, 0, lambda: ROW, stopped.set):
            if not begins_later:
                until(lambda: reports.progress(0) is not None, reports)
                assert not stopped.is_set()
                reports.stop()
            until(stopped.is_set, reports)


def test_strangers_are_not_heard(reports):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        report = module._pack(0, 1, ROW)
        for data in (b"", b"x" * 600, report, bytes(module.TOKEN_BYTES) + report):
            stranger.sendto(data, ("127.0.0.1", reports.link.port))
        stranger.sendto(reports.link.token + report[:-1], ("127.0.0.1", reports.link.port))
    with reporting(reports.link, 1, lambda: ROW, lambda: None):
        until(lambda: reports.progress(1) is not None, reports)
    assert reports.progress(0) is None


def test_no_network_costs_no_chain():
    far = module.Datagrams("elsewhere", "256.0.0.1", 1, b"")
    for link in (None, far, module.DaskEvents("topic")):
        with reporting(link, 0, lambda: ROW, lambda: None):
            done = True
    assert done
