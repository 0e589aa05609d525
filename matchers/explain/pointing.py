"""Where in a program a user points: `model.mlir:12`, `model.mlir:10-25`, or `linalg.softmax#1`.

A place names a line, a range of lines, or the k-th op of a name in program order, from 1. It knows nothing of patterns.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.errors import OpspliceError

_LINES = re.compile(r"(?:(?P<file>.*?):)?(?P<first>\d{1,18})(?:-(?P<last>\d{1,18})|:\d+)?")
_OP = re.compile(r"(?P<name>[A-Za-z_][\w.$-]*\.[\w.$-]+)(?:#(?P<number>\d{1,18}))?")
# Ops whose regions are scalar code of their own or other programs.
_CLOSED = ("linalg.", "iree_linalg_ext.", "tensor.generate", "flow.dispatch", "flow.executable", "stream.", "hal.")
_FORMS = "write file:line, file:first-last, or the k-th op of a name: linalg.generic#3"
_MAX_LISTED = 12


@dataclass(frozen=True)
class Lines:
    """The lines [first, last] of a file, from 1. file: its name or the end of its path, "" for any file.

    ranged: whether a range was written, be it of one line.
    """

    file: str
    first: int
    last: int
    ranged: bool

    def __str__(self) -> str:
        lines = f"{self.first}-{self.last}" if self.ranged else str(self.first)
        return f"{self.file}:{lines}" if self.file else f"line {lines}"


@dataclass(frozen=True)
class NamedOp:
    """The op number `number` (from 1) of those called `name`; 0 for the only one."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}#{self.number}" if self.number else self.name


Place = Lines | NamedOp


def parse_place(text: str) -> Place:
    """Read a place. Raises OpspliceError for text that is none."""
    text = text.strip()
    named = _OP.fullmatch(text)
    if named is not None:
        if named["number"] is not None and int(named["number"]) == 0:
            raise OpspliceError(f"there is no op {text}", hint="ops are counted from 1")
        return NamedOp(named["name"], int(named["number"] or 0))
    lines = _LINES.fullmatch(text)
    if lines is None:
        raise OpspliceError(f"'{text}' is no place in a program", hint=_FORMS)
    first = int(lines["first"])
    last = int(lines["last"] or first)
    if first < 1 or last < first:
        raise OpspliceError(f"'{text}' is no range of lines", hint="lines are counted from 1, the first comes first")
    return Lines(lines["file"] or "", first, last, lines["last"] is not None)


class Ops:
    """The ops of a module's functions in program order, and what users call them."""

    def __init__(self, module: ir.Module) -> None:
        self.all: list[ir.Operation] = []
        self._names: dict[ir.Operation, str] = {}
        self._named: dict[str, list[ir.Operation]] = {}
        module.operation.walk(self._visit, ir.WalkOrder.PRE_ORDER)

    def _visit(self, op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name in ("builtin.module", "func.func", "util.func", "util.initializer", "util.global"):
            return ir.WalkResult.ADVANCE
        same = self._named.setdefault(name, [])
        same.append(op)
        self._names[op] = f"{name}#{len(same)}"
        self.all.append(op)
        return ir.WalkResult.SKIP if name.startswith(_CLOSED) else ir.WalkResult.ADVANCE

    def handle(self, op: ir.Operation) -> str:
        """What a user calls an op: `linalg.generic#3`."""
        return str(self._names.get(op, op.name))

    def at(self, place: Place) -> tuple[ir.Operation, ...]:
        """The ops at a place, in program order. Raises OpspliceError where there is none."""
        return self._lines(place) if isinstance(place, Lines) else (self._op(place),)

    def _op(self, place: NamedOp) -> ir.Operation:
        same = self._named.get(place.name, [])
        if place.number == 0 and len(same) > 1:
            raise OpspliceError(f"there are {len(same)} ops called {place}", hint=f"say which: {place}#1 is the first")
        if place.number <= len(same) and same:
            return same[place.number - 1]
        if same:
            count = "1 op" if len(same) == 1 else f"{len(same)} ops"
            raise OpspliceError(f"there is no {place}", hint=f"the program has {count} called {place.name}")
        if any(_same_file(file, place.name) for op in self.all for file, _ in _files(op.location)):
            raise OpspliceError(f"{place.name} is a file", hint=f"write a line of it too: {place.name}:12")
        near = difflib.get_close_matches(place.name, self._named, n=1)
        known = [n for n in self._named if n.startswith(("linalg.", "arith.", "math.", "tensor."))]
        hint = f"did you mean {near[0]}#1?" if near else f"the program has {', '.join(known[:_MAX_LISTED])}"
        raise OpspliceError(f"the program has no op called {place.name}", hint=hint)

    def _lines(self, place: Lines) -> tuple[ir.Operation, ...]:
        # An inlined op is at the line that it was written at, and where none was, at the lines that it was called from.
        for innermost in (True, False):
            found = tuple(op for op in self.all if _is_at(op, place, innermost))
            if found:
                return found
        lines = sorted({line for op in self.all for file, line in _files(op.location) if _same_file(file, place.file)})
        if lines:
            near = sorted(sorted(lines, key=lambda line: abs(line - place.first))[:5])
            hint = f"the nearest lines with ops are {', '.join(map(str, near))}"
        else:
            files = sorted({file for op in self.all for file, _ in _files(op.location)})
            hint = f"the program's ops come from {', '.join(files[:4])}" if files else "its ops have no locations"
        raise OpspliceError(f"there is no op at {place}", hint=hint)


def name_of(location: ir.Location) -> str:
    """The name that a location gives, "" if it gives none."""
    if isinstance(location, ir.NameLoc):
        return str(location.name_str)
    if isinstance(location, ir.CallSiteLoc):
        return name_of(location.callee)
    if isinstance(location, ir.FusedLoc):
        return next(filter(None, map(name_of, location.locations)), "")
    return ""


def _is_at(op: ir.Operation, place: Lines, innermost: bool) -> bool:
    places = list(_files(op.location))
    return any(
        place.first <= line <= place.last and _same_file(file, place.file)
        for file, line in (places[:1] if innermost else places)
    )


def _same_file(file: str, wanted: str) -> bool:
    """Whether a file is the one that was written, of which either side may have only the end of the path."""
    if not wanted:
        return True
    left, right = _parts(file), _parts(wanted)
    shared = min(len(left), len(right))
    return left[-shared:] == right[-shared:]


def _parts(file: str) -> Sequence[str]:
    return [part for part in file.split("/") if part not in ("", ".")]


def _files(location: ir.Location) -> Iterator[tuple[str, int]]:
    """Each file and line of a location, the innermost first."""
    if isinstance(location, ir.FileLineColLoc):
        yield location.filename, location.start_line
    elif isinstance(location, ir.NameLoc):
        yield from _files(location.child_loc)
    elif isinstance(location, ir.CallSiteLoc):
        yield from _files(location.callee)
        yield from _files(location.caller)
    elif isinstance(location, ir.FusedLoc):
        for each in location.locations:
            yield from _files(each)
