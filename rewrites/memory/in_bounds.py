"""Keeps indices that a program computes inside their arrays: IREE 3.13 reads and writes whatever lies outside.

    tensor.extract %x[%i]                       =>  tensor.extract %x[min(max(%i, 0), size - 1)]
    iree_linalg_ext.scatter ins(%u, %i) %x      =>  the same with a mask: updates outside of %x are left out

StableHLO asks for both. ONNX and PyTorch call such an index an error, which a compiled program cannot raise.
Indices that come from loops alone are right as they are. Rules apply before, so patterns see none of this.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from opsplice.common.reaching import reachable
from opsplice.rewrites.ir import emit

_SCATTER = "iree_linalg_ext.scatter"
_TO_INDEX = ("arith.index_cast", "arith.index_castui")


@emit.of_each("tensor.extract", _SCATTER)
def keep_in_bounds(op: ir.Operation) -> None:
    """Bound a gather or a scatter, where inputs are converted."""
    if op.name == _SCATTER:
        _mask(op)
    else:
        _clamp(op)


def _clamp(op: ir.Operation) -> None:
    source, *indices = op.operands
    for axis, index in enumerate(indices):
        if _is_data(index):
            last = emit.value("arith.subi", [_size(source, axis, _loop_around(op)), emit.index(1)], index.type)
            above = emit.value("arith.maxsi", [index, emit.index(0)], index.type)
            op.operands[axis + 1] = emit.value("arith.minsi", [above, last], index.type)


def _is_data(index: ir.Value) -> bool:
    """Whether an index depends on what a tensor holds: these are integers of other types first."""

    def made(values: Iterable[ir.Value]) -> list[ir.Value]:
        return [v for v in values if isinstance(v.type, ir.IndexType) and isinstance(v, ir.OpResult)]

    values = reachable(made([index]), lambda value: made(value.owner.operands))
    return any(value.owner.name in _TO_INDEX for value in values)


def _loop_around(op: ir.Operation) -> ir.Operation:
    """The structured op whose body an op is in, or the op itself."""
    parent = op.parent.operation
    return parent if parent.name == "linalg.generic" else op


def _size(source: ir.Value, axis: int, before: ir.Operation) -> ir.Value:
    with ir.InsertionPoint(before):
        return emit.dim(source, axis)


def _mask(op: ir.Operation) -> None:
    updates, indices, *masks = list(op.operands)[:-1]
    original = op.operands[len(op.operands) - 1]
    if masks:
        return
    dims = list(ir.DenseI64ArrayAttr(op.attributes["dimension_map"]))
    if not ir.ShapedType(indices.type).has_static_shape:
        updates, indices = map(emit.held, (updates, indices))  # IREE would compute all on the stack of the op
    sizes = [_size(original, dim, op) for dim in dims]
    batch = ir.RankedTensorType(updates.type).rank - ir.RankedTensorType(original.type).rank + len(dims)
    groups = [[updates, indices, _inside(indices, sizes, batch)], [original]]
    masked = emit.grouped(_SCATTER, groups, [each.type for each in op.results], emit.attributes_of(op), regions=1)
    op.regions[0].blocks[0].append_to(masked.regions[0])
    emit.replace(op, *masked.results)


def _inside(indices: ir.Value, sizes: Sequence[ir.Value], batch: int) -> ir.Value:
    """For each update whether all its indices are inside."""
    kind = ir.RankedTensorType(indices.type)
    dims = [emit.dim(indices, axis) for axis in range(batch) if kind.is_dynamic_dim(axis)]
    bit = ir.IntegerType.get_signless(1)
    mask = emit.value("tensor.empty", dims, ir.RankedTensorType.get(kind.shape[:batch], bit))
    loops = [ir.AffineDimExpr.get(axis) for axis in range(batch)]
    columns = [[ir.AffineConstantExpr.get(n)] for n in range(len(sizes))] if kind.rank > batch else [[]]
    maps = [ir.AffineMap.get(batch, 0, [*loops, *column]) for column in columns]
    result, body = emit.loop([indices] * len(maps), maps, mask)
    with ir.InsertionPoint(body):
        inside = [_is_below(index, size) for index, size in zip(body.arguments, sizes, strict=False)]
        emit.op("linalg.yield", [functools.reduce(lambda *two: emit.value("arith.andi", two, bit), inside)])
    return result


def _is_below(index: ir.Value, size: ir.Value) -> ir.Value:
    """Whether an index is inside: without a sign, negative numbers are large."""
    return emit.compared("u<", emit.value("arith.index_cast", [index], size.type), size)
