"""How far chains are that run elsewhere, and the wish that they stop.

Dask carries reports as events, from its workers over the scheduler to the client. For any other
executor they are datagrams to this process: a few numbers behind a random token, which workers on
this machine send over the loopback interface. A datagram that is lost, or one that no network
lets through, costs a picture of the progress and nothing else.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, NamedTuple

from mjhmc_numba.executors.calls import is_dask
from mjhmc_numba.progress import ChainProgress

__all__ = ["Reports", "reporting"]

REPORT_SECONDS = 0.2  # from one to the next; a person sees no difference
TOKEN_BYTES = 16  # 128 bits: nobody guesses them
LARGEST_DATAGRAM = 512  # bytes of a datagram

PHASES = ("waiting", "warmup", "draws", "done")
# Chain and the number of this start of it; done, total, phase, divergences, step size, gradients,
# draws.
FORMAT = struct.Struct("<qQqqqqdqq")
STOP = b"stop"


def _pack(chain: int, start: int, row: ChainProgress) -> bytes:
    numbers = list(row)
    numbers[2] = PHASES.index(row.phase)
    return FORMAT.pack(chain, start, *numbers)


def _unpack(data: bytes) -> tuple[int, int, ChainProgress]:
    chain, start, *numbers = FORMAT.unpack(data)
    row = ChainProgress(*numbers)
    return chain, start, row._replace(phase=PHASES[numbers[2]])


def _new_socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


# ---------------------------------------------------------------------------- for a worker


class Datagrams(NamedTuple):
    """Where reports go as datagrams. Can be pickled."""

    host: str  # name of the machine
    address: str
    port: int
    token: bytes

    def open(self) -> _DatagramChannel:
        return _DatagramChannel(self)


class _DatagramChannel:
    def __init__(self, link: Datagrams):
        self._token = link.token
        near = link.host == socket.gethostname()
        self._socket = _new_socket()
        try:
            self._socket.connect(("127.0.0.1" if near else link.address, link.port))
        except OSError:
            self._socket.close()
            raise

    def send(self, report: bytes) -> None:
        self._socket.send(self._token + report)

    @property
    def is_stopped(self) -> bool:
        try:
            return self._socket.recv(LARGEST_DATAGRAM) == self._token + STOP
        except BlockingIOError:
            return False

    def close(self) -> None:
        self._socket.close()


class DaskEvents(NamedTuple):
    """Where reports go as Dask's events. Can be pickled."""

    topic: str

    def open(self) -> _DaskChannel:
        return _DaskChannel(self)


class _DaskChannel:
    def __init__(self, link: DaskEvents):
        from distributed import get_worker

        self._topic, self._worker = link.topic, get_worker()
        self._key = self._worker.get_current_task()

    def send(self, report: bytes) -> None:
        self._worker.log_event(self._topic, report)

    @property
    def is_stopped(self) -> bool:
        """A task that is cancelled goes on: its worker only forgets what it is for."""
        task = self._worker.state.tasks.get(self._key)
        return task is None or task.state == "cancelled"

    def close(self) -> None:
        pass


@contextlib.contextmanager
def reporting(
    link: Any, chain: int, progress: Callable[[], ChainProgress], stop: Callable[[], None]
) -> Iterator[None]:
    """In a worker: report from a thread how far a chain is, until the block ends.

    Parameters
    ----------
    link : object
        Of `Reports`; None where there is no way back.
    chain : int
        Its number.
    progress : callable
        Tells how far it is.
    stop : callable
        Called once the caller wants it to stop.
    """
    try:
        channel = None if link is None else link.open()
    except Exception:  # no network, or no worker of Dask: reports are not worth a chain
        channel = None
    if channel is None:
        yield
        return
    ended, start = threading.Event(), secrets.randbits(64)

    def report() -> None:
        while True:
            with contextlib.suppress(Exception):
                channel.send(_pack(chain, start, progress()))
            if ended.wait(REPORT_SECONDS):
                return
            with contextlib.suppress(Exception):
                if channel.is_stopped:
                    stop()

    thread = threading.Thread(target=report, name="mjhmc-report", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        channel.close()


# ---------------------------------------------------------------------------- for the caller


class Reports:
    """The last report of each chain, as a context manager.

    Parameters
    ----------
    executor : object
        Where the chains run.

    Attributes
    ----------
    link : object
        To be sent with each chain; None where there is no way back.
    """

    def __init__(self, executor: Any):
        self.link: Any = None
        self._client: Any = None
        self._socket: socket.socket | None = None
        self._latest: dict[int, ChainProgress] = {}
        self._starts: dict[int, set[int]] = {}
        self._workers: set[tuple] = set()
        self._is_stopping = False
        if is_dask(executor):
            self._client = executor
            self.link = DaskEvents(f"mjhmc-{secrets.token_hex(8)}")
            executor.subscribe_topic(self.link.topic, self._note_event)
        else:
            with contextlib.suppress(OSError):
                self._listen(_is_local(executor))

    def _listen(self, local: bool) -> None:
        host = socket.gethostname()
        address = "127.0.0.1" if local else socket.gethostbyname(host)
        self._socket = _new_socket()
        self._socket.bind(("127.0.0.1" if local else "", 0))
        port = self._socket.getsockname()[1]
        self.link = Datagrams(host, address, port, secrets.token_bytes(TOKEN_BYTES))

    def __enter__(self) -> Reports:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.unsubscribe_topic(self.link.topic)
        if self._socket is not None:
            self._socket.close()

    def read(self) -> None:
        """Take in what has come; answer it with the wish to stop, if there is one."""
        while self._socket is not None:
            try:
                data, sender = self._socket.recvfrom(LARGEST_DATAGRAM)
            except OSError:  # nothing more
                return
            token, report = data[:TOKEN_BYTES], data[TOKEN_BYTES:]
            if secrets.compare_digest(token, self.link.token) and len(report) == FORMAT.size:
                self._workers.add(sender)
                self._note(report)
                if self._is_stopping:
                    self._answer(sender)

    def _answer(self, sender: Any) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError):
            self._socket.sendto(self.link.token + STOP, sender)

    def _note_event(self, event: tuple) -> None:
        self._note(event[1])

    def _note(self, report: bytes) -> None:
        chain, start, row = _unpack(report)
        self._latest[chain] = row
        self._starts.setdefault(chain, set()).add(start)

    def progress(self, chain: int) -> ChainProgress | None:
        """The last report of a chain; None if there is none."""
        return self._latest.get(chain)

    @property
    def started_again(self) -> set[int]:
        """Chains that an executor has started more than once: their worker died."""
        return {chain for chain, starts in self._starts.items() if len(starts) > 1}

    def stop(self) -> None:
        """Ask the chains to stop at their next report."""
        self._is_stopping = True
        for sender in self._workers:
            self._answer(sender)


def _is_local(executor: Any) -> bool:
    """Whether its workers run on this machine for certain."""
    local = isinstance(executor, ThreadPoolExecutor | ProcessPoolExecutor)
    return local or type(executor).__module__.startswith("loky.")
