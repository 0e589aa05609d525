"""The symbols of a spec's raw MLIR, `mlir { util.func private @f ... }`, in a program that may have others.

Each block has a name space of its own: a rule sees what its own file has, then what imported files have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from opsplice.common.errors import OpspliceError
from opsplice.matchers.ir.op_names import symbol_of
from opsplice.rewrites.ir import symbols
from opsplice.rewrites.link import object_files
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts.artifact import Artifact

# On a symbol of a block: the digest of what the spec says it is, which rules may have changed since.
IMPORTED = "opsplice.imported"
# Given raw MLIR, the path of a file that it names, and the text of its target: the file, None to leave the path.
Locate = Callable[[tree.Code, str, str], Path | Artifact | None]
# Where IREE has made elementwise ops on tensors into linalg ops, does so no more, and has yet to form dispatches.
_LATE = "global-optimization"
_TO_LINALG = "builtin.module(util.func(convert-elementwise-to-linalg))"
_SYMBOL = re.compile(r'@(?:"([^"]+)"|([\w.$-]+))')
_PLACE = re.compile(r":(\d+):(\d+)")
_ERROR_LINE = re.compile(r'error: "?[^":]*"?:(\d+):(\d+): (.*)')


@dataclass(frozen=True, eq=False)
class Block:
    """A block of raw MLIR, read. names: for each of its symbols the mark that it has in programs."""

    code: tree.Code
    module: ir.Module

    @cached_property
    def names(self) -> Mapping[str, str]:
        text = str(self.module)
        named = symbols.defined(self.module.operation)
        return {name: hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()[:16] for name in named}


@dataclass(frozen=True)
class Helpers:
    """The blocks of a spec that have been put into a program.

    names: for each block the new names of its symbols that have one; inner: the new names of its executables' exports.
    """

    blocks: tuple[Block, ...] = ()
    names: Mapping[Block, symbols.Names] = field(default_factory=dict)
    inner: Mapping[Block, Mapping[str, symbols.Names]] = field(default_factory=dict)

    def prelude(self, code: tree.Code) -> str:
        """The text of the blocks that a rule's MLIR sees."""
        return "\n".join(block.code.text for block in visible(self.blocks, code))

    def rename(self, op: ir.Operation, code: tree.Code) -> None:
        """Let an op of a rule's MLIR, read behind its prelude, refer to what the blocks' symbols are in the program."""
        names: dict[str, str] = {}
        inner: dict[str, symbols.Names] = {}
        for block in visible(self.blocks, code):
            names.update(self.names[block])
            inner.update(self.inner[block])
        symbols.rename([op], names, inner)


def read(codes: Sequence[tree.Code]) -> tuple[Block, ...]:
    """Raises OpspliceError, with its place, for MLIR that is wrong. Needs a current context."""
    return tuple(Block(code, parse("\n" * (code.span.line - 1) + code.text, code.span.line, code)) for code in codes)


def visible(blocks: Sequence[Block], code: tree.Code) -> list[Block]:
    """The blocks whose symbols a rule's MLIR sees. Raises OpspliceError for a symbol that several files have for it."""
    wanted = symbols_in(code.text)
    own = [block for block in blocks if block.code.span.source == code.span.source]
    others = sorted((b for b in blocks if b not in own), key=lambda b: wanted.isdisjoint(b.names))
    seen: dict[str, Block] = {}
    found: list[Block] = []
    for block in (*own, *others):
        clashes = block.names.keys() & seen.keys()
        needed = wanted & block.names.keys() - {name for each in own if each is not block for name in each.names}
        if clashes and needed:
            name = min(clashes)
            raise OpspliceError(
                f"the MLIR at {code.span} sees two symbols @{name}",
                details=f"one is at {seen[name].code.span}\none is at {block.code.span}",
                hint="rename one",
            )
        if not clashes:
            found.append(block)
            seen.update(dict.fromkeys(block.names, block))
    return found


