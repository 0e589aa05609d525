"""Checks, while a program runs, that open sizes of operands are equal.

ONNX repeats a dim of size 1 where another operand's is larger. IREE does so where the size is known to be 1, and takes
sizes that are open for equal: of others it would read what lies behind an operand.

    torch.operator "onnx.Add"(%x, %y) : (!torch.vtensor<[?,4],f32>, !torch.vtensor<[?,4],f32>)

        =>

    %m, %n = torch.aten.size.int %x, %int0; torch.aten.size.int %y, %int0
    torch.runtime.assert (torch.aten.eq.int %m, %n), "Add of z: ..."
    the same
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.matchers.ir.op_names import location_text, ops_in
from opsplice.matchers.ir.tensor_values import shape_of
from opsplice.rewrites.ir import emit

# Operators whose operands are repeated along dims of size 1.
_REPEATING = {
    *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual"),
    *("Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor"),
}
_MATRIX = 2  # dims


@dataclass(frozen=True)
class _Size:
    """The size of an operand along a dim, None if it is open."""

    operand: int
    axis: int
    known: int | None


def check_sizes(module: ir.Module) -> None:
    """Add the checks to a module as IREE's importer makes it."""
    for op in ops_in(module.operation, "torch.operator"):
        with op.location, ir.InsertionPoint(op):
            for alike in _alike(op):
                _check(op, alike)


def _alike(op: ir.Operation) -> Iterator[list[_Size]]:
    """The sizes of operands that have to be equal, or 1 where that is known."""
    name = ir.StringAttr(op.attributes["name"]).value.removeprefix("onnx.")
    if name in ("GRU", "LSTM"):  # the rows of the input and of states
        given = [(at, shape_of(op.operands[at])) for at in (0, 5, 6) if at < len(op.operands)]
        yield [_Size(at, 1, shape[1]) for at, shape in given if shape]
    shapes = [shape for value in op.operands if (shape := shape_of(value)) is not None]
    if len(shapes) < len(op.operands):
        return
    if name == "Concat" and any(shapes) and len(set(map(len, shapes))) == 1:
        joined = ir.IntegerAttr(op.attributes["torch.onnx.axis"]).value % len(shapes[0])
        for axis in range(len(shapes[0])):
            if axis != joined:
                yield [_Size(at, axis, shape[axis]) for at, shape in enumerate(shapes)]
    elif name in _REPEATING or name == "MatMul":
        least = 1 + (_MATRIX if name == "MatMul" else 0)
        for behind in range(least, max(map(len, shapes), default=0) + 1):
            sizes = [(at, len(shape) - behind, shape) for at, shape in enumerate(shapes)]
            yield [_Size(at, axis, shape[axis]) for at, axis, shape in sizes if axis >= 0 and shape[axis] != 1]


def _check(op: ir.Operation, alike: Sequence[_Size]) -> None:
    """Compare each open size with one that is known, or else with the first."""
    known, opened = [size for size in alike if size.known is not None], [size for size in alike if size.known is None]
    compared = [*known[:1], *opened]
    for other in compared[1:]:
        _compare(op, compared[0], other)


def _compare(op: ir.Operation, one: _Size, other: _Size) -> None:
    equal = emit.value("torch.aten.eq.int", [_number(op, one), _number(op, other)], ir.Type.parse("!torch.bool"))
    both = f"inputs {one.operand + 1} and {other.operand + 1} of '{location_text(op)}'"
    message = f"{both} differ in an open size; only a size that the model fixes as 1 is repeated"
    emit.op("torch.runtime.assert", [equal], attributes={"message": ir.StringAttr.get(message)})


def _number(op: ir.Operation, size: _Size) -> ir.Value:
    if size.known is not None:
        return torch_int(size.known)
    return emit.value("torch.aten.size.int", [op.operands[size.operand], torch_int(size.axis)], _whole())


def torch_int(number: int) -> ir.Value:
    """A whole number as the Torch dialect has it."""
    value = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    return emit.value("torch.constant.int", [], _whole(), value=value)


def _whole() -> ir.Type:
    return ir.Type.parse("!torch.int")
