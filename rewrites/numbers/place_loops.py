"""The places of largest and smallest elements are found in loops.

    iree_linalg_ext.arg_compare { (%a, %b): yield %a > %b }
        => linalg.generic { (%a, %b, %at): %c = %a > %b; yield select %c, %a, %b; select %c, place, %at }

IREE 3.13 holds 64 results in each dim of such an op on the stack, which is too small for three dims, and for two beside
what is computed from them.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op
from opsplice.matchers.terms.ops.index_reductions import ARG_COMPARE
from opsplice.rewrites.ir import emit


@emit.of_each(ARG_COMPARE)
def mend(op: ir.Operation) -> None:
    """Write an op as loops, where inputs are converted and NaN is compared."""
    if len(op.operands) != 3:
        return  # places are read, or counted from another number than 0
    rank, along = ir.RankedTensorType(op.operands[0].type).rank, ir.IntegerAttr(op.attributes["dimension"]).value
    dims = [ir.AffineDimExpr.get(dim) for dim in range(rank)]
    found = ir.AffineMap.get(rank, 0, [dim for number, dim in enumerate(dims) if number != along])
    first, *best = op.operands
    loops = emit.nest([first], [ir.AffineMap.get_identity(rank), found, found], *best, summed=[along])
    elements = [ir.RankedTensorType(each.type).element_type for each in op.operands]
    _fill(emit.block(loops, elements), op, along)
    emit.replace(op, *loops.results)


def _fill(body: ir.Block, op: ir.Operation, along: int) -> None:
    """The body of loops that compare as an op does."""
    new, best, at = body.arguments
    compared = op.regions[0].blocks[0]
    values = dict(zip(compared.arguments, (new, best), strict=True))
    with ir.InsertionPoint(body):
        for each in list(compared.operations)[:-1]:
            emit.copy(each.operation, values)
        asked = last_op(compared).operands[0]
        exceeds = values.get(asked, asked)
        dim = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), along)
        place = emit.value("linalg.index", [], ir.IndexType.get(), dim=dim)
        if place.type != at.type:
            place = emit.value("arith.index_cast", [place], at.type)
        chosen = [emit.value("arith.select", [exceeds, *pair], pair[0].type) for pair in ((new, best), (place, at))]
        emit.op("linalg.yield", chosen)
