"""What inference finds an expression to be, or what keeps it from having a type."""

from __future__ import annotations

from dataclasses import dataclass

from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.spec_errors import error
from opsplice.spec_lang.syntax.tree import Expr, ScalarType, Span, TensorType


@dataclass(frozen=True)
class Number:
    """A constant, whose element type is its user's."""

    constant: tree.Constant


Value = ScalarType | TensorType | Number | None


_SMALL = 24


class Misfit(Exception):  # noqa: N818
    """What keeps an expression from having a type."""

    def __init__(self, span: Span, message: str, help: str | None = None) -> None:  # noqa: A002
        self.diagnostic = error(span, message, help)


def show(expr: Expr) -> str:
    """An operand in a message: its text when that is short."""
    text = expr.span.written
    return text if len(text) <= _SMALL else f"{text[: _SMALL - 3]}..."
