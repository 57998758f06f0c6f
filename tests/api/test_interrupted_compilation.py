"""Ctrl-C while the kernel is compiled ends the run at once, and watchers hear of compilations."""

import os
import signal
import threading
import time

import pytest

from mjhmc_numba.kernel.waiting import compile_in_thread, stop_if_cancelled, watched
from tests.new_process import seconds_to_interrupt

COMPILE = """
import time
from mjhmc_numba.process import Process
print("ready", flush=True)
try:
    Process.compile_kernel()
    print("finished", flush=True)
except KeyboardInterrupt:
    print(time.time(), flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("delay", [0.3, 1.0, 2.0, 3.0])
def test_the_first_press_ends_the_compilation_of_the_kernel(delay, tmp_path):
    seconds = seconds_to_interrupt(COMPILE, delay, cache=tmp_path / "cache")
    assert seconds is not None
    assert seconds < 1.0


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_an_interrupted_compilation_stops_at_the_next_function():
    ended = threading.Event()

    def compile_for_ever():
        try:
            while True:
                stop_if_cancelled()
                time.sleep(0.01)
        finally:
            ended.set()

    press = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    press.start()
    with pytest.raises(KeyboardInterrupt):
        compile_in_thread("sampler", compile_for_ever)
    assert ended.wait(5.0)


def test_what_a_compilation_returns_or_raises_comes_back():
    def fail():
        raise ValueError("no type")

    assert compile_in_thread("model", lambda: 3) == 3
    with pytest.raises(ValueError, match="no type"):
        compile_in_thread("model", fail)


def test_watchers_are_told_of_the_beginning_and_the_end():
    told = []
    with watched(lambda what, seconds: told.append((what, seconds))):
        compile_in_thread("model", lambda: time.sleep(0.05))
    compile_in_thread("model", lambda: None)
    (first, began), (second, seconds) = told
    assert (first, began, second) == ("model", None, "model")
    assert seconds >= 0.05
