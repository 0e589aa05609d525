"""Negations of parts that are put beside others are products, where IREE would take the parts for halves.

    %s = tensor.extract_slice %x
    %n = linalg.generic ins(%s) { arith.negf %a }         =>    { arith.mulf %a, -1.0 }
    tensor.concat %n, %t, or %n inserted

IREE 3.13 has a form of its own for `cat((-x[..., h:], x[..., :h]), -1)` of an `x` with `2 * h` columns. It takes for
that whatever has the same types: columns cut in another order or with steps, some rows of a tensor (it then gives all
of them), and where sizes are open, 7 columns (it then gives 6). So it gets to see only what is known to be that.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.dims.size_reader import SizeReader
from opsplice.matchers.ir.op_names import last_op
from opsplice.matchers.ir.tensor_values import (
    VIEWS,
    defining_op,
    indexing_maps,
    is_elementwise,
    ranges_of,
    seen_through,
)
from opsplice.rewrites.ir import emit

_CONCAT, _SLICE = "tensor.concat", "tensor.extract_slice"


@emit.of_each(_CONCAT, "tensor.insert_slice")
def hide(op: ir.Operation) -> None:
    """Change the negation that an op puts beside something, where inputs are converted."""
    loop = defining_op(seen_through(op.operands[0]))
    if loop is None or loop.name != "linalg.generic" or not is_elementwise(loop):
        return
    negation = defining_op(last_op(loop.regions[0].blocks[0]).operands[0])
    if negation is None or negation.name != "arith.negf" or (op.name == _CONCAT and _are_halves(op, loop)):
        return
    with ir.InsertionPoint(negation):
        number, kind = negation.operands[0], negation.results[0].type
        emit.replace(negation, emit.value("arith.mulf", [number, emit.constant(-1.0, kind)], kind))


def _are_halves(op: ir.Operation, loop: ir.Operation) -> bool:
    """Whether an op puts the first half of a tensor's columns behind the second, which a loop negates."""
    second, *others = (defining_op(value) for value in (loop.operands[0], *op.operands[1:]))
    first, read = others[0] if len(others) == 1 else None, indexing_maps(loop)
    if first is None or second is None or {first.name, second.name} != {_SLICE} or read[0] != read[-1]:
        return False
    half = ir.RankedTensorType(first.operands[0].type).shape[-1] // 2
    return not _is_cut(first.operands[0]) and _is_part(first, 0, half) and _is_part(second, half, half)


def _is_cut(value: ir.Value) -> bool:
    """Whether a value is a part of another one, of which IREE then takes the halves to be."""
    while (op := defining_op(value)) is not None and op.name in VIEWS:
        if op.name == _SLICE:
            return True
        value = op.operands[0]
    return False


def _is_part(part: ir.Operation, start: int, count: int) -> bool:
    """Whether a slice is of some columns that lie side by side, and of all rows."""
    *rows, columns = ranges_of(part)
    sizes, source = SizeReader(), part.operands[0]
    same = (sizes.dim(part.results[0], axis) == sizes.dim(source, axis) for axis in range(len(rows)))
    return columns == (start, count, 1) and all(same) and all((at, step) == (0, 1) for at, _, step in rows)
