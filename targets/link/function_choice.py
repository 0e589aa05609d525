"""Which library has a function that code imports: the last with one of that name, if its types are those."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from opsplice.common.errors import OpspliceError


class Functions(Protocol):
    """A file with functions that others may import. name: how errors call it."""

    @property
    def name(self) -> str: ...

    def functions(self) -> dict[str, str]:
        """The types of its functions by name, as `(f32) -> f32`."""


Library = TypeVar("Library", bound=Functions)


def choose(
    imports: Mapping[str, str], name: str, libraries: Sequence[Library], files: str
) -> list[tuple[Library, list[str]]]:
    """Each library that is needed, with the functions that are taken from it.

    imports: the types of the functions that the code called `name` lacks, by name. files: those that a user can give.
    Raises OpspliceError for a function that no library has, or has with other types.
    """
    held = [library.functions() for library in libraries]
    chosen: dict[int, list[str]] = {}
    for symbol, kind in imports.items():
        number = max((n for n, functions in enumerate(held) if symbol in functions), default=None)
        if number is None:
            raise _missing(symbol, kind, name, libraries, files)
        if (found := held[number][symbol]) != kind:
            raise OpspliceError(f"function {symbol} of {libraries[number].name} is {found}, and {name} imports {kind}")
        chosen.setdefault(number, []).append(symbol)
    return [(libraries[number], symbols) for number, symbols in chosen.items()]


def _missing(symbol: str, kind: str, name: str, libraries: Sequence[Functions], files: str) -> OpspliceError:
    has = [f"{library.name} has {', '.join(sorted(library.functions())) or 'none'}" for library in libraries]
    near = difflib.get_close_matches(symbol, [found for library in libraries for found in library.functions()], n=1)
    hint = f"did you mean '{near[0]}'?" if near else None
    return OpspliceError(
        f"{name} imports the function '{symbol}' : {kind}, which no plugin has",
        hint=hint if libraries else f"--plugin=FILE, in Python plugins=[...]: {files}",
        details="\n".join(has),
    )
