"""Copies of values in memory of their own."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from opsplice.rewrites.ir import emit
from opsplice.rewrites.memory.aligned_buffers import open_dims, segments

# Which of their groups of operands are the sizes of the result.
_SIZES = {"flow.dispatch": 3, "flow.tensor.reshape": 2, "flow.tensor.update": 1}


def copied(value: ir.Value, open_sizes: Sequence[ir.Value], more: int = 1) -> ir.Value:
    """The same in memory of its own. IREE drops copies of whole values, so this one is written into a longer one.

    more: by how many rows; it takes copies of one value that are as long for one.
    """
    kind = ir.RankedTensorType(value.type)
    rest = iter(open_sizes)
    sizes = [next(rest) if kind.is_dynamic_dim(n) else emit.index(size) for n, size in enumerate(kind.shape)]
    length = emit.plus(sizes[0], emit.index(more))
    shape = [length if kind.is_dynamic_dim(0) else kind.shape[0] + more, *kind.shape[1:]]
    longer = emit.tensor_type(shape, kind.element_type)
    longer_sizes = [length, *open_sizes[1:]] if kind.is_dynamic_dim(0) else list(open_sizes)
    start = [emit.index(0)] * kind.rank
    empty = emit.value("flow.tensor.empty", longer_sizes, longer)
    groups = [[empty], longer_sizes, start, [value], open_sizes]
    written = emit.grouped("flow.tensor.update", groups, [longer]).results[0]
    filled = emit.value("util.optimization_barrier", [written], longer)
    groups = [[filled], longer_sizes, start, sizes, open_sizes]
    return emit.grouped("flow.tensor.slice", groups, [kind]).results[0]


def open_sizes(value: ir.Value) -> list[ir.Value] | None:
    """The open sizes of a value, None where they are not known: the op that makes it has them."""
    if not (count := open_dims(value.type)):
        return []
    if isinstance(value, ir.BlockArgument):
        loop = value.owner.owner.operation
        return open_sizes(loop.operands[value.arg_number + 2]) if loop.name == "scf.for" else None
    maker = value.owner.operation
    if maker.name == "scf.for":
        return open_sizes(maker.operands[value.result_number + 3])  # no turn changes them
    if maker.name == "hal.tensor.import":
        return list(maker.operands)[1 : 1 + count]
    if maker.name not in _SIZES:
        return None
    skipped = sum(open_dims(each.type) for each in list(maker.results)[: value.result_number])
    return segments(maker)[_SIZES[maker.name]][skipped : skipped + count]
