"""StableHLO's integers of 4 bits and 2, of which IREE 3.13 compiles some sizes only, held in bytes.

    %i = stablehlo.convert %x : (tensor<6xi32>) -> tensor<6xi4>
    %r = stablehlo.add %i, %i : tensor<6xi4>

        =>

    %b = stablehlo.convert %x : (tensor<6xi32>) -> tensor<6xi8>
    %i = %b << 4 >> 4                                              the four bits with their sign
    %s = stablehlo.add %i, %i : tensor<6xi8>
    %r = %s << 4 >> 4

IREE keeps two numbers in a byte, and writes no part of one: "failed to legalize operation 'vector.maskedstore'".
"""

from __future__ import annotations

from collections.abc import Iterable

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.ir import emit

# Where such numbers come from, and where they go.
_CONVERT = "stablehlo.convert"
# Ops whose results are elements of their operands.
_MOVED = """
    broadcast_in_dim concatenate dynamic_slice dynamic_update_slice gather pad reshape reverse select slice transpose
"""
_MOVES = {f"stablehlo.{name}" for name in _MOVED.split()}
# Those that see bits beyond the four.
_SEEN = "bitcast_convert count_leading_zeros popcnt shift_right_logical"
_OF_BITS = {f"stablehlo.{name}" for name in _SEEN.split()}


def hold_in_bytes(module: ir.Module) -> None:
    """Change all such numbers of a module, unless one of its ops counts or shifts their bits."""
    if not any(_has_small(op) for op in ops_in(module.operation, _CONVERT)):
        return
    ops = ops_in(module.operation)
    if any(_has_small(op) for op in ops if op.name in _OF_BITS):
        return
    for op in ops:
        for block in (block for region in op.regions for block in region.blocks):
            _widen(block.arguments)
        if op.name == "func.func":
            kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
            inputs, results = ([_wide(each) or each for each in side] for side in (kind.inputs, kind.results))
            op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
        cut = [] if op.name in _MOVES or op.regions or op.name == "func.call" else list(op.results)
        cut = [(value, ir.RankedTensorType(value.type).element_type) for value in cut if _wide(value.type)]
        if op.name == "stablehlo.constant" and cut:
            text = str(op.attributes["value"])
            head, _, tail = text.rpartition(str(cut[0][1]))
            op.attributes["value"] = ir.Attribute.parse(f"{head}{_byte(cut[0][1])}{tail}")
        _widen(op.results)
        for value, element in cut:
            with op.location, ir.InsertionPoint.after(op):
                _cut(value, ir.IntegerType(element))


def _has_small(op: ir.Operation) -> bool:
    return any(_wide(value.type) for value in (*op.operands, *op.results))


def _widen(values: Iterable[ir.Value]) -> None:
    for value in values:
        if kind := _wide(value.type):
            value.set_type(kind)


def _wide(kind: ir.Type) -> ir.Type | None:
    """The type that holds numbers of one in bytes; None for what has other numbers."""
    if not isinstance(kind, ir.RankedTensorType) or not isinstance(kind.element_type, ir.IntegerType):
        return None
    element = kind.element_type
    return ir.RankedTensorType.get(kind.shape, _byte(element)) if element.width in (2, 4) else None


def _byte(element: ir.IntegerType) -> ir.IntegerType:
    return ir.IntegerType.get_unsigned(8) if element.is_unsigned else ir.IntegerType.get_signless(8)


def _cut(value: ir.Value, element: ir.IntegerType) -> None:
    """Leave a value the bits that its numbers have."""
    uses = [(use.owner, use.operand_number) for use in value.uses]
    kind = ir.RankedTensorType(value.type)
    scalar = ir.RankedTensorType.get([], kind.element_type)
    beyond = ir.DenseElementsAttr.get_splat(scalar, ir.IntegerAttr.get(kind.element_type, 8 - element.width))
    none = emit.op("stablehlo.constant", [], [scalar], {"value": beyond}).results[0]
    count = emit.value("stablehlo.broadcast_in_dim", [none], kind, broadcast_dimensions=ir.DenseI64ArrayAttr.get([]))
    right = "logical" if element.is_unsigned else "arithmetic"
    front = emit.value("stablehlo.shift_left", [value, count], kind)
    cut = emit.value(f"stablehlo.shift_right_{right}", [front, count], kind)
    for user, number in uses:
        user.operands[number] = cut
