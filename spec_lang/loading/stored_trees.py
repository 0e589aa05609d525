"""Trees of specs in the user's cache, so that a process need not read again what another has read.

    key: the code of `spec_lang`, and what trees are made from        <cache>/specs: a table of values

In the table a value stands before those that it is part of, and these name it by its number: what is one object stays
one. Values are data alone: numbers, texts, collections, and the dataclasses of `spec_lang`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path, PosixPath
from typing import Any, TypeVar, cast

import lark

from opsplice.common.store import key_of, recalled
from opsplice.spec_lang import garbage

_PACKAGE = "opsplice.spec_lang."
_ROOT = Path(__file__).parents[1]
_PLAIN = (str, int, float, type(None))  # a bool is an int
_COLLECTIONS: dict[str, type] = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}
_LARGEST = 64 << 20

_Made = TypeVar("_Made")


def stored(parts: Sequence[str], make: Callable[[], _Made]) -> _Made:
    """What `make` gives, or what it gave when it was made from the same parts. Raises what it raises."""

    def read(data: bytes) -> _Made:
        with garbage.kept():
            return cast("_Made", read_table(json.loads(data)))

    def write(made: _Made) -> bytes:
        return json.dumps(table_of(made), separators=(",", ":")).encode()

    key = key_of(_own_code(), lark.__version__, json.dumps(parts))
    return recalled("specs", key, _LARGEST, read=read, make=make, write=write)


@functools.cache
def _own_code() -> str:
    """The digest of the files that read specs."""
    files = sorted(path for path in _ROOT.rglob("*") if path.suffix in (".py", ".lark"))
    return key_of(*(path.read_bytes() for path in files))


# ---- the table -------------------------------------------------------------------------------------------------------


def table_of(root: Any) -> list[Any]:
    """A value as a table, of which the last entry is the value. Raises TypeError for what is no data of a spec."""
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
        raise TypeError(f"{name} is no data of a spec")
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
        raise ValueError(f"{kind} is not of specs")
    node = getattr(importlib.import_module(module), name)
    names = [field.name for field in dataclasses.fields(node)]

    def make(parts: list[Any]) -> Any:
        made = object.__new__(node)
        made.__dict__.update(zip(names, parts, strict=True))  # as its own `__init__` does, which checks nothing
        return made

    return make
