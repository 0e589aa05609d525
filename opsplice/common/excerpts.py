"""A line of somebody's text as a terminal shows it, a part of it underlined."""

from __future__ import annotations

import unicodedata

WIDTH = 120
_TAB = 4


def excerpt(line: str, first: int, last: int, width: int = WIDTH) -> tuple[str, str]:
    """The line, and what stands below it to underline the characters [first, last), of which there is at least one.

    width: how many characters are shown; of a longer line those around the first that is underlined.
    """
    first = min(first, len(line))
    last = max(min(last, len(line)), first + 1)
    if len(line) > width:
        start = max(0, first - width // 3)
        shown = ("..." if start else line[:3]) + line[start + 3 : start + width]
        line = shown if start + width >= len(line) else shown[:-3] + "..."
        first, last = first - start, min(last - start, width)
    cells = [_cell(character) for character in line]
    before, marked = sum(map(_width, cells[:first])), sum(map(_width, cells[first:last]))
    return "".join(cells), " " * before + "^" + "~" * (marked - 1)


def _cell(character: str) -> str:
    """A character as it is shown: tabs as blanks, and nothing that steers the terminal."""
    if character == "\t":
        return " " * _TAB
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in ("Cc", "Cf", "Cs") else character


def _width(cell: str) -> int:
    if len(cell) != 1:
        return len(cell)
    if unicodedata.combining(cell):
        return 0
    return 2 if unicodedata.east_asian_width(cell) in "WF" else 1
