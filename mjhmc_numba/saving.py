"""What something needs to go on, as plain data and back.

A class declares it once: the fields of a dataclass or NamedTuple, with their types. `save` turns
an object into dictionaries, lists, arrays, numbers and text, which can be stored anywhere without
pickle; `load` makes the object again from its type. A field that is added is saved with the others,
and an attribute that is not declared as a field is an error.

A field with the metadata `GIVEN` is not saved: who loads hands it over by its name.

>>> from typing import NamedTuple
>>> class Counter(NamedTuple):
...     seen: np.ndarray
...     total: int
>>> saved = save(Counter(np.zeros(2), 3))
>>> saved
{'seen': array([0., 0.]), 'total': 3}
>>> load(Counter, saved)
Counter(seen=array([0., 0.]), total=3)
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["GIVEN", "load", "save"]

# Metadata of a field that is not saved but given by who loads.
GIVEN = {"given": True}

_PLAIN = (bool, int, float, str, bytes, type(None))


def save(value: Any) -> Any:
    """Plain data that share no memory with `value`.

    Parameters
    ----------
    value : Any
        A number, text, None, an array, a random generator, or lists, tuples, dictionaries,
        NamedTuples and dataclasses of such.

    Returns
    -------
    Any
        Dictionaries, lists, arrays, numbers, text and None.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("An array of objects cannot be saved.")
        return value.copy()
    if isinstance(value, np.random.Generator):
        return save(value.bit_generator.state)
    if isinstance(value, dict):
        return {name: save(item) for name, item in value.items()}
    if _is_declared(type(value)):
        _check_declared(value)
        return {name: save(getattr(value, name)) for name, _ in _saved_fields(type(value))}
    if isinstance(value, (list, tuple)):
        return [save(item) for item in value]
    raise TypeError(f"A {type(value).__name__} cannot be saved: it is no dataclass or NamedTuple.")


def load(kind: Any, saved: Any, **given: Any) -> Any:
    """The object that was saved.

    Parameters
    ----------
    kind : type
        Its type, as in an annotation.
    saved : Any
        What `save` returned. It is copied.
    **given : Any
        Values of fields that are not saved, at any depth, by name.

    Returns
    -------
    Any
        An object that shares no memory with `saved`.
    """
    if saved is None:
        return None
    if kind is np.random.Generator:
        return _generator(saved)
    if isinstance(kind, type) and _is_declared(kind):
        return _load_declared(kind, saved, given)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (a for a in arguments if a is not type(None))  # one type, or None
        return load(inner, saved, **given)
    if origin is list:
        return [load(arguments[0], item, **given) for item in saved]
    if origin is tuple:
        kinds = arguments[:1] * len(saved) if arguments[1:] == (...,) else arguments
        return tuple(load(k, item, **given) for k, item in zip(kinds, saved, strict=True))
    if origin is dict:
        return {name: load(arguments[1], item, **given) for name, item in saved.items()}
    return save(saved)  # plain already


def _load_declared(kind: type, saved: dict, given: dict[str, Any]) -> Any:
    wanted = dict(_saved_fields(kind))
    if saved.keys() != wanted.keys():
        unlike = ", ".join(sorted(saved.keys() ^ wanted.keys()))
        raise ValueError(f"What was saved is no {kind.__name__} of this version: see {unlike}.")
    values = {name: load(wanted[name], saved[name], **given) for name in wanted}
    if not dataclasses.is_dataclass(kind):
        return kind(**values)
    begun = {f.name: f.init for f in dataclasses.fields(kind)}
    for name in begun.keys() - values.keys():
        if name not in given:
            raise TypeError(f"To load a {kind.__name__}, give its {name}.")
        values[name] = given[name]
    # The constructor validates; what it does not take is set afterwards.
    loaded = kind(**{name: value for name, value in values.items() if begun[name]})
    for name, value in values.items():
        if not begun[name]:
            object.__setattr__(loaded, name, value)
    return loaded


def _is_declared(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _saved_fields(kind: type) -> list[tuple[str, Any]]:
    """Name and type of all fields that are saved."""
    hints = typing.get_type_hints(kind)
    if not dataclasses.is_dataclass(kind):
        return [(name, hints[name]) for name in kind._fields]  # type: ignore[attr-defined]
    return [(f.name, hints[f.name]) for f in dataclasses.fields(kind) if "given" not in f.metadata]


def _check_declared(value: Any) -> None:
    declared = {name for name, _ in _saved_fields(type(value))}
    if dataclasses.is_dataclass(value):
        declared |= {f.name for f in dataclasses.fields(value)}
    forgotten = sorted(getattr(value, "__dict__", {}).keys() - declared)
    if forgotten:
        raise TypeError(
            f"{', '.join(forgotten)} of a {type(value).__name__} would be lost: declare it as a "
            "field."
        )


def _generator(state: dict) -> np.random.Generator:
    make: Callable[[], Any] = getattr(np.random, state["bit_generator"])
    bits = make()
    bits.state = state
    return np.random.Generator(bits)
