"""Where in a program a user points: `model.mlir:12`, `model.mlir:10-25`, `linalg.softmax#1`, or `/layer/Softmax`.

A place names a line, a range of lines, the k-th op of a name in program order, from 1, or a node of an ONNX model. It
knows nothing of patterns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.common.errors import OpspliceError, counted, nearest
from opsplice.matchers.explain.places import outermost
from opsplice.matchers.ir.op_names import location_of, places_of

_LINES = re.compile(r"(?:(?P<file>.*?):)?(?P<first>\d{1,18})(?:-(?P<last>\d{1,18})|:(?P<column>\d{1,18}))?")
_OP = re.compile(r"(?P<name>[A-Za-z_][\w$-]*(?:\.[\w$-]+)+)(?:#(?P<number>\d{1,18}))?")
# The name that a frontend gives a node: `/layer/MatMul`, or `MatMul of y`.
_NODE = re.compile(r"(?=.*[^\W\d])[^\s#]*[^\s#:](?: of \S+)?")
# Ops whose regions are scalar code of their own or other programs.
_CLOSED = ("linalg.", "iree_linalg_ext.", "tensor.generate", "flow.dispatch", "flow.executable", "stream.", "hal.")
_HOLDERS = frozenset({"builtin.module", "func.func", "util.func", "util.initializer", "util.global"})
_FORMS = (
    "write a line, model.mlir:12, lines, model.mlir:10-25, the k-th op of a name, linalg.generic#3, or the name of "
    "a node of an ONNX model"
)
_MOST_LISTED = 12
_MOST_NEAR = 6
_LONGEST = 60


@dataclass(frozen=True)
class Lines:
    """The lines [first, last] of a file, from 1. file: its name or the end of its path, "" for any file.

    column: 0 for all of a line. ranged: whether a range was written, be it of one line.
    """

    file: str
    first: int
    last: int
    ranged: bool
    column: int = 0

    def __str__(self) -> str:
        lines = f"{self.first}-{self.last}" if self.ranged else str(self.first)
        lines += f":{self.column}" * bool(self.column)
        return f"{self.file}:{lines}" if self.file else f"line {lines}"

    def holds(self, file: str, line: int, column: int) -> bool:
        """Whether a place in a file is one of these."""
        return self.first <= line <= self.last and self.column in (0, column) and _is_same_file(file, self.file)


@dataclass(frozen=True)
class NamedOp:
    """The op number `number` (from 1) of those called `name`; 0 for all of them, or for those of the node `name`."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}#{self.number}" if self.number else self.name


Place = Lines | NamedOp


def parse_place(text: str) -> Place:
    """Read a place. Raises OpspliceError for text that is none."""
    text = text.strip()
    shown = _shown(text)
    if (named := _OP.fullmatch(text)) is not None:
        if named["number"] is not None and int(named["number"]) == 0:
            raise OpspliceError(f"there is no op {shown}", hint="ops are counted from 1")
        return NamedOp(named["name"], int(named["number"] or 0))
    if (lines := _LINES.fullmatch(text)) is None:
        if _NODE.fullmatch(text) is not None:
            return NamedOp(text, 0)
        raise OpspliceError(f"cannot tell what '{shown}' points at", hint=_FORMS)
    first = int(lines["first"])
    last = int(lines["last"] or first)
    if first < 1 or last < first:
        raise OpspliceError(
            f"'{shown}' is not a range of lines", hint="lines are counted from 1, the first comes first"
        )
    return Lines(lines["file"] or "", first, last, lines["last"] is not None, int(lines["column"] or 0))


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def ops_at(module: ir.Module, place: Place) -> list[ir.Operation]:
    """The ops that are pointed at, in program order; for scalar code in the body of an op, that op.

    Raises OpspliceError when there are none, with what is near.
    """
    found = Ops(module, inner=True).at(place)
    # What makes nothing, such as the end of a function, is not a computation.
    found = [op for op in found if len(op.results)] or found
    return list(dict.fromkeys(map(outermost, found)))


