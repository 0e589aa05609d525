"""IREE's diagnostics as data, and their rendering with the source line and a caret.

Two forms come in: the text of IREE's diagnostic callback and the structured list of an `ir.MLIRError`. This module
knows how both are spelled; it does not know phases or compilations.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from opsplice.common.excerpts import excerpt
from opsplice.common.files import is_installed

# iree_compiler_diagnostic_severity_t in iree/compiler/embedding_api.h.
_SEVERITIES = ("note", "warning", "error", "remark")

# The callback's text is "file:line:col: message", or 'loc("name"): message'; notes follow after an empty line each.
_PLACE = r"(?:[^\n]+?:\d+:\d+|loc\([^\n]*?\))"
_FILE_HEAD = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.*)", re.DOTALL)
_NAME_HEAD = re.compile(r"loc\((?P<name>[^\n]*?)\): (?P<message>.*)", re.DOTALL)
_NOTE_BREAK = re.compile(rf"\n\n(?={_PLACE}: )")
_FIRST_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
_FIRST_FILE = re.compile(r'"(?P<file>(?:[^"\\]|\\.)*)":(?P<line>\d+):(?P<column>\d+)')

# MLIR's note for each place that a location was inlined into: for frontends the callers of a line of Python.
_CALLER = "called from"

# An op that no pass lowers, and what such an op calls where it is only the carrier of a name.
_ILLEGAL = re.compile(r"failed to legalize operation '([\w.]+)'")
_CARRIED = re.compile(r'\b(?:name|call_target_name) = "([\w.]+)"')
_CARRIERS = ("torch.operator", "stablehlo.custom_call")
# How names of constants begin that are given to ops of PyTorch and ONNX.
CONSTANT = "torch.constant."
# How MLIR prints an operator of a framework that no pass lowers: its attributes, and the types of what it is given.
_OF_FRAMEWORK = re.compile(
    r"(?P<failed>failed to legalize operation) 'torch\.operator'.*"
    r'<\{name = "(?P<name>(?:onnx|torch)\.[\w.]+)"\}> (?:\{(?P<form>.*?)\} )?: \((?P<given>.*?)\) -> .*',
    re.DOTALL,
)
_VALUE_TYPE = re.compile(r"!torch\.vtensor<\[(?P<sizes>[^\]]*)\],(?P<element>\w+)>")
_TYPE_OF_NUMBER = re.compile(r" : [sui]+\d+| : f\d+")

# MLIR appends this note to verifier errors; it prints the whole op, regions and constants too.
_CURRENT_OPERATION = "see current operation:"

_MESSAGE_LINES = 12
_MESSAGE_WIDTH = 400

_GENERIC_CPU = "while creating CPU target"
_GENERIC_CPU_ADVICE = (
    "no CPU was named, so the code is for a generic one and slower than it could be; "
    "add --iree-llvmcpu-target-cpu=host for this machine's, the name of another, or generic"
)


@dataclass(frozen=True)
class Location:
    """A place in a file, line and column from 1; line 0 means the file as a whole, column 0 the whole line."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if self.line == 0:
            return self.file
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler: severity is "error", "warning", "remark" or "note"."""

    severity: str
    message: str
    location: Location | None = None
    notes: tuple[Diagnostic, ...] = ()

    @property
    def is_verifier_error(self) -> bool:
        return any(_prints_operation(note) for note in self.notes)


# Gives the text of the line of a location, or None where the text is not at hand.
LineReader = Callable[[Location], "str | None"]


def parse_callback(severity: int, text: str) -> Diagnostic:
    """The diagnostic that IREE's callback reported as (severity, text)."""
    head, *notes = _NOTE_BREAK.split(text)
    message, location = _split_head(head)
    parsed = [Diagnostic("note", *_split_head(note)) for note in notes]
    callers = [note for note in parsed if note.message == _CALLER]
    if location is not None and is_installed(location.file):
        location = next((each.location for each in callers if _is_users(each)), location)
    shown = tuple(note for note in parsed if note not in callers or (_is_users(note) and note.location != location))
    return _shortened(Diagnostic(_SEVERITIES[severity], message.strip(), location, shown))


def from_mlir_error(error: Any) -> list[Diagnostic]:
    """The diagnostics of an `ir.MLIRError`, as parsing and verifying raise it."""
    return [from_mlir_diagnostic(info) for info in error.error_diagnostics]


def from_mlir_diagnostic(info: Any) -> Diagnostic:
    """The data of an `ir.DiagnosticInfo`, or of the `ir.Diagnostic` that a handler gets."""
    return Diagnostic(
        severity=str(info.severity).rpartition(".")[2].lower(),
        message=info.message.strip(),
        location=_from_ir_location(str(info.location)),
        notes=tuple(from_mlir_diagnostic(note) for note in info.notes),
    )


