"""What a convolution of groups adds to is added behind it, where sizes are open and there is one image.

    %copies = linalg.broadcast %bias
    %start = tensor.expand_shape %copies : tensor<1x64x?x?xf32> into tensor<1x4x16x?x?xf32>
    linalg.conv_2d_ngchw_gfchw ins(%x, %w) outs(%start)

        =>

    %zero = linalg.fill
    %sums = linalg.conv_2d_ngchw_gfchw ins(%x, %w) outs(%zero)
    linalg.generic {+} ins(%sums, %start)

IREE 3.13 would compute the copies in the same dispatch, and not spread them over workgroups: "write affecting
operations on global resources are restricted to workgroup distributed contexts". So it is where channels become groups
behind the copies, as those who import PyTorch and ONNX have it.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import indexing_maps, maker_name, seen_through
from opsplice.rewrites.ir import emit


def begin_with_zero(module: ir.Module) -> None:
    """Change the convolutions of a module whose inputs are converted."""
    with emit.building(module):
        for op in ops_in(module.operation):
            if (
                op.name.startswith("linalg.")
                and len(op.operands) == 3
                and _has_groups(op)
                and _is_copied(op.operands[2])
            ):
                with op.location:
                    _add_behind(op)


def _has_groups(op: ir.Operation) -> bool:
    """Whether an op adds up windows of groups of channels, for one image of open sizes."""
    kind = op.operands[2].type
    if not isinstance(kind, ir.RankedTensorType) or kind.has_static_shape or not kind.rank or kind.shape[0] != 1:
        return False
    maps = indexing_maps(op)
    loops = [{expr.position for expr in each.results if isinstance(expr, ir.AffineDimExpr)} for each in maps]
    has_windows = any(isinstance(expr, ir.AffineAddExpr) for each in maps for expr in each.results)
    return has_windows and bool(set.intersection(*loops))


def _is_copied(value: ir.Value) -> bool:
    """Whether a value is a view of copies."""
    whole = seen_through(value)
    return whole != value and maker_name(whole) in ("linalg.broadcast", "linalg.generic")


def _add_behind(op: ir.Operation) -> None:
    start = op.operands[2]
    kind = ir.RankedTensorType(start.type)
    element, same = kind.element_type, ir.AffineMap.get_identity(kind.rank)
    with ir.InsertionPoint(op):
        empty = emit.value("tensor.empty", emit.dynamic_dims(start), kind)
        attributes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])}
        zero = emit.op("linalg.fill", [emit.constant(0, element), empty], [kind], attributes, regions=1)
        body = emit.block(zero, [element, element])
    with ir.InsertionPoint(body):
        emit.op("linalg.yield", [body.arguments[0]])
    uses = [(use.owner, use.operand_number) for use in op.results[0].uses]
    op.operands[2] = zero.results[0]
    with ir.InsertionPoint.after(op):
        whole, body = emit.loop([op.results[0], start], [same, same], empty)
    with ir.InsertionPoint(body):
        name = "arith.addf" if isinstance(element, ir.FloatType) else "arith.addi"
        emit.op("linalg.yield", [emit.value(name, list(body.arguments)[:2], element)])
    for user, number in uses:
        user.operands[number] = whole
