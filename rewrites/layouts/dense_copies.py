"""Dense copies of tensors that lie in the memory of another value in any layout.

    [2, 4, 8, 8], from element 32 of [2, 8, 96] on, strides 768, 8, 96, 1

        %v = reshape %x as [2, 8, 12, 8];  %s = extract_slice %v[0, 0, 4, 0] [2, 8, 4, 8];  %c = transpose %s

Most layouts are such views, which compilers copy fast (`nested`). Others are read element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.matchers.dims.extents import ONE, ZERO, Extent
from opsplice.matchers.dims.layouts import Layout
from opsplice.rewrites.ir import emit
from opsplice.spec_lang.syntax import vocabulary


@dataclass(frozen=True)
class Nested:
    """A dim of the value in other dims: its size, how much is read from where, and as which axis of the copy."""

    whole: Extent
    size: Extent
    start: int
    axis: int | None


def nested(layout: Layout) -> list[Nested] | None:
    """The dims of the value in which a layout reads a part of each. None where it is no such view."""
    start, left = layout.offset.number, layout.count
    if start is None or left == ZERO:
        return None
    sizes = [run for dim in layout.dims for run in dim]
    known = [(size, stride, axis) for axis, (size, stride) in enumerate(sizes) if stride != ZERO]
    known.sort(key=lambda run: (sum(power for _, power in run[1].atoms), run[1].factor), reverse=True)
    found: list[Nested] = []
    for size, stride, axis in (*known, (ONE, ONE, None)):
        whole = left.divided(stride)
        if whole is None or (start and stride.atoms):
            return None
        at, start = divmod(start, stride.factor) if start else (0, 0)
        fits = size == whole if size.atoms or whole.atoms else at + size.factor <= whole.factor
        if not fits or (at and whole.atoms):
            return None
        found.append(Nested(whole, size, at, axis))
        left = stride
    return [each for each in found if each.axis is not None or each.whole != ONE]


def dense_copy(value: ir.Value, layout: Layout, amount: Callable[[Extent], ir.Value]) -> ir.Value:
    """A copy with a dim for each run of a layout; a slice of the value where that has the layout's order.

    amount: makes an offset, a stride or a size at the current point.
    """
    runs = [run for dim in layout.dims for run in dim]
    dims = nested(layout)
    read = [each.axis for each in dims or () if each.axis is not None]
    if dims is not None and read == list(range(len(runs))):
        return _cut(value, dims, amount)
    empty = emit.value("tensor.empty", *_shaped([size for size, _ in runs], value, amount))
    if dims is None:
        return _gathered(value, layout, empty, amount)
    order = ir.AffineMap.get(len(runs), 0, [ir.AffineDimExpr.get(axis) for axis in read])
    made, body = emit.loop([_cut(value, dims, amount)], [order], empty)
    with ir.InsertionPoint(body):
        emit.op("linalg.yield", [body.arguments[0]])
    return made


def _shaped(
    sizes: list[Extent], value: ir.Value, amount: Callable[[Extent], ir.Value]
) -> tuple[list[ir.Value], ir.Type]:
    """The dynamic ones of some sizes, and the type of a tensor of these with the elements of another one."""
    dynamic = [amount(size) for size in sizes if size.atoms]
    known = [None if size.atoms else size.factor for size in sizes]
    return dynamic, emit.tensor_type(known, ir.RankedTensorType(value.type).element_type)


def _cut(value: ir.Value, dims: list[Nested], amount: Callable[[Extent], ir.Value]) -> ir.Value:
    """What is read of a value, in a dim for each run."""
    whole_sizes, whole_kind = _shaped([each.whole for each in dims], value, amount)
    whole = emit.reshape(value, whole_kind, whole_sizes)
    if all(each.axis is not None and each.size == each.whole for each in dims):
        return whole
    dynamic, kind = _shaped([each.size for each in dims if each.axis is not None], value, amount)
    given = iter(dynamic)
    sizes = [next(given) if each.size.atoms else each.size.factor for each in dims]
    return emit.part(whole, kind, [each.start for each in dims], sizes)


def _gathered(value: ir.Value, layout: Layout, empty: ir.Value, amount: Callable[[Extent], ir.Value]) -> ir.Value:
    index, element = ir.IndexType.get(), ir.RankedTensorType(value.type).element_type
    line = emit.reshape(value, emit.tensor_type([None], element), [amount(layout.count)])
    strides = [amount(stride) for dim in layout.dims for _, stride in dim]
    at = amount(layout.offset)
    made, body = emit.loop([], [], empty)
    with ir.InsertionPoint(body):
        for axis, stride in enumerate(strides):
            dim = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)
            place = emit.value("linalg.index", [], index, dim=dim)
            at = emit.value("arith.addi", [at, emit.value("arith.muli", [place, stride], index)], index)
        emit.op("linalg.yield", [emit.value("tensor.extract", [line, at], element)])
    return made


def copied(value: ir.Value) -> ir.Value:
    """A copy of a tensor, which the kernel may overwrite: IREE would let it overwrite the caller's array.

    IREE drops copies that it knows to be copies, or makes transfers of them that its Vulkan backend does not compile
    for dynamic sizes. So each element gets a zero added, as an integer, that the compiler does not know. A device that
    lacks the type stores it in words: `externals.py` sees to it that these hold all elements.
    """
    kind = ir.RankedTensorType(value.type)
    bits = ir.IntegerType.get_signless(vocabulary.bits(str(kind.element_type)) or 64)
    number = emit.bitcast(value, bits)
    zero = emit.op("util.optimization_barrier", [emit.constant(0, bits)], [bits]).results[0]
    empty = emit.value("tensor.empty", emit.dynamic_dims(value), number.type)
    result, body = emit.loop([number], [ir.AffineMap.get_identity(kind.rank)], empty)
    with ir.InsertionPoint(body):
        emit.op("linalg.yield", [emit.value("arith.addi", [body.arguments[0], zero], bits)])
    return emit.bitcast(result, kind.element_type)
