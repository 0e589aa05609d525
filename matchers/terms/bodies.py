"""Bodies of ops: whether an op of a program computes in its body what a pattern writes as MLIR.

What counts is how values are computed from the body's arguments: not the order of the ops, and not whether a constant
stands in the body or outside of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.ir.op_names import last_op, short
from opsplice.matchers.terms.attributes import IGNORED, rounds_to_nearest
from opsplice.spec_lang.syntax import tree, vocabulary

_CONSTANT = "arith.constant"
# What the verifier says of an op; the parser says anything else.
_VERIFIER = re.compile(r"'[\w.]+' op ")
_LINE = re.compile(r":(\d+):(\d+)\)$")
_ARGUMENTS = re.compile(r"\^\w+\((?P<all>[^()]*)\)")


@dataclass(frozen=True)
class _Op:
    """An op of a body. operands: values by their number, or what makes them."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    operands: tuple[Any, ...]
    types: tuple[str, ...]

    def __str__(self) -> str:
        known = vocabulary.find(self.name)
        words = {str(number): word for number, word in enumerate(known.predicates if known is not None else ())}
        numbers = [(name, value.partition(" : ")[0]) for name, value in self.attributes]
        values = [(name, words.get(value, value) if name == "predicate" else value) for name, value in numbers]
        told = ", ".join(f"{name} = {value}" for name, value in values)
        return f"{short(self.name)} {{{told}}}" if told else short(self.name)


_Body: TypeAlias = tuple[_Op, ...]


def difference(op: ir.Operation, code: tree.Code, may_lack_dims: bool = False) -> tuple[str, str] | None:
    """What a body written as MLIR has, and what the op has instead; None where they are the same.

    may_lack_dims: whether an argument for each dim may be one for each dim that the op has, where none is used.
    Raises OpspliceError for text that is not a body of MLIR.
    """
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        return "a body of one block", f"{op.name} without one"
    module = _parsed(op, _for_dims(op, code) if may_lack_dims else code)
    if isinstance(module, str):
        return "a body that fits the op", module
    shell = module.body.operations[0].regions[0].blocks[0].operations[0].operation
    wanted, found = _read(shell), _read(op)
    if wanted == found:
        return None
    pairs = zip(wanted, found, strict=False)
    left, right = next(((a, b) for a, b in pairs if a != b), (f"{len(wanted)} ops", f"{len(found)} ops"))
    return (str(left), str(right)) if str(left) != str(right) else (f"{left} of these values", f"{right} of others")


def text(op: ir.Operation) -> str | None:
    """What the one region of an op holds, as a pattern writes it; None where it is not one block."""
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        return None
    lines = op.get_asm(use_local_scope=True).splitlines()
    if not any(line.lstrip().startswith("^") for line in lines):
        lines = op.get_asm(use_local_scope=True, print_generic_op_form=True).splitlines()
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("^"))
    end = max(number for number, line in enumerate(lines) if line.lstrip().startswith("}"))
    return "\n".join(lines[start:end])


def outside(op: ir.Operation) -> list[ir.Value]:
    """The values from outside that the body of an op uses."""
    block = op.regions[0].blocks[0]
    inner = [each.operation for each in block.operations]
    own = {*block.arguments, *(result for each in inner for result in each.results)}
    return list(dict.fromkeys(value for each in inner for value in each.operands if value not in own))


def _for_dims(op: ir.Operation, code: tree.Code) -> tree.Code:
    """A body with as many arguments as the op's has, where it has more and uses none of them."""
    found = _ARGUMENTS.search(code.text)
    given = found["all"].split(",") if found is not None else []
    count = len(op.regions[0].blocks[0].arguments)
    names = (each.partition(":")[0].strip() for each in given)
    if found is None or len(given) <= count or any(re.search(rf"{each}\b", code.text[found.end() :]) for each in names):
        return code
    start, end = found.span("all")
    return replace(code, text=code.text[:start] + ",".join(given[:count]) + code.text[end:])


def _parsed(op: ir.Operation, code: tree.Code) -> ir.Module | str:
    """The op with the text as its body, in a function; or why the op cannot have that body."""
    names = [f"%operand{number}" for number in range(len(op.operands))]
    kinds = [str(value.type) for value in op.operands]
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True))
    attributes = ", ".join(f"{name} = {op.attributes[name]}" for name in op.attributes if "." not in name)
    results = ", ".join(str(value.type) for value in op.results)
    head = f'util.func private @body({arguments}) {{ "{op.name}"({", ".join(names)}) ({{'
    text = f"{head}{code.text}\n}}) {{{attributes}}} : ({', '.join(kinds)}) -> ({results})\nutil.return }}"
    try:
        return ir.Module.parse(text, context=op.context)
    except ir.MLIRError as failure:
        told = failure.error_diagnostics[0] if failure.error_diagnostics else None
        if told is not None and _VERIFIER.match(told.message):
            return f"an op for which it does not: {told.message}"
        raise OpspliceError(
            "not a body of MLIR",
            details=f"{_place(code, failure)}: {failure if told is None else told.message}",
            hint="write it as MLIR prints it: mlir { ^bb0(%a: f32, %out: f32): ... linalg.yield %r : f32 }",
        ) from None


def _place(code: tree.Code, failure: ir.MLIRError) -> tree.Span:
    """Where in the spec the text is wrong, which begins on the first line that was parsed."""
    found = _LINE.search(str(failure.error_diagnostics[0].location)) if failure.error_diagnostics else None
    line, column = (int(found[1]), int(found[2])) if found is not None else (1, 1)
    lines = code.text.splitlines(keepends=True)
    if not 1 < line <= len(lines):
        return code.span
    start = code.span.end - 1 - len(code.text) + sum(map(len, lines[: line - 1])) + column - 1
    return tree.Span(code.span.source, start, start + 1)


def _read(op: ir.Operation) -> _Body:
    """How the body computes what it ends with, op by op from the arguments on."""
    blocks: list[ir.Block] = []
    numbers: dict[ir.Value, Any] = {}
    found: list[_Op] = []

    def number_of(value: ir.Value) -> Any:
        if value not in numbers:
            maker = None if isinstance(value.owner, ir.Block) else value.owner.operation
            if maker is not None and maker.name == _CONSTANT:
                numbers[value] = (_CONSTANT, str(maker.attributes["value"]))
            elif maker is None or maker.block not in blocks:
                numbers[value] = value  # from outside, so that no text has it
            else:
                read(maker)
        return numbers[value]

    def read(each: ir.Operation) -> None:
        operands = (*map(number_of, each.operands), *map(blocks.index, each.successors))
        for region in each.regions:
            read_region(region)
        told = IGNORED if rounds_to_nearest(each) else IGNORED - {"roundingmode"}
        names = sorted(name for name in each.attributes if name not in told)
        attributes = tuple((name, str(each.attributes[name])) for name in names)
        found.append(_Op(each.name, attributes, operands, tuple(str(value.type) for value in each.results)))
        numbers.update({value: (len(found), number) for number, value in enumerate(each.results)})

    def read_region(region: ir.Region) -> None:
        blocks.extend(region.blocks)
        for block in region.blocks:
            numbers.update({value: (len(found), number, "argument") for number, value in enumerate(block.arguments)})
            read(last_op(block))

    read_region(op.regions[0])
    return tuple(found)