def put_into(
    module: ir.Module,
    codes: Sequence[tree.Code],
    locate: Locate | None = None,
    brought: Collection[str] = (),
    phase: str | None = None,
) -> Helpers:
    """Put a spec's raw MLIR into the module, once; what is private gets a new name where another spec has its name.

    locate: finds the files that its executables name. brought: the symbols that other specs have brought.
    phase: the one that rules are applied at.
    Raises OpspliceError for wrong MLIR and for a name that the program has. Needs a current context.
    """
    blocks = read(codes)
    names: dict[Block, dict[str, str]] = {}
    inner: dict[Block, dict[str, dict[str, str]]] = {}
    for block in blocks:
        _locate(block)
        names[block], inner[block] = {}, {}
        taken = {*block.names}  # the marks are of what is written
        convert(block.module, phase)
        there = symbols.defined(module.operation)
        marked = marks(there.values())
        entries = {entry for op in there.values() for entry in symbols.exports_of(op)}
        taken |= there.keys()
        copies: list[ir.Operation] = []
        for op in (each.operation for each in block.module.body.operations):
            name = symbol_of(op)
            known = marked.get(block.names.get(name, ""))
            if known is not None:
                if known != name:
                    names[block][name] = known
                there_too = zip(symbols.exports_of(op), symbols.exports_of(there[known]), strict=True)
                inner[block][name] = {old: new for old, new in there_too if old != new}
                continue
            if name and name in there:
                _check_may_be_renamed(op, there[name], block, brought)
                names[block][name] = symbols.unused(name, taken)
                taken.add(names[block][name])
            exports = symbols.exports_of(op)
            inner[block][name] = {e: symbols.unused(e, {*entries, *exports}) for e in exports if e in entries}
            copy = op.clone().operation
            if name:
                copy.attributes[IMPORTED] = ir.StringAttr.get(block.names[name])
            copies.append(copy)
        symbols.rename(copies, names[block], inner[block])
        for copy in copies:
            if locate is not None:
                object_files.resolve_in(copy, partial(locate, block.code))
            module.body.append(copy)
    return Helpers(blocks, names, inner)


def convert(module: ir.Module, phase: str | None) -> None:
    """Make ops on tensors into what the compiler takes at a phase. Needs a current context."""
    if phase == _LATE:
        PassManager.parse(_TO_LINALG).run(module.operation)


def marks(tops: Iterable[ir.Operation]) -> dict[str, str]:
    """The symbols of blocks among those of a program, by their marks."""
    found: dict[str, str] = {}
    for op in tops:
        if IMPORTED in op.attributes and isinstance(op.attributes[IMPORTED], ir.StringAttr):
            found[ir.StringAttr(op.attributes[IMPORTED]).value] = symbol_of(op)
    return found


def forget(op: ir.Operation) -> None:
    """Take off the mark of a symbol of a spec's MLIR."""
    if IMPORTED in op.attributes:
        del op.attributes[IMPORTED]


def symbols_in(text: str) -> set[str]:
    """The symbols that MLIR names."""
    return {quoted or plain for quoted, plain in _SYMBOL.findall(text)}


def parse(text: str, lines_before: int, code: tree.Code) -> ir.Module:
    """Read MLIR. Raises OpspliceError with the spec's line for what is wrong. Needs a current context.

    lines_before: how many lines the text has before those of the block, its first one not counted.
    """
    try:
        return ir.Module.parse(text)
    except ir.MLIRError as failure:
        found = _ERROR_LINE.search(str(failure))
        message = found[3] if found else str(failure).strip()
        line = code.span.line + (int(found[1]) - lines_before if found else 0)
        last = code.span.line + code.text.count("\n")
        line = min(max(code.span.line, line), last)
        where = f"{code.span.source.name}:{line}: {message}\n  {code.span.source.line(line).strip()}"
        raise OpspliceError("the MLIR of a rule is wrong", details=where) from None


def _check_may_be_renamed(op: ir.Operation, other: ir.Operation, block: Block, brought: Collection[str]) -> None:
    name = symbol_of(op)
    needed = f"needed by {block.code.span}"
    if IMPORTED not in other.attributes and name not in brought:
        raise OpspliceError(f"the program has a symbol @{name} already", details=needed, hint="rename the spec's")
    if "sym_visibility" not in op.attributes or ir.StringAttr(op.attributes["sym_visibility"]).value != "private":
        hint = "rename one, or make it private: then each spec has its own"
        raise OpspliceError(f"another spec has put a symbol @{name} into the program", details=needed, hint=hint)


def _locate(block: Block) -> None:
    """Give the ops of a block the places that they have in the spec."""

    def visit(op: ir.Operation) -> ir.WalkResult:
        place = _PLACE.search(str(op.location))
        if place is not None:
            op.location = ir.Location.file(block.code.span.source.name, int(place[1]), int(place[2]))
        return ir.WalkResult.ADVANCE

    block.module.operation.walk(visit)
