"""A module of PTX with one of its entries only: a program embeds it for each dispatch, and uses nothing else of it.

    .visible .entry a(...) { ... }      =>
    .visible .entry b(...) { ... }             .visible .entry b(...) { ... }

Variables and functions stay: the driver drops those that are not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from opsplice.targets.formats.ptx import COMMENT_OR_STRING, NAME

_ENTRY = re.compile(rf"(?:\.(?:visible|weak)\s++)?\.entry\s++({NAME})")
_END = re.compile(r"[{};]")


def only(text: str, entry: str) -> str:
    """A module without its other entries. text: of a module that `ptx.reflect` takes."""
    masked = COMMENT_OR_STRING.sub(lambda found: " " * len(found.group()), text)
    kept, start = [], 0
    for begin, end in _others(masked, entry):
        kept.append(text[start:begin])
        start = end
    return "".join([*kept, text[start:]])


def _others(masked: str, entry: str) -> Iterator[tuple[int, int]]:
    """Where the other entries begin and end."""
    for found in _ENTRY.finditer(masked):
        if found[1] != entry:
            yield found.start(), _end(masked, found.end())


def _end(masked: str, place: int) -> int:
    """Where an entry ends, or its declaration."""
    depth = 0
    for mark in _END.finditer(masked, place):
        depth += {"{": 1, "}": -1, ";": 0}[mark.group()]
        if depth == 0:
            return mark.end()
    return len(masked)
