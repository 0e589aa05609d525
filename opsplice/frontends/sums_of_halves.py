"""Adds up f16 and bf16 in f32 in programs of StableHLO, and rounds once, as XLA does: IREE 3.13 rounds after each term.

    %r = stablehlo.dot_general %x, %y : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>

        =>

    %p = stablehlo.dot_general %x, %y : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>
    %r = stablehlo.convert %p : (tensor<2x4xf32>) -> tensor<2x4xbf16>

So too convolutions, and what reductions and windows, such as those of running sums, compute of each two numbers.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.rewrites.ir import emit

_CONVERT = "stablehlo.convert"
_RETURN = "stablehlo.return"
# What gives one of two numbers rounds nothing.
_EXACT = {"stablehlo.maximum", "stablehlo.minimum", _RETURN}


def add_in_f32(op: ir.Operation) -> None:
    """Change a product or a reduction that adds up numbers of 16 bits."""
    if all(_is_half(value.type) for value in (*op.operands, *op.results)):
        made = _reduction(op) if len(op.regions) else _product(op)
        if made is not None:
            emit.replace(op, emit.value(_CONVERT, [made], op.results[0].type))


def _is_half(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType) and isinstance(kind.element_type, ir.F16Type | ir.BF16Type)


def _wide(kind: ir.Type) -> ir.Type:
    if not _is_half(kind):
        return kind
    return ir.RankedTensorType.get(ir.RankedTensorType(kind).shape, ir.F32Type.get())


def _product(op: ir.Operation) -> ir.Value | None:
    """None where there is nothing to add up. IREE makes a product of scalars that is converted invalid in places."""
    if op.name == "stablehlo.dot_general" and "contracting" not in str(op.attributes["dot_dimension_numbers"]):
        return None
    return emit.value(op.name, op.operands, _wide(op.results[0].type), **emit.attributes_of(op))


def _reduction(op: ir.Operation) -> ir.Value | None:
    """None where nothing is rounded, and where several values are reduced together."""
    (block,) = op.regions[0].blocks
    if len(op.results) > 1 or any(list(inner.operation.regions) for inner in block.operations):
        return None
    if all(inner.operation.name in _EXACT for inner in block.operations):
        return None
    operands = [emit.value(_CONVERT, [value], _wide(value.type)) for value in op.operands]
    made = emit.op(op.name, operands, [_wide(op.results[0].type)], emit.attributes_of(op), regions=1)
    arguments = [_wide(argument.type) for argument in block.arguments]
    body = made.regions[0].blocks.append(*arguments, arg_locs=[op.location] * len(arguments))
    known = dict(zip(block.arguments, body.arguments, strict=True))
    with ir.InsertionPoint(body):
        for inner in (each.operation for each in block.operations):
            given = [known.get(value, value) for value in inner.operands]
            if inner.name == _RETURN:
                emit.op(_RETURN, [_converted(value) for value in given])
                continue
            is_made = not given  # a constant, of the type that it has
            kinds = [value.type if is_made else _wide(value.type) for value in inner.results]
            results = emit.op(
                inner.name, [_converted(value) for value in given], kinds, emit.attributes_of(inner)
            ).results
            known.update(zip(inner.results, map(_converted, results), strict=True))
    return made.results[0]


def _converted(value: ir.Value) -> ir.Value:
    return emit.value(_CONVERT, [value], _wide(value.type)) if _is_half(value.type) else value
