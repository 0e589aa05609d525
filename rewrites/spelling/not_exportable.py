"""What has no counterpart in the transform dialect, as data and as the error that carries it."""

from __future__ import annotations

from dataclasses import dataclass

from opsplice.spec_lang.syntax import tree


@dataclass(frozen=True)
class Gap:
    """A construct without a counterpart: where it is written, what it is, and why or what to do."""

    span: tree.Span
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.span}: {self.what}: {self.why}"


class GapError(Exception):
    """Raised inside the exporter where constructs have no counterpart."""

    def __init__(self, *gaps: Gap) -> None:
        super().__init__("; ".join(map(str, gaps)))
        self.gaps = gaps

    @staticmethod
    def at(span: tree.Span, what: str, why: str) -> GapError:
        return GapError(Gap(span, what, why))
