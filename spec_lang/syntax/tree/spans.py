"""Texts, and places in them."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

# A comment, or a string, in which there is none.
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*')


@dataclass(frozen=True, eq=False)
class Source:
    """A text and where it came from; `path` is None for text that was never in a file."""

    text: str = field(repr=False)
    path: Path | None = None

    @property
    def name(self) -> str:
        return str(self.path) if self.path is not None else "<text>"

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]

    def line_column(self, offset: int) -> tuple[int, int]:
        """The line and column of a character offset, both counted from 1."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line (from 1), without its end."""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


@dataclass(frozen=True)
class Span:
    """The characters [start, end) of a source. instance: the pattern with ops put in that has a copy of them."""

    source: Source
    start: int
    end: int
    instance: str = ""

    @property
    def line(self) -> int:
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.line_column(self.start)[1]

    def first(self, word: str) -> Span:
        """The word that it begins with."""
        return Span(self.source, self.start, self.start + len(word))

    @property
    def text(self) -> str:
        """What the source says there, without comments."""
        return _COMMENT.sub(r"\1", self.source.text[self.start : self.end])

    @property
    def written(self) -> str:
        """What the source says there, in one line and without comments."""
        return " ".join(self.text.split())

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"
