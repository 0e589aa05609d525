"""JSON from strangers: of a known size, without duplicate keys or numbers that are not integers, read field by field.

A field of the wrong type is an OpspliceError that says where it stands. `canonical` writes the same values as the same
bytes, always.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from opsplice.common.errors import OpspliceError

Value = TypeVar("Value")

LARGEST = 4 << 20

# Above what any size, count or version is.
_MOST_DIGITS = 18


# What Go's encoder escapes, though JSON does not ask for it.
_ESCAPED = {letter: f"\\u{letter:04x}" for letter in (ord("<"), ord(">"), ord("&"), 0x2028, 0x2029)}


def canonical(value: Any, sort_keys: bool = True) -> bytes:
    """No spaces, UTF-8, and escaped as Go does, so that tools that write it again write the same bytes.

    sort_keys: else they stay in their order.
    """
    text = json.dumps(value, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.translate(_ESCAPED).encode()


def parse(data: bytes, what: str) -> Table:
    """The object that `data` holds. what: says in errors what was read. Raises OpspliceError."""
    if len(data) > LARGEST:
        raise OpspliceError(f"{what} has {len(data)} bytes; at most {LARGEST >> 20} MiB are read")
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=_once, parse_int=_integer, parse_float=_refused, parse_constant=_refused
        )
    except RecursionError:
        raise OpspliceError(f"{what} is not valid JSON: it is nested too deep") from None
    except ValueError as error:
        raise OpspliceError(f"{what} is not valid JSON: {error}") from None
    return Table(what, "", _typed(value, dict, what, ""))


@dataclass(frozen=True)
class Table:
    """A JSON object. what: the document; where: the object's place in it, as in `layers[2]`."""

    what: str
    where: str
    values: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str, default: str | None = None) -> str:
        """A string; without a default it must be there."""
        return _typed(self._get(key, default), str, self.what, self._path(key))

    def integer(self, key: str) -> int:
        return _typed(self._get(key, None), int, self.what, self._path(key))

    def truth(self, key: str, default: bool | None = None) -> bool:
        return _typed(self._get(key, default), bool, self.what, self._path(key))

    def table(self, key: str) -> Table:
        path = self._path(key)
        return Table(self.what, path, _typed(self._get(key, None), dict, self.what, path))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; () if it is absent."""
        return tuple(_typed(item, str, self.what, path) for path, item in self._items(key, LARGEST))

    def tables(self, key: str, most: int) -> list[Table]:
        """A list of at most so many objects; it must be there."""
        self._get(key, None)
        return [Table(self.what, path, _typed(item, dict, self.what, path)) for path, item in self._items(key, most)]

    def mapping(self, key: str) -> dict[str, str]:
        """An object whose values are strings; {} if it is absent."""
        table = Table(self.what, self._path(key), _typed(self._get(key, {}), dict, self.what, self._path(key)))
        return {name: table.text(name) for name in table.values}

    def error(self, message: str, key: str = "") -> OpspliceError:
        return OpspliceError(f"{_at(self.what, self._path(key) if key else self.where)}: {message}")

    def _items(self, key: str, most: int) -> list[tuple[str, Any]]:
        items = _typed(self._get(key, []), list, self.what, self._path(key))
        if len(items) > most:
            raise self.error(f"it has {len(items)} entries; at most {most} are read", key)
        return [(f"{self._path(key)}[{number}]", item) for number, item in enumerate(items)]

    def _get(self, key: str, default: Any) -> Any:
        value = self.values.get(key, default)
        if value is None:
            raise self.error("it is missing", key)
        return value

    def _path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key


_NAMES = {str: "a string", int: "an integer", bool: "true or false", dict: "an object", list: "a list"}


def _typed(value: Any, kind: type[Value], what: str, where: str) -> Value:
    # True is an int to Python, and half a surrogate pair a string.
    if type(value) is not kind:
        raise OpspliceError(f"{_at(what, where)}: it is not {_NAMES[kind]}")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise OpspliceError(f"{_at(what, where)}: it is not valid Unicode") from None
    return cast("Value", value)


def _at(what: str, where: str) -> str:
    return f"{what}, {where}" if where else what


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return table


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError("a number is too large")
    return int(digits)


def _refused(number: str) -> Any:
    raise ValueError(f"{number[:20]} is not an integer")
