"""Data as tables of JSON, which hold nothing but data: numbers, texts, collections, paths, and our own dataclasses.

In a table a value stands before those that it is part of, and these name it by its number: what is one object stays
one.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path, PosixPath
from typing import Any

_PACKAGE = "opsplice."
_PLAIN = (str, int, float, type(None))  # a bool is an int
_COLLECTIONS: dict[str, type] = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}


def packed(root: Any) -> bytes:
    """A value as bytes. Raises TypeError for one that holds other things than data."""
    return json.dumps(table_of(root), separators=(",", ":")).encode()


def unpacked(data: bytes) -> Any:
    """The value that bytes were made of. Raises ValueError for other bytes."""
    try:
        return read_table(json.loads(data))
    except (AttributeError, ImportError, IndexError, KeyError, TypeError) as error:
        raise ValueError("no table of data") from error


def table_of(root: Any) -> list[Any]:
    """A value as a table, of which the last entry is the value. Raises TypeError for what is no data."""
    table: list[Any] = []
    places: dict[Any, int] = {}
    kept = []  # so that no identity is given anew

    def place(value: Any) -> int:
        is_plain = isinstance(value, _PLAIN)
        key = (type(value), repr(value)) if is_plain else id(value)
        if key not in places:
            entry = value if is_plain else [_kind(value), *map(place, _parts(value))]
            kept.append(value)
            places[key] = len(table)
            table.append(entry)
        return places[key]

    place(root)
    return table


def _kind(value: Any) -> str:
    kind = type(value)
    if kind in (dict, PosixPath) or _COLLECTIONS.get(kind.__name__) is kind:
        return str(kind.__name__)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if not name.startswith(_PACKAGE) or not dataclasses.is_dataclass(kind):
        raise TypeError(f"{name} is no data")
    return name


def _parts(value: Any) -> Sequence[Any]:
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    return [str(value)] if isinstance(value, Path) else list(value)


def read_table(table: Sequence[Any]) -> Any:
    """The value that a table is of. Raises ValueError, and others, for what is none."""
    made: list[Any] = []
    known: dict[str, Callable[[list[Any]], Any]] = {}
    for entry in table:
        if type(entry) is not list:
            made.append(entry)
            continue
        kind = entry[0]
        if kind not in known:
            known[kind] = _maker(kind)
        made.append(known[kind]([made[part] for part in entry[1:]]))
    return made[-1]


def _maker(kind: str) -> Callable[[list[Any]], Any]:
    """Makes values of a kind from their parts."""
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind]
    if kind == "dict":
        return lambda parts: dict(zip(parts[::2], parts[1::2], strict=True))
    if kind == "PosixPath":
        return lambda parts: Path(*parts)
    module, _, name = kind.partition(":")
    if not module.startswith(_PACKAGE):
        raise ValueError(f"{kind} is not ours")
    node = getattr(importlib.import_module(module), name)
    names = [field.name for field in dataclasses.fields(node)]

    def make(parts: list[Any]) -> Any:
        made = object.__new__(node)
        made.__dict__.update(zip(names, parts, strict=True))  # as its own `__init__` does, which checks nothing
        return made

    return make
