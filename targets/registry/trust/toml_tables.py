"""TOML files that people review: read strictly, each mistake with its line; written in a stable form.

It must not know what is in them.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file

# tomllib's time grows with the square of a line's length.
_LARGEST = 1 << 20
_LONGEST_LINE = 1000

_MERGE = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"\s*\[([^\[].*)\]\s*(?:#.*)?")
_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_ENTRY = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")


@dataclass(frozen=True)
class Table:
    """A table of a TOML file. path: its keys from the top of the file."""

    file: str
    text: str
    values: Mapping[str, Any]
    path: tuple[str, ...] = ()

    def error(self, message: str, key: str | None = None, hint: str | None = None) -> OpspliceError:
        """An error at this table, or at a key of it."""
        line = _line(self.text, self.path if key is None else (*self.path, key))
        return OpspliceError(f"{self.file}:{line}: {message}", hint=hint)

    def only(self, *keys: str) -> None:
        """Raise OpspliceError for keys that are not among these."""
        for key in self.values.keys() - set(keys):
            raise self.error(f"'{key}' is not known here", key, f"known are {', '.join(keys)}")

    def string(self, key: str, form: re.Pattern[str], what: str) -> str:
        """The text of a key. form: of the whole text. what: says what it is, for errors."""
        found = self.values.get(key)
        if found is None:
            raise self.error(f"'{key}' is missing: {what}")
        if not isinstance(found, str) or not form.fullmatch(found):
            raise self.error(f"'{key}' is not {what}", key)
        return found

    def strings(self, key: str, form: re.Pattern[str], what: str) -> tuple[str, ...]:
        """The texts of a key's list."""
        found = self.values.get(key)
        if not isinstance(found, list) or not all(isinstance(each, str) and form.fullmatch(each) for each in found):
            raise self.error(f"'{key}' is not a list of {what}", key)
        return tuple(found)

    def flag(self, key: str) -> bool:
        """Whether a key is `true`; it may be absent."""
        if not isinstance(found := self.values.get(key, False), bool):
            raise self.error(f"'{key}' is neither true nor false", key)
        return found

    def table(self, key: str) -> Table:
        """The table of a key, empty where there is none."""
        if not isinstance(found := self.values.get(key, {}), dict):
            raise self.error(f"'{key}' is not a table", key, f"write [{'.'.join((*self.path, key))}]")
        return Table(self.file, self.text, found, (*self.path, key))

    def tables(self, form: re.Pattern[str], what: str) -> dict[str, Table]:
        """The tables in this one, by their keys."""
        return {self.key(key, form, what): self.table(key) for key in self.values}

    def key(self, key: str, form: re.Pattern[str], what: str) -> str:
        """`key`, if it has the form. Raises OpspliceError otherwise."""
        if not form.fullmatch(key):
            raise self.error(f"'{key}' is not {what}", key)
        return key


def read(path: Path) -> Table:
    """A file. Raises OpspliceError for one that cannot be read or is not TOML."""
    return parse(read_file(path, _LARGEST), str(path))


def parse(data: bytes, name: str) -> Table:
    """What a file holds. name: for errors."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise OpspliceError(f"{name}:{line}: this is not UTF-8") from None
    for number, each in enumerate(text.split("\n"), start=1):
        if len(each) > _LONGEST_LINE:
            raise OpspliceError(f"{name}:{number}: the line is longer than {_LONGEST_LINE} characters")
    try:
        return Table(name, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).rpartition(" (at ")
        told = re.match(r"line (\d+)", place)
        at = int(told[1]) if told else text.count("\n") + 1
        merged = _MERGE.search(text)
        hint = "a merge left its marks in the file: resolve it" if merged else "the file is TOML: https://toml.io"
        raise OpspliceError(f"{name}:{at}: {_lower(message)}", hint=hint) from None
    except RecursionError:
        raise OpspliceError(f"{name}:1: its values are nested too deep") from None
    except ValueError as error:  # a date or a number that Python does not have
        raise OpspliceError(f"{name}:1: {_lower(str(error))}") from None


def written(header: tuple[str, ...], values: Mapping[str, str | bool | tuple[str, ...]]) -> str:
    """A table as text: strings, flags and lists of strings in the order that they come in."""
    lines = [f"[{'.'.join(map(_key, header))}]"] if header else []
    return "\n".join([*lines, *(f"{_key(key)} = {_value(value)}" for key, value in values.items())]) + "\n"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: str | bool | tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    # JSON's escapes are TOML's, except for DEL, which JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _line(text: str, path: tuple[str, ...]) -> int:
    """The line of a key, or of the last table on the way to it that has a line of its own."""
    best, found = 0, 1
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.fullmatch(line):
            table = place = _path(f"[{header[1]}]")
        elif entry := _ENTRY.match(line):
            place = (*table, *_path(f"{entry[1]} = {{}}"))
        else:
            continue
        if len(place) > best and place == path[: len(place)]:
            best, found = len(place), number
    return found


def _path(text: str) -> tuple[str, ...]:
    try:
        found, path = tomllib.loads(text), []
    except tomllib.TOMLDecodeError:
        return ()
    while found:
        ((key, found),) = found.items()
        path.append(key)
    return tuple(path)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
