"""The places of largest and smallest elements are those of NaN where there is one, as in NumPy and PyTorch.

    iree_linalg_ext.arg_compare { (%a, %b): yield %a > %b }    =>    yield %b == %b and (%a > %b or either is NaN)

    linalg.generic { (%in, %out, %at): yield maximumf %in, %out; select %in > %out, place, %at }

PyTorch's and ONNX's reductions come to IREE as these two. IREE 3.13 takes the element itself to be NaN, as `maximumf`
does, and the place to be that of another one. A body that takes the element by comparisons, too, stays as it is.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op
from opsplice.matchers.terms.ops.index_reductions import ARG_COMPARE
from opsplice.rewrites.ir import emit

# Predicates of `arith.cmpf` that hold of ordered numbers, and those that hold of NaN, too.
_OR_NAN = {2: 9, 4: 11}  # greater, less
_EXTREMES = ("arith.maximumf", "arith.minimumf")


@emit.of_each(ARG_COMPARE, "linalg.generic")
def mend(op: ir.Operation) -> None:
    """Change the body of an op, where inputs are converted."""
    block = op.regions[0].blocks[0]
    new, best = _compared(op, block)
    if new is not None and best is not None and isinstance(new.type, ir.FloatType):
        _find_nan(block, new, best)


def _compared(op: ir.Operation, block: ir.Block) -> tuple[ir.Value | None, ir.Value | None]:
    """The new element and the best one so far, if a body finds the place of NaN's element."""
    if op.name == ARG_COMPARE:
        return (*block.arguments,) if len(block.arguments) == 2 else (None, None)
    if len(op.results) != 2:
        return None, None
    extreme = last_op(block).operands[0].owner
    if isinstance(extreme, ir.Block) or extreme.name not in _EXTREMES:
        return None, None
    inputs = len(block.arguments) - len(op.results)
    best, others = block.arguments[inputs], list(extreme.operands)
    if best not in others:
        return None, None
    others.remove(best)
    return others[0], best


def _find_nan(block: ir.Block, new: ir.Value, best: ir.Value) -> None:
    """Have strict comparisons of the two ask whether the new one is NaN, and the best one is not yet."""
    for each in [op.operation for op in block.operations if op.operation.name == "arith.cmpf"]:
        asked, pair = ir.IntegerAttr(each.attributes["predicate"]), list(each.operands)
        if asked.value not in _OR_NAN or pair not in ([new, best], [best, new]):
            continue
        with each.location, ir.InsertionPoint(each):
            predicate = ir.IntegerAttr.get(asked.type, _OR_NAN[asked.value])
            exceeds = emit.value("arith.cmpf", pair, each.results[0].type, predicate=predicate)
            is_known = emit.compared("==", best, best)
            emit.replace(each, emit.value("arith.andi", [exceeds, is_known], is_known.type))
