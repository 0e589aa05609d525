"""Integers without a sign, where IREE 3.13 does not compile StableHLO's ops on them or takes large ones for negative.

    %r = stablehlo.reverse %x : tensor<4xui8>

        =>

    %i = stablehlo.bitcast_convert %x : (tensor<4xui8>) -> tensor<4xi8>
    %q = stablehlo.reverse %i : tensor<4xi8>
    %r = stablehlo.bitcast_convert %q : (tensor<4xi8>) -> tensor<4xui8>

So too what the regions of an op are given and return: those of loops, branches and windows. What `chlo.top_k` compares
also gets another highest bit, which makes the order of the numbers with a sign that of those without.

Products take the numbers as wide as their sums are. IREE would extend them with the sign that they do not have, and
would take a conversion in front of a product for such an extension. An absolute value in between keeps the two apart:

    %r = stablehlo.dot_general %x, %y : (tensor<2x3xui8>, tensor<3x4xui8>) -> tensor<2x4xui32>

        =>

    %i = stablehlo.convert %x : (tensor<2x3xui8>) -> tensor<2x3xi32>
    %a = stablehlo.abs %i : tensor<2x3xi32>                               so too %y
    %p = stablehlo.dot_general %a, %b : (tensor<2x3xi32>, tensor<3x4xi32>) -> tensor<2x4xi32>
    %r = stablehlo.bitcast_convert %p : (tensor<2x4xi32>) -> tensor<2x4xui32>
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.rewrites.ir import emit

_MOVED = tuple(f"stablehlo.{kind}" for kind in ("reverse", "iota", "case", "if", "while", "reduce_window", "scatter"))
_COMPARED = "chlo.top_k"
OPS = (*_MOVED, _COMPARED)
_CONVERT = "stablehlo.convert"


def widen(op: ir.Operation) -> None:
    """Hand numbers without a sign to a product as numbers that it does not extend."""
    result = ir.RankedTensorType(op.results[0].type).element_type
    for number, value in enumerate(op.operands):
        kind, signed = ir.RankedTensorType(value.type), _signed(value.type)
        is_extended = _is_extended(value)
        if signed is not None and _is_wider(result, kind.element_type):
            element = ir.IntegerType.get_signless(result.width) if isinstance(result, ir.IntegerType) else result
            value, is_extended = emit.value(_CONVERT, [value], ir.RankedTensorType.get(kind.shape, element)), True
        elif signed is not None:
            value = emit.value("stablehlo.bitcast_convert", [value], signed)
        if is_extended:
            value = emit.value("stablehlo.abs", [value], value.type)
        op.operands[number] = value
    with ir.InsertionPoint.after(op):
        _take_signs(op.results)


def _is_extended(value: ir.Value) -> bool:
    """Whether it is made of narrower numbers without a sign."""
    made = defining_op(value)
    if made is None or made.name != _CONVERT or _signed(made.operands[0].type) is None:
        return False
    before, behind = (ir.RankedTensorType(each.type).element_type for each in (made.operands[0], value))
    return _is_wider(behind, before)


def _is_wider(element: ir.Type, unsigned: ir.Type) -> bool:
    return not isinstance(element, ir.IntegerType) or element.width > ir.IntegerType(unsigned).width


def give_signs(op: ir.Operation) -> None:
    """Give signs to the numbers without one that one of `OPS` takes and makes, and those in its regions."""
    is_compared = op.name == _COMPARED
    # Indices of a scatter are places, of which 200 is none before 0.
    _give_signs(op, is_compared, len(op.operands) // 2 if op.name == "stablehlo.scatter" else None)
    for block in (block for region in op.regions for block in region.blocks):
        with ir.InsertionPoint(last_op(block)):
            _give_signs(last_op(block))
        with ir.InsertionPoint.at_block_begin(block):
            _take_signs(block.arguments)
    with ir.InsertionPoint.after(op):
        _take_signs(op.results, is_compared)


def _give_signs(op: ir.Operation, is_compared: bool = False, but: int | None = None) -> None:
    for number, value in enumerate(op.operands):
        kind = _signed(value.type)
        if kind is not None and number != but:
            bits = emit.value("stablehlo.bitcast_convert", [value], kind)
            op.operands[number] = _with_other_sign(bits) if is_compared else bits


def _take_signs(values: Sequence[ir.Value], is_compared: bool = False) -> None:
    """Change the types of values, and have what reads them read them as before."""
    for value in values:
        before, kind = value.type, _signed(value.type)
        if kind is not None:
            uses = list(value.uses)
            value.set_type(kind)
            bits = _with_other_sign(value) if is_compared else value
            made = emit.value("stablehlo.bitcast_convert", [bits], before)
            for use in uses:
                use.owner.operands[use.operand_number] = made


def _with_other_sign(value: ir.Value) -> ir.Value:
    kind = ir.RankedTensorType(value.type)
    sign = ir.IntegerAttr.get(kind.element_type, -(1 << kind.element_type.width - 1))
    constant = emit.value("stablehlo.constant", [], kind, value=ir.DenseElementsAttr.get_splat(kind, sign))
    return emit.value("stablehlo.xor", [value, constant], kind)


def _signed(kind: ir.Type) -> ir.Type | None:
    """The type of tensors of as wide numbers with a sign, if it is of those without one."""
    if not isinstance(kind, ir.RankedTensorType) or not isinstance(kind.element_type, ir.IntegerType):
        return None
    if not kind.element_type.is_unsigned:
        return None
    return ir.RankedTensorType.get(kind.shape, ir.IntegerType.get_signless(kind.element_type.width))
