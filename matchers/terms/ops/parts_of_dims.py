"""Slices of a dim in equal parts, and tensors put together along a dim: `take` at a number, and `stack`.

    tensor.extract_slice %x[8] [8] [1] of 16     =>   take(reduce take over p of x[(p i)], 1), p of 2 and i of 8
    tensor.extract_slice %x[1] [8] [2] of 16     =>   take(reduce take over p of x[(i p)], 1)
    tensor.concat %a, %b, or both inserted       =>   stack(p, a[i], b[i]) where the dim is (p i)

Slices that are no such part, and parts of different sizes, are no terms: their elements are read as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from opsplice.matchers.dims.extents import Extent
from opsplice.matchers.ir.tensor_values import DYNAMIC, defining_op, element_type, ranges_of, shape_of
from opsplice.matchers.terms.ops.index_reads import TAKE
from opsplice.matchers.terms.terms import (
    Access,
    Apply,
    Constant,
    DimSize,
    Index,
    Loop,
    LoopIndex,
    Reduce,
    Term,
    flatten,
    split,
)

SLICE, CONCAT, INSERT = "tensor.extract_slice", "tensor.concat", "tensor.insert_slice"
# The op of a term that is the element of one of several tensors: of the one whose number its first operand is.
STACK = "stack"


def sliced(
    op: ir.Operation,
    indices: tuple[Index, ...],
    fresh: Callable[[int | None], Index],
    extent: Callable[[DimSize | ir.Value], Extent],
) -> Term | None:
    """The element of its source that an element of a slice is, None where the slice is no part of each dim."""
    ranges, whole = _ranges(op, extent), shape_of(op.operands[0]) or ()
    if ranges is None or len(whole) != len(indices):
        return None
    read: list[Index] = []
    numbers: list[tuple[Index, int]] = []
    for index, (offset, size, step), dim in zip(indices, ranges, whole, strict=True):
        if size == dim:
            read.append(index)
        elif dim is None or size is None:
            return None
        elif step == 1 and not offset % size and not dim % size:
            part = fresh(dim // size)
            numbers.append((part, offset // size))
            read.append(flatten((part, index), (dim // size, size)))
        elif dim == size * step and offset < step:
            part = fresh(step)
            numbers.append((part, offset))
            read.append(flatten((index, part), (size, step)))
        else:
            return None
    kind = element_type(op.operands[0])
    made: Term = Access(op.operands[0], tuple(read))
    for part, number in numbers:
        assert isinstance(part, Loop), "a part is not all of a dim"
        made = Apply(TAKE, (Reduce(TAKE, (part,), made), Constant(number, "index")), (), kind)
    return made


def stacked(op: ir.Operation, indices: tuple[Index, ...], note: Callable[[ir.Value], None]) -> Term | None:
    """The element that tensors of one size, put together along one dim, have at indices. note: told what is read."""
    axis, parts = _concatenated(op) if op.name == CONCAT else _inserted(op, note)
    shapes = {shape_of(part) for part in parts}
    if len(parts) < 2 or len(shapes) != 1:
        return None
    shape = shapes.pop() or ()
    size = shape[axis]
    if size is None:
        return None
    number, within = split(indices[axis], (len(parts), size))
    at = (*indices[:axis], within, *indices[axis + 1 :])
    return Apply(STACK, (LoopIndex(number), *(Access(part, at) for part in parts)), (), element_type(op.results[0]))


def _concatenated(op: ir.Operation) -> tuple[int, list[ir.Value]]:
    return ir.IntegerAttr(op.attributes["dim"]).value, list(op.operands)


def _inserted(op: ir.Operation | None, note: Callable[[ir.Value], None]) -> tuple[int, list[ir.Value]]:
    """The dim along which tensors are inserted one behind another until no room is left, and these; none otherwise."""
    shape = shape_of(op.results[0]) if op is not None else None
    found: dict[int, ir.Value] = {}
    axes: set[int] = set()
    while op is not None and op.name == INSERT and shape is not None:
        source, into = op.operands[0], op.operands[1]
        ranges, own = _ranges(op), shape_of(source)
        if ranges is None or own is None or len(own) != len(shape):
            return 0, []
        short = [axis for axis, (_, size, _) in enumerate(ranges) if size != shape[axis]]
        if len(short) != 1 or any(step != 1 for _, _, step in ranges) or ranges[short[0]][0] in found:
            return 0, []
        axes.update(short)
        found[ranges[short[0]][0]] = source
        note(into)
        op = defining_op(into)
    if op is None or op.name != "tensor.empty" or len(axes) != 1 or shape is None:
        return 0, []
    axis, whole = axes.pop(), 0
    offsets = sorted(found)
    for offset in offsets:
        if offset != whole:
            return axis, []
        whole += (shape_of(found[offset]) or ())[axis] or 0
    return axis, [found[offset] for offset in offsets] if whole == shape[axis] else []


def _ranges(
    op: ir.Operation, extent: Callable[[DimSize | ir.Value], Extent] | None = None
) -> list[tuple[int, int | None, int]] | None:
    """The offset, size and step of a slice along each dim, None where one is known at run time only.

    extent: tells sizes. With it the size of all of a dim, of whatever size that is, is None.
    """
    found: list[tuple[int, int | None, int]] = []
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    sizes = iter(list(op.operands)[-segments[2] - segments[3] :] if segments[2] else ())
    for axis, (offset, size, step) in enumerate(ranges_of(op)):
        if DYNAMIC in (offset, step):
            return None
        if size != DYNAMIC:
            found.append((offset, size, step))
        elif extent is None or (offset, step) != (0, 1) or extent(next(sizes)) != extent(DimSize(op.operands[0], axis)):
            return None
        else:
            found.append((offset, None, step))
    return found
