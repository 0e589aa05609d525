"""What has no counterpart in the transform dialect, as data and as the error that carries it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from opsplice.spec_lang.syntax import tree, vocabulary

_Made = TypeVar("_Made")
# Why templates have no counterpart of words for what depends on indices.
LACKS = {
    vocabulary.BAND: "programs compute masks from indices in other ops each time, and a template has just its own",
    "take": "programs read such elements in the body of an op, and no template holds whose body reads a tensor",
    "stack": "programs insert tensors at offsets and in sizes that a template has to have as numbers",
}


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


def gathered(makers: Iterable[Callable[[], _Made]], gaps: Iterable[Gap] = ()) -> list[_Made]:
    """What each makes. Raises GapError with all gaps at once, `gaps` among them."""
    made: list[_Made] = []
    found = dict.fromkeys(gaps)
    for make in makers:
        try:
            made.append(make())
        except GapError as error:
            found.update(dict.fromkeys(error.gaps))
    if found:
        raise GapError(*found)
    return made


def check_call(expr: tree.Call) -> None:
    """Raise GapError for a call that stands for more than one op as it is written."""
    what = f"`{written_text(expr)}`"
    if expr.callee == vocabulary.BAND and not expr.quoted:
        raise GapError.at(expr.span, what, LACKS[vocabulary.BAND])
    if expr.rest or (expr.quoted and "*" in expr.callee):
        raise GapError.at(expr.span, what, "a template has just these operands, of an op of just this name")
    if expr.regions or (expr.quoted and expr.callee == "tensor.pad" and expr.body is None):
        raise GapError.at(expr.span, what, "a template says what an op's regions hold")
    for attribute in expr.attributes:
        if attribute.value is None:
            raise GapError.at(attribute.span, f"the attribute {attribute.name}", "a template has a value for it")


def written_text(expr: Any) -> str:
    """An expression in a message, cut where it is long."""
    text: str = expr.span.written
    return text if len(text) <= 40 else text[:37] + "..."
