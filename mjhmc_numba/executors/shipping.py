"""An object that many calls need, unpacked once per worker."""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from hashlib import sha256
from typing import Any

__all__ = ["Shipped"]

# Objects that a worker keeps: the models of a few runs that take turns on it. One that is kept no
# longer is only compiled again.
KEPT = 8

_kept: OrderedDict[str, Any] = OrderedDict()
_lock = threading.RLock()  # what is shipped may contain what was


class Shipped:
    """An object on its way to workers.

    It is pickled once, however many calls carry it. A worker that has unpacked the same bytes
    before takes what it made of them then: a density is compiled once per worker and not once
    per chain. Within one process nothing is pickled.

    Parameters
    ----------
    value : object
        Not to be changed by the calls, which share it.
    """

    def __init__(self, value: Any):
        self.value = value
        self._packed: tuple[str, bytes] | None = None

    def __reduce__(self) -> tuple:
        if self._packed is None:
            data = _pickler().dumps(self.value)
            self._packed = sha256(data).hexdigest(), data
        return _unpack, self._packed


def _pickler() -> Any:
    """Cloudpickle where it is installed: it takes closures and what `__main__` defines."""
    try:
        import cloudpickle
    except ImportError:
        return pickle
    return cloudpickle


def _unpack(key: str, data: bytes) -> Shipped:
    with _lock:  # threads of one worker wait for the first of them
        if key not in _kept:
            _kept[key] = Shipped(pickle.loads(data))
            if len(_kept) > KEPT:
                _kept.popitem(last=False)
        _kept.move_to_end(key)
        return _kept[key]
