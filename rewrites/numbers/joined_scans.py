"""Running sums in tensors of many dims are computed with the dims joined before the summed one, and those behind it.

    iree_linalg_ext.scan dimension(2) ins(%x : tensor<?x?x5x?xf32>) outs(%sums, %last)

        =>

    %joined = tensor.collapse_shape %x [[0, 1], [2], [3]] : tensor<?x?x5x?xf32> into tensor<?x5x?xf32>
    iree_linalg_ext.scan dimension(1) ins(%joined : tensor<?x5x?xf32>) outs(...)

IREE 3.13 holds up to 64 of the last sums in each of the other dims on the stack, where nothing reads them. The stack is
too small for three dims.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from opsplice.rewrites.ir import emit


@emit.of_each("iree_linalg_ext.scan")
def mend(op: ir.Operation) -> None:
    """Join dims of an op that has more than two, and open ones, beside that of the sums, where inputs are converted."""
    array, sums, last = op.operands
    rank, along = ir.RankedTensorType(array.type).rank, ir.IntegerAttr(op.attributes["dimension"]).value
    if rank < 4 or ir.RankedTensorType(last.type).has_static_shape:
        return
    whole = [dims for dims in (range(along), range(along, along + 1), range(along + 1, rank)) if dims]
    others = [dims for dims in (range(along), range(along, rank - 1)) if dims]
    joined = [_joined(array, whole), _joined(sums, whole), _joined(last, others)]
    attributes = {**emit.attributes_of(op), "dimension": emit.number(min(along, 1), ir.IntegerType.get_signless(64))}
    made = emit.op(op.name, joined, [each.type for each in joined[1:]], attributes, regions=1)
    op.regions[0].blocks[0].append_to(made.regions[0])
    starts = zip(made.results, (sums, last), strict=True)
    emit.replace(op, *(emit.reshape(new, start.type, emit.dynamic_dims(start)) for new, start in starts))


def _joined(tensor: ir.Value, groups: Sequence[Sequence[int]]) -> ir.Value:
    """A tensor in which each of these groups of dims is one dim."""
    kind = ir.RankedTensorType(tensor.type)
    is_open = [any(kind.is_dynamic_dim(dim) for dim in dims) for dims in groups]
    pairs = zip(is_open, groups, strict=True)
    sizes = [None if free else math.prod(kind.shape[dim] for dim in dims) for free, dims in pairs]
    number = ir.IntegerType.get_signless(64)
    joins = [ir.ArrayAttr.get([emit.number(dim, number) for dim in dims]) for dims in groups]
    made = emit.tensor_type(sizes, kind.element_type)
    return emit.value("tensor.collapse_shape", [tensor], made, reassociation=ir.ArrayAttr.get(joins))
