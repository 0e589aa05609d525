"""What is wrong with a spec, said with the place underlined.

Knows sources and spans, nothing of the language's meaning.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from opsplice.common.errors import OpspliceError, counted
from opsplice.common.excerpts import excerpt
from opsplice.spec_lang.syntax.tree import Span

MAX_SHOWN = 20
_MAX_MESSAGE = 400  # no name that somebody typed is this long

_RESET, _BOLD, _GREEN, _CYAN = "\x1b[0m", "\x1b[1m", "\x1b[1;32m", "\x1b[1;36m"
_SEVERITY_COLORS = {"error": "\x1b[1;31m", "warning": "\x1b[1;35m", "note": _CYAN}


@dataclass(frozen=True)
class Diagnostic:
    """One finding. `help` says what to do; `notes` point at further places that matter.

    code: the name of the kind of finding, which every warning has; docs/lint.md lists them.
    """

    severity: Literal["error", "warning"]
    message: str
    span: Span
    help: str | None = None
    notes: tuple[tuple[Span, str], ...] = ()
    code: str | None = None


class SpecError(OpspliceError):
    """A spec that cannot be used; `diagnostics` holds everything found, at least one error among it."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [d for d in self.diagnostics if d.severity == "error"]
        names = list(dict.fromkeys(d.span.source.name for d in errors))
        shown = [render(d) for d in errors[:MAX_SHOWN]]
        if len(errors) > MAX_SHOWN:
            shown.append(f"and {len(errors) - MAX_SHOWN} more")
        super().__init__(f"{counted(len(errors), 'error')} in {', '.join(names)}", details="\n".join(shown))

    def __reduce__(self) -> tuple[Any, ...]:
        return (SpecError, (self.diagnostics,))


def error(span: Span, message: str, help: str | None = None, notes: Iterable[tuple[Span, str]] = ()) -> Diagnostic:  # noqa: A002
    return Diagnostic("error", message, span, help, tuple(notes))


def warning(
    span: Span,
    message: str,
    help: str | None = None,  # noqa: A002
    notes: Iterable[tuple[Span, str]] = (),
    *,
    code: str | None = None,
) -> Diagnostic:
    return Diagnostic("warning", message, span, help, tuple(notes), code)


def render(diagnostic: Diagnostic, color: bool = False) -> str:
    """The text for a terminal, of several lines, without a line end after the last.

    ```
    replace.splice:3:8: error: mulf works on floats, and x is tensor<n x i32>
        3 |   negf(mulf(x, y))
          |        ^~~~
    help: for integers write muli
    ```
    """
    lines = _place(diagnostic.span, diagnostic.severity, diagnostic.message, color, diagnostic.code)
    for span, message in diagnostic.notes:
        lines += _place(span, "note", message, color)
    if diagnostic.help:
        lines.append(f"{_paint('help:', _CYAN, color)} {_cut(diagnostic.help)}")
    return "\n".join(lines)


def _cut(message: str) -> str:
    """A message of a length that somebody reads, without what no terminal can show."""
    message = message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}..."
    return "".join(c if unicodedata.category(c) != "Cs" else "\N{REPLACEMENT CHARACTER}" for c in message)


def _place(span: Span, severity: str, message: str, color: bool, code: str | None = None) -> list[str]:
    message = _cut(message)
    heading = " ".join(
        [
            _paint(f"{span}:", _BOLD, color),
            _paint(f"{severity}[{code}]:" if code else f"{severity}:", _SEVERITY_COLORS[severity], color),
            _paint(message, _BOLD, color and severity != "note"),
        ]
    )
    first = span.column - 1
    line, underline = excerpt(span.source.line(span.line).rstrip(), first, first + span.end - span.start)
    if not line.strip():
        return [heading]
    return [heading, f"{span.line:5} | {line}", f"      | {_paint(underline, _GREEN, color)}"]


def _paint(text: str, code: str, color: bool) -> str:
    return f"{code}{text}{_RESET}" if color else text
