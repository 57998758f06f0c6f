"""What calls share crosses to a worker once."""

import pickle

import pytest

from mjhmc_numba.executors import Shipped, shipping


class Counted:
    """Counts how many times it was pickled and unpacked in this process."""

    packed = unpacked = 0

    def __init__(self, name):
        self.name = name

    def __getstate__(self):
        Counted.packed += 1
        return self.__dict__

    def __setstate__(self, state):
        Counted.unpacked += 1
        self.__dict__.update(state)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(shipping, "_kept", shipping.OrderedDict())
    monkeypatch.setattr(Counted, "packed", 0)
    monkeypatch.setattr(Counted, "unpacked", 0)


def there(shipped):
    return pickle.loads(pickle.dumps(shipped)).value


def test_it_is_pickled_and_unpacked_once():
    shipped = Shipped(Counted("a"))
    assert there(shipped) is there(shipped)
    assert (Counted.packed, Counted.unpacked) == (1, 1)


def test_equal_bytes_of_another_run_are_not_unpacked_again():
    assert there(Shipped(Counted("a"))) is there(Shipped(Counted("a")))
    assert there(Shipped(Counted("a"))).name == "a"
    assert there(Shipped(Counted("b"))).name == "b"


def test_a_worker_keeps_the_last_few():
    first = there(Shipped("model 0"))
    for k in range(1, shipping.KEPT + 1):
        assert there(Shipped(f"model {k}")) == f"model {k}"
    assert len(shipping._kept) == shipping.KEPT
    assert first == there(Shipped("model 0"))


def test_closures_cross():
    scale = 3.0
    assert there(Shipped(lambda x: scale * x))(2.0) == 6.0
