"""Places in a payload: an op or a value said in words, and ops found by where they stand.

It reads MLIR and knows nothing of patterns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.errors import OpspliceError
from opsplice.matchers.explain.near_miss import Place
from opsplice.matchers.ir.op_names import function_around, location_of, places_of, symbol_of
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.spec_lang.syntax.spec_errors import nearest

_WIDTH = 200
_MAPS = re.compile(r"\{indexing_maps = \[.*?\], iterator_types = (\[.*?\])\}")
_NUMBERED = re.compile(r"(?P<name>[A-Za-z_][\w$]*(?:\.[\w$]+)+)(?:#(?P<number>\d+))?")
_LINE = re.compile(r"(?:(?P<file>.*?):)?(?P<line>\d+)(?::(?P<column>\d+))?")
# Ops whose regions are scalar code that belongs to the op itself.
_BODIES = ("linalg.", "iree_linalg_ext.")
_MOST_SAID = 6


@dataclass(frozen=True)
class At:
    """What a user points at: a line (`file:line:column`, file and column may be left out), or `op.name#number`.

    Numbers count ops of a name in program order, from 1; without one, all ops of the name are meant.
    """

    text: str
    file: str = ""
    line: int = 0
    column: int = 0
    name: str = ""
    number: int = 0


def parse_at(text: str) -> At:
    """Read `model.mlir:12`, `12`, `model.mlir:12:5`, `linalg.generic#3`. Raises OpspliceError for anything else."""
    text = text.strip()
    if (found := _NUMBERED.fullmatch(text)) is not None:
        number = int(found["number"] or 0)
        if found["number"] is None or 0 < number < 2**31:
            return At(text, name=found["name"], number=number)
    elif (found := _LINE.fullmatch(text)) is not None and 0 < int(found["line"][:12]) < 2**31:
        return At(text, found["file"] or "", int(found["line"]), int((found["column"] or "0")[:12]))
    shown = text if len(text) <= 60 else f"{text[:60]}..."
    raise OpspliceError(
        f"cannot tell what '{shown}' points at",
        hint="write a line, model.mlir:12, or the number of an op, linalg.generic#3, both counted from 1",
    )


def ops_at(module: ir.Module, at: At) -> list[ir.Operation]:
    """The ops that are pointed at, in program order; for scalar code in the body of an op, that op.

    Raises OpspliceError when there are none, with what is near.
    """
    ops = _all_ops(module)
    found = _numbered(ops, at) if at.name else _at_line(ops, at)
    return list(dict.fromkeys(map(outermost, found)))


def function_of(op: ir.Operation) -> str:
    """The name of the function that an op stands in, as the user knows it, or ""."""
    return as_known(function_around(op))


def place_of(thing: ir.Operation | ir.Value, *, text: bool = True) -> Place:
    """An op, or what makes a value, in words. text: False leaves the IR out, which takes long in a large function."""
    if isinstance(thing, ir.Value):
        op = defining_op(thing)
        return _argument(ir.BlockArgument(thing), text) if op is None else place_of(op, text=text)
    outer = outermost(thing)
    name = thing.name
    if outer != thing:
        # What a named op computes inside is not written in the program.
        name = f"{name} in {outer.name}" if location_of(outer) != location_of(thing) else outer.name
    if name == "hal.tensor.import":
        name = _input_name(thing)
        return Place(f"the program's {name}", "", f"{name} : {thing.results[0].type}")
    return Place(name, location_of(thing), _text(thing) if text else "")


def _input_name(op: ir.Operation) -> str:
    if "name" in op.attributes:
        return str(ir.StringAttr(op.attributes["name"]).value)
    source = op.operands[0]
    return f"input{ir.BlockArgument(source).arg_number}" if defining_op(source) is None else "input"


def as_known(function: str) -> str:
    """The name of a function as the user knows it: frontends put the work into a twin `main$async` of `main`."""
    return function.removesuffix("$async")


def outermost(op: ir.Operation) -> ir.Operation:
    """The structured op whose body an op stands in, or the op itself."""
    at, holder = op, op
    while at.parent is not None:
        at = at.parent.operation
        if at.name.startswith(_BODIES):
            holder = at
    return holder


def _argument(value: ir.BlockArgument, text: bool) -> Place:
    holder = value.owner.owner.operation
    name = f"@{as_known(symbol_of(holder))}" if holder.name.endswith(".func") else holder.name
    return Place(f"argument {value.arg_number} of {name}", "", f"{value.get_name()} : {value.type}" if text else "")


@contextmanager
def remembering() -> Iterator[None]:
    """Within it the text of each op is made once, which takes long in a large function: no op may change."""
    token = _texts.set({})
    try:
        yield
    finally:
        _texts.reset(token)


_texts: ContextVar[dict[ir.Operation, str] | None] = ContextVar("_texts", default=None)


def _text(op: ir.Operation) -> str:
    known = _texts.get()
    if known is None:
        return _printed(op)
    if op not in known:
        known[op] = _printed(op)
    return known[op]


def _printed(op: ir.Operation) -> str:
    text = op.get_asm(large_elements_limit=8, large_resource_limit=8, skip_regions=True, assume_verified=True)
    text = " ".join(_MAPS.sub(r"{iterator_types = \1}", text[: 20 * _WIDTH]).split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


# ---- looking for ops ---------------------------------------------------------------------------------------------


def _all_ops(module: ir.Module) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]


def _numbered(ops: list[ir.Operation], at: At) -> list[ir.Operation]:
    named = [op for op in ops if op.name == at.name]
    if at.number <= len(named) and named:
        return [named[at.number - 1]] if at.number else named
    if named:
        count = f"{len(named)} such op{'s' * (len(named) > 1)}"
        raise OpspliceError(f"there is no {at.text}: the program has {count} when patterns are looked for")
    if any(_is_file(file, at.name) for op in ops for file, _, _ in places_of(op)):
        raise OpspliceError(f"{at.name} is a file", hint=f"write a line of it too: {at.name}:12")
    names = Counter(op.name for op in ops)
    near = nearest(at.name, names)
    hint = f"did you mean {near}?" if near else f"there are {_listed([n for n, _ in names.most_common(_MOST_SAID)])}"
    raise OpspliceError(f"the program has no op {at.name} when patterns are looked for", hint=hint)


def _at_line(ops: list[ir.Operation], at: At) -> list[ir.Operation]:
    files: dict[str, set[int]] = {}
    found = []
    for op in ops:
        for file, line, column in places_of(op):
            if not _is_file(file, at.file):
                files.setdefault(file, set())
            elif line == at.line and (not at.column or column == at.column):
                found.append(op)
                break
            else:
                files.setdefault(file, set()).add(line)
    # A function stands at its line too, but it is no computation; nor is what ends one.
    found = [op for op in found if len(op.results)] or found
    if found:
        return found
    lines = {n for name, known in files.items() if _is_file(name, at.file) for n in known if n}
    if lines:
        near = sorted(sorted(lines, key=lambda n: (abs(n - at.line), n))[:_MOST_SAID])
        where = f" of {at.file}" if at.file else ""
        hint: str | None = f"the nearest lines{where} that have some: {', '.join(map(str, near))}"
    else:
        hint = f"the ops of the program are from {_listed(sorted(files)[:_MOST_SAID])}" if files else None
    raise OpspliceError(f"no op of the program is from {at.text}", hint=hint)


def _is_file(name: str, wanted: str) -> bool:
    return not wanted or name == wanted or name.endswith("/" + wanted.removeprefix("./")) or wanted.endswith("/" + name)


def _listed(names: list[str]) -> str:
    return ", ".join(names)
