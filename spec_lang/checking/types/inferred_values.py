"""What inference finds an expression to be, or what keeps it from having a type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opsplice.common.errors import counted
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


def miscounted(call: tree.Call, parameters: Sequence[tree.Parameter]) -> Misfit:
    """A use of a pattern with another number of values; those with a default are for the user to pass on."""
    wanted, missing = ", ".join(p.name for p in parameters), parameters[len(call.args) :]
    own = ", ".join(f"{p.name}: {p.type} = {p.default.span.written}" for p in missing if p.default is not None)
    it, values = "it" if len(missing) == 1 else "them", ", ".join(p.default.span.written for p in missing if p.default)
    advice = f"pass {values} for what needs no other, or let this pattern have {own}, too, and pass {it} on"
    is_told = bool(missing) and all(p.default is not None for p in missing)
    count = f"{counted(len(parameters), 'value')} ({wanted})"
    return Misfit(call.span, f"{call.callee} takes {count}, found {len(call.args)}", advice if is_told else None)
