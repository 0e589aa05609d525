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
from opsplice.matchers.ir.tensor_values import defining_op, shape_of
from opsplice.rewrites.ir import emit

# Operators whose operands are repeated along dims of size 1.
_REPEATING = {
    *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual"),
    *("Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor"),
}
_MATRIX = 2  # dims
# Operators that leave sizes as they are, but for slices, which may take some off.
_NEVER_LARGER = {"Cast", "Identity", "Slice"}


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
                _check(op, _of_one(op, alike))


def _name(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["name"]).value.removeprefix("onnx.")


def _alike(op: ir.Operation) -> Iterator[list[_Size]]:
    """The sizes of operands that have to be equal, or 1 where that is known."""
    name = _name(op)
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


def _of_one(op: ir.Operation, alike: Sequence[_Size]) -> Sequence[_Size]:
    """Sizes that are to be equal, without those of parts of a dim of 1, as slices of a bias for the last places have.

    They are 1 if they are not all that the others are: the operands become ones of which that is known, and repeated.
    """
    if _name(op) not in (*_REPEATING, "MatMul"):
        return alike
    ones = [size for size in alike if size.known is None and _is_at_most_one(op.operands[size.operand], size.axis)]
    others = [size for size in alike if size not in ones]
    for size in ones if others else ():
        is_one = _is_equal(op, size, _Size(size.operand, size.axis, 1))
        fits = emit.value("torch.aten.__or__.bool", [is_one, _is_equal(op, size, others[0])], is_one.type)
        _assert(fits, f"input {size.operand + 1} of '{location_text(op)}' is empty, and another one is not")
        value = op.operands[size.operand]
        shape = list(shape_of(value) or ())
        shape[size.axis] = 1
        kind = torch_tensor(shape, element_text(value.type))
        op.operands[size.operand] = known_as(value, kind)
    return others or alike


def _is_at_most_one(value: ir.Value, axis: int) -> bool:
    """Whether an open size is that of a part of a dim of 1."""
    op = defining_op(value)
    if op is None or op.name != "torch.operator" or _name(op) not in _NEVER_LARGER:
        return False
    size = (shape_of(op.operands[0]) or ())[axis]
    return size == 1 or (size is None and _is_at_most_one(op.operands[0], axis))


def _check(op: ir.Operation, alike: Sequence[_Size]) -> None:
    """Compare each open size with one that is known, or else with the first."""
    known, opened = [size for size in alike if size.known is not None], [size for size in alike if size.known is None]
    compared = [*known[:1], *opened]
    for other in compared[1:]:
        _compare(op, compared[0], other)


def _compare(op: ir.Operation, one: _Size, other: _Size) -> None:
    both = f"inputs {one.operand + 1} and {other.operand + 1} of '{location_text(op)}'"
    message = f"{both} differ in an open size; only a size that the model fixes as 1 is repeated"
    _assert(_is_equal(op, one, other), message)


def _is_equal(op: ir.Operation, one: _Size, other: _Size) -> ir.Value:
    return emit.value("torch.aten.eq.int", [_number(op, one), _number(op, other)], ir.Type.parse("!torch.bool"))


def _assert(holds: ir.Value, message: str) -> None:
    emit.op("torch.runtime.assert", [holds], attributes={"message": ir.StringAttr.get(message)})


def _number(op: ir.Operation, size: _Size) -> ir.Value:
    if size.known is not None:
        return torch_int(size.known)
    return emit.value("torch.aten.size.int", [op.operands[size.operand], torch_int(size.axis)], _whole())


def known_as(value: ir.Value, kind: ir.Type) -> ir.Value:
    """A tensor of which more or less sizes are known."""
    return emit.value("torch.tensor_static_info_cast", [value], kind)


def torch_tensor(sizes: Sequence[int | None], element: str) -> ir.Type:
    """The Torch dialect's type of a tensor, None for open sizes."""
    text = ",".join("?" if size is None else str(size) for size in sizes)
    return ir.Type.parse(f"!torch.vtensor<[{text}],{element}>")


def element_text(kind: ir.Type) -> str:
    """The element type of such a type."""
    return str(kind).rpartition(",")[2].removesuffix(">")


def torch_int(number: int) -> ir.Value:
    """A whole number as the Torch dialect has it."""
    value = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    return emit.value("torch.constant.int", [], _whole(), value=value)


def _whole() -> ir.Type:
    return ir.Type.parse("!torch.int")