class Ops:
    """The ops of a module's functions in program order, and what users call them. inner: scalar code, too."""

    def __init__(self, module: ir.Module, *, inner: bool = False) -> None:
        self.all: list[ir.Operation] = []
        self._closed = () if inner else _CLOSED
        self._names: dict[ir.Operation, str] = {}
        self._named: dict[str, list[ir.Operation]] = {}
        module.operation.walk(self._visit, ir.WalkOrder.PRE_ORDER)

    def _visit(self, op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name in _HOLDERS:
            return ir.WalkResult.ADVANCE
        same = self._named.setdefault(name, [])
        same.append(op)
        self._names[op] = f"{name}#{len(same)}"
        self.all.append(op)
        return ir.WalkResult.SKIP if name.startswith(self._closed) else ir.WalkResult.ADVANCE

    def handle(self, op: ir.Operation) -> str:
        """What a user calls an op: `linalg.generic#3`."""
        return str(self._names.get(op, op.name))

    def at(self, place: Place) -> list[ir.Operation]:
        """The ops at a place, in program order. Raises OpspliceError where there is none."""
        return self._lines(place) if isinstance(place, Lines) else self._called(place)

    def _called(self, place: NamedOp) -> list[ir.Operation]:
        same = self._named.get(place.name, [])
        if place.number <= len(same) and same:
            return [same[place.number - 1]] if place.number else same
        if same:
            hint = f"the program has {counted(len(same), 'op')} called {place.name} when patterns are looked for"
            raise OpspliceError(f"there is no {place}", hint=hint)
        if not place.number and (node := [op for op in self.all if location_of(op) == place.name]):
            return node
        if any(_is_same_file(file, place.name) for op in self.all for file, _, _ in places_of(op)):
            raise OpspliceError(f"{place.name} is a file", hint=f"write a line of it too: {place.name}:12")
        if _OP.fullmatch(place.name) is None:
            near = nearest(place.name, dict.fromkeys(map(location_of, self.all)))
            hint = f"did you mean {near}?" if near else _FORMS
            raise OpspliceError(f"cannot tell what '{_shown(place.name)}' points at", hint=hint)
        near = nearest(place.name, self._named)
        known = [n for n in self._named if n.startswith(("linalg.", "arith.", "math.", "tensor."))]
        hint = f"did you mean {near}#1?" if near else f"the program has {', '.join(known[:_MOST_LISTED])}"
        raise OpspliceError(f"the program has no op called {place.name} when patterns are looked for", hint=hint)

    def _lines(self, place: Lines) -> list[ir.Operation]:
        places = {op: places_of(op) for op in self.all}
        # An inlined op is at the line that it was written at, and where none was, at the lines that it was called from.
        for most in (1, None):
            found = [op for op, known in places.items() if any(place.holds(*each) for each in known[:most])]
            if found:
                return found
        known = [each for of_op in places.values() for each in of_op]
        lines = {line for file, line, _ in known if line and _is_same_file(file, place.file)}
        if lines:
            near = sorted(sorted(lines, key=lambda line: (abs(line - place.first), line))[:_MOST_NEAR])
            only = f"the only line with ops is {near[0]}"
            hint = f"the nearest lines with ops are {', '.join(map(str, near))}" if len(near) > 1 else only
        else:
            files = sorted({file for file, _, _ in known})
            hint = f"the program's ops come from {', '.join(files[:_MOST_NEAR])}" if files else "no op has a location"
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


def _is_same_file(file: str, wanted: str) -> bool:
    """Whether a file is the one that was written, of which either side may have only the end of the path."""
    if not wanted:
        return True
    left, right = _parts(file), _parts(wanted)
    shared = min(len(left), len(right))
    return left[-shared:] == right[-shared:]


def _parts(file: str) -> Sequence[str]:
    return [part for part in file.split("/") if part not in ("", ".")]
