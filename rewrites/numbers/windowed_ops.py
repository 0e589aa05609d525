"""Ops that read windows, and what IREE does not compile of them, in another form.

Where a window has one place along a dim, the op gets the part of its input that the window covers. So it does where the
window itself has one place, and its loop is over the places: the gradient of a filter is a convolution like that.

    linalg.pooling_nchw_max {strides = 2} ins(%x, %w : tensor<1x8x4x9xf32>, tensor<3x3xf32>) -> tensor<1x8x1x4xf32>

        =>

    %s = tensor.extract_slice %x[0, 0, 0, 0] [1, 8, 3, 9] [1, 1, 1, 1]
    linalg.pooling_nchw_max {strides = 2} ins(%s, %w : tensor<1x8x3x9xf32>, tensor<3x3xf32>) -> tensor<1x8x1x4xf32>

IREE 3.13 leaves the loop over one place out, and takes the loop over the window for one over the whole input: "inferred
input/output operand #1 has shape's dimension #2 to be 4, but found 3". With an open batch it computes wrong numbers.

What a convolution of groups adds to is added behind it, where sizes are open and there is one image.

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

from collections.abc import Sequence

from iree.compiler import ir
from iree.compiler.dialects import linalg

from opsplice.matchers.ir.op_names import ops_in
from opsplice.matchers.ir.tensor_values import indexing_maps, maker_name, seen_through
from opsplice.rewrites.ir import emit


def mend(module: ir.Module) -> None:
    """Change the windows of a module whose inputs are converted."""
    with emit.building(module):
        for op in ops_in(module.operation):
            if op.name.startswith("linalg.") and (maps := indexing_maps(op)):
                with op.location, ir.InsertionPoint(op):
                    _cover(op, maps)
                    if len(op.operands) == 3 and _has_groups(op, maps) and _is_copied(op.operands[2]):
                        _add_behind(op)


# ---- windows of one place --------------------------------------------------------------------------------------------


def _cover(op: ir.Operation, maps: Sequence[ir.AffineMap]) -> None:
    sizes: dict[int, int] = {}
    kinds = [operand.type for operand in op.operands]
    for kind, read in zip(kinds, maps, strict=True):
        for dim, expr in enumerate(read.results):
            if isinstance(expr, ir.AffineDimExpr) and not ir.RankedTensorType(kind).is_dynamic_dim(dim):
                sizes[expr.position] = ir.RankedTensorType(kind).shape[dim]
    single = {loop for loop, size in sizes.items() if size == 1}
    places = single & _loops_of(maps[-1])
    for number, (kind, read) in enumerate(zip(kinds, maps, strict=True) if single else ()):
        if isinstance(kind, ir.RankedTensorType):
            is_open = [kind.is_dynamic_dim(dim) for dim in range(kind.rank)]
            covered = [
                size if is_free else _covered(expr, size, sizes, single if _is_next_to(expr, single) else places)
                for expr, size, is_free in zip(read.results, kind.shape, is_open, strict=True)
            ]
            if covered != kind.shape:
                op.operands[number] = _front(op.operands[number], covered)


def _covered(expr: ir.AffineExpr, size: int, sizes: dict[int, int], single: set[int]) -> int:
    """How much of a dim is read, where that is less because of loops over one. single: these loops."""
    loops = _loops(expr)
    if not isinstance(expr, ir.AffineAddExpr) or not all(loop in sizes for loop in loops) or single.isdisjoint(loops):
        return size
    last = _last(expr, sizes)
    return size if last is None else min(size, last + 1)


def _is_next_to(expr: ir.AffineExpr, single: set[int]) -> bool:
    """Whether an index is a multiple of a loop over one, and another loop."""
    parts = (expr.lhs, expr.rhs) if isinstance(expr, ir.AffineAddExpr) else ()
    return any(isinstance(part, ir.AffineDimExpr) and part.position not in single for part in parts)


def _loops_of(read: ir.AffineMap) -> set[int]:
    return set().union(*map(_loops, read.results))


def _loops(expr: ir.AffineExpr) -> set[int]:
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position}
    return _loops(expr.lhs) | _loops(expr.rhs) if isinstance(expr, ir.AffineBinaryExpr) else set()


def _last(expr: ir.AffineExpr, sizes: dict[int, int]) -> int | None:
    """The largest value of an index; None for what is no sum of multiples of loops."""
    if isinstance(expr, ir.AffineDimExpr):
        return sizes[expr.position] - 1
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value if expr.value >= 0 else None
    if not isinstance(expr, (ir.AffineAddExpr, ir.AffineMulExpr)):
        return None
    left, right = _last(expr.lhs, sizes), _last(expr.rhs, sizes)
    if left is None or right is None:
        return None
    return left + right if isinstance(expr, ir.AffineAddExpr) else left * right


def _front(tensor: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """The first elements of a tensor. sizes: how many along each dim, of open ones what their type says."""
    kind = ir.RankedTensorType.get(sizes, ir.RankedTensorType(tensor.type).element_type)
    known = [emit.dim(tensor, axis) if kind.is_dynamic_dim(axis) else size for axis, size in enumerate(sizes)]
    return emit.part(tensor, kind, [0] * len(sizes), known)


# ---- groups of channels ----------------------------------------------------------------------------------------------


def _has_groups(op: ir.Operation, maps: Sequence[ir.AffineMap]) -> bool:
    """Whether an op adds up windows of groups of channels, for one image of open sizes."""
    kind = op.operands[2].type
    if not isinstance(kind, ir.RankedTensorType) or kind.has_static_shape or not kind.rank or kind.shape[0] != 1:
        return False
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
    empty = emit.value("tensor.empty", emit.dynamic_dims(start), kind)
    op.operands[2] = linalg.fill(emit.constant(0, element), outs=[empty])

    def added(sums: ir.Value) -> ir.Value:
        whole, body = emit.loop([sums, start], [same, same], empty)
        with ir.InsertionPoint(body):
            name = "arith.addf" if isinstance(element, ir.FloatType) else "arith.addi"
            emit.op("linalg.yield", [emit.value(name, list(body.arguments)[:2], element)])
        return whole

    emit.put_behind(op.results[0], added)