def unlowered(text: str) -> str:
    """The op that a message, or several, says IREE cannot lower; "" if it says no such thing."""
    found = list(_ILLEGAL.finditer(text))
    if not found:
        return ""
    # A constant fails with what it is for.
    illegal = next((each for each in found if not each[1].startswith(CONSTANT)), found[0])
    carried = _CARRIED.search(text, illegal.end()) if illegal[1] in _CARRIERS else None
    return carried[1] if carried else illegal[1]


def renamed(diagnostic: Diagnostic, old: str, new: str) -> Diagnostic:
    """The diagnostic with a file called otherwise, in its notes too."""
    location = diagnostic.location
    if location is not None and location.file == old:
        location = dataclasses.replace(location, file=new)
    notes = tuple(renamed(note, old, new) for note in diagnostic.notes)
    return dataclasses.replace(diagnostic, location=location, notes=notes)


def unique(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics in order, each once: IREE repeats an error for every pass that propagates it."""
    return list(dict.fromkeys(diagnostics))


def render(diagnostics: Iterable[Diagnostic], line_reader: LineReader | None = None, *, verbose: bool = False) -> str:
    """The diagnostics as text, each with its source line where line_reader has it.

    Messages are cut at a dozen lines and the compiler's dumps of whole operations are left out unless verbose.
    """
    return "\n".join(_render_one(diagnostic, line_reader, verbose) for diagnostic in unique(diagnostics))


def _is_users(note: Diagnostic) -> bool:
    return note.location is not None and not is_installed(note.location.file)


def _split_head(text: str) -> tuple[str, Location | None]:
    if found := _NAME_HEAD.match(text):
        return found["message"], _named(found["name"])
    if found := _FILE_HEAD.match(text):
        return found["message"], Location(found["file"], int(found["line"]), int(found["column"]))
    return text, None


def _from_ir_location(text: str) -> Location | None:
    # The bindings give a location as text only: loc("f":1:2), loc(callsite(... at ...)), loc("name"), loc(unknown).
    if found := _FIRST_FILE.search(text):
        return Location(found["file"], int(found["line"]), int(found["column"]))
    return _named(text.removeprefix("loc(").removesuffix(")"))


def _named(text: str) -> Location | None:
    """What stands in a location that names no line."""
    name = _FIRST_NAME.search(text)
    return None if text == "unknown" else Location(name[1] if name else text)


def _shortened(diagnostic: Diagnostic) -> Diagnostic:
    if diagnostic.severity == "warning" and diagnostic.message.startswith(_GENERIC_CPU):
        return Diagnostic("warning", _GENERIC_CPU_ADVICE)
    return diagnostic


def _prints_operation(note: Diagnostic) -> bool:
    return note.message.startswith(_CURRENT_OPERATION)


def _render_one(diagnostic: Diagnostic, line_reader: LineReader | None, verbose: bool) -> str:
    place = f"{diagnostic.location}: " if diagnostic.location else ""
    message = diagnostic.message if verbose else _clipped(_in_its_words(diagnostic.message))
    lines = [f"{place}{diagnostic.severity}: {message}"]
    excerpt = _excerpt(diagnostic.location, line_reader)
    lines += excerpt
    is_named = diagnostic.location is not None and diagnostic.location.line == 0
    for note in unique(diagnostic.notes):
        # Where the source line or a node's name is shown, the compiler's dump of the operation says nothing new.
        if (excerpt or is_named) and _prints_operation(note) and not verbose:
            continue
        same_place = note.location == diagnostic.location
        lines.append(_render_one(note, None if same_place else line_reader, verbose))
    return "\n".join(lines)


def _in_its_words(message: str) -> str:
    """A message about a framework's operator in its words: `onnx.Resize of 1x2x?xf32, none, with mode = "cubic"`."""
    if (found := _OF_FRAMEWORK.fullmatch(message)) is None:
        return message
    given = _VALUE_TYPE.sub(_plain_type, found["given"]).replace("!torch.", "")
    form = _TYPE_OF_NUMBER.sub("", found["form"] or "").replace("torch.onnx.", "")
    return f"{found['failed']} '{found['name']}' of {given}{form and f', with {form}'}"


def _plain_type(found: re.Match[str]) -> str:
    return "x".join([*filter(None, found["sizes"].split(",")), found["element"]])


def _clipped(message: str) -> str:
    lines = [line if len(line) <= _MESSAGE_WIDTH else line[:_MESSAGE_WIDTH] + " ..." for line in message.splitlines()]
    if len(lines) > _MESSAGE_LINES:
        lines = [*lines[:_MESSAGE_LINES], f"... ({len(lines) - _MESSAGE_LINES} more lines)"]
    return "\n".join(lines)


def _excerpt(location: Location | None, line_reader: LineReader | None) -> list[str]:
    if location is None or location.line == 0 or line_reader is None:
        return []
    text = line_reader(location)
    if text is None:
        return []
    # MLIR counts columns in bytes of UTF-8.
    column = len(text.encode()[: location.column - 1].decode("utf-8", "ignore"))
    shown, caret = excerpt(text, column, column + 1)
    return [f"{location.line:>5} | {shown}", f"      | {caret}"]
