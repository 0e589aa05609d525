"""Rules for what Pad puts around, and for what Slice leaves out.

What Pad puts around other than one number is gathered along each dim, and Slice begins where there is an element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto

from opsplice.onnx.rules.node_writer import Input, NodeWriter, attribute, input_name

# What exporters write for an end that is not known.
_NO_SIZE = np.iinfo(np.int32).max
_LAST = np.iinfo(np.int64).max
# What a node says whose pads are not negative, and one that begins inside.
_OUTWARD, _INSIDE = "outward", "from inside"


def pad(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """What negative pads leave out is cut off first: IREE does not compile it, or moves the rest elsewhere.

    Of other modes than one number around, IREE lowers some, and its compiler does not end at others.
    """
    x, pads, axes = node.input[0], on.constant(input_name(node, 1)), on.constant(input_name(node, 3))
    mode, shape = attribute(node, "mode", b"constant"), on.shape(x)
    if shape is None or (axes is None and input_name(node, 3)):
        return None
    named = range(len(shape)) if axes is None else [int(axis) % len(shape) for axis in axes]
    if pads is None:
        return None if node.doc_string == _OUTWARD else _pad_by_values(on, node, named)
    sides = {axis: (int(pads[i]), int(pads[i + len(named)])) for i, axis in enumerate(named)}
    sides = {axis: side for axis, side in sides.items() if side != (0, 0)}
    negative = {axis: side for axis, side in sides.items() if min(side) < 0}
    if mode == b"constant" and not negative:
        return None
    if negative:
        starts = [max(-before, 0) for before, _ in negative.values()]
        ends = [min(after, 0) or _LAST for _, after in negative.values()]
        x = on.put("Slice", x, starts, ends, list(negative))
        sides = {axis: (max(side[0], 0), max(side[1], 0)) for axis, side in sides.items()}
    if mode == b"constant":
        around = [sides.get(axis, (0, 0))[end] for end in (0, 1) for axis in range(len(shape))]
        return on.put("Pad", x, around, *filter(None, [input_name(node, 2)]))
    for axis, side in sides.items():
        size = shape[axis]
        if size is not None:
            size += sum(min(each, 0) for each in negative.get(axis, ()))
            places = on.give(np.pad(np.arange(size), side, mode.decode()))
        else:
            places = _places_around(on, on.size(x, axis), -side[0], side[1], mode)
        x = on.put("Gather", x, places, axis=axis)
    return x if sides else on.put("Identity", x)


def _pad_by_values(on: NodeWriter, node: onnx.NodeProto, axes: Sequence[int]) -> str:
    """By pads that are computed while the program runs: any of them may be negative."""
    pads, mode, rank = node.input[1], attribute(node, "mode", b"constant"), len(axes)
    before, after = (on.put("Slice", pads, [start], [start + rank]) for start in (0, rank))
    ends = on.put("Add", on.put("Gather", on.put("Shape", node.input[0]), list(axes)), on.put("Min", after, 0))
    x = on.put("Slice", node.input[0], on.put("Max", on.put("Neg", before), 0), ends, list(axes))
    if mode == b"constant":
        return on.put("Pad", x, on.put("Max", pads, 0), *node.input[2:], doc_string=_OUTWARD)
    for number, axis in enumerate(axes):
        first, more = (on.put("Max", on.put("Gather", side, number), 0) for side in (before, after))
        places = _places_around(on, on.size(x, axis), on.put("Neg", first), more, mode)
        x = on.put("Gather", x, places, axis=axis)
    return x


def _places_around(on: NodeWriter, size: str, first: Input, more: Input, mode: bytes) -> str:
    """For each place of a dim of an open size with what is put around, the place of the element that it takes.

    first: the first of these places. more: how many there are behind the end.
    """
    places = on.put("Range", first, on.put("Add", size, more), 1)
    if mode == b"wrap":
        return on.put("Mod", places, size)
    last = on.put("Sub", size, 1)
    if mode == b"edge":
        return on.put("Min", on.put("Max", places, 0), last)
    return on.put("Sub", last, on.put("Abs", on.put("Sub", last, on.put("Abs", places))))


def cut(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Backwards from behind the end, where IREE reads what lies there, as from the last element.

    IREE lowers none that has steps and does not name its dims.
    """
    starts, axes, steps = (on.constant(input_name(node, number)) for number in (1, 3, 4))
    shape = on.shape(node.input[0])
    if steps is None or not shape or (axes is None and input_name(node, 3)) or node.doc_string == _INSIDE:
        return None
    places = list(range(steps.size)) if axes is None else [int(axis) % len(shape) for axis in axes.ravel()]
    begins: list[Input] = []
    for number, (axis, step) in enumerate(zip(places, steps.ravel(), strict=True)):
        start, size = None if starts is None else int(starts.ravel()[number]), shape[axis]
        if start is not None and (step > 0 or start < 0 or (size is not None and start < max(size, 1))):
            begins.append([start])
        elif start is not None and (size is not None or start >= _NO_SIZE):
            begins.append([-1])
        else:
            first = on.cast(on.put("Gather", node.input[1], [number]), TensorProto.INT64)
            last = on.put("Sub", on.put("Gather", on.put("Shape", node.input[0]), [axis]), 1)
            begins.append(first if step > 0 else on.put("Min", first, last))
    is_given = starts is not None and begins == [[int(start)] for start in starts.ravel()]
    if axes is not None and (is_given or steps.min() > 0):
        return None
    first, ends = on.put("Concat", *begins, axis=0), on.cast(node.input[2], TensorProto.INT64)
    return on.put("Slice", node.input[0], first, ends, places, steps.ravel().tolist(), doc_string=_INSIDE)


def cut_by_values(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Along dims, or in steps, that only the program knows: the elements at their places along each dim."""
    x, starts, ends, axes, steps = (input_name(node, number) for number in range(5))
    shape, count = on.shape(x), on.shape(starts)
    if shape is None or not count or count[0] is None or not axes:
        return None
    if on.constant(axes) is not None and (not steps or on.constant(steps) is not None):
        return None
    rank, known = len(shape), on.constant(axes)
    named = on.put("Unsqueeze", on.cast(axes, TensorProto.INT64), [0])
    named = on.put("Where", on.put("Less", named, 0), on.put("Add", named, rank), named)
    holds = on.put("Cast", on.put("Equal", named, np.arange(rank)[:, None]), to=TensorProto.INT64)

    def of_each(values: str, others: Input) -> str:
        """A number of each dim, of one that is not named another number."""
        total = on.put("ReduceSum", on.put("Mul", holds, on.cast(values, TensorProto.INT64)), [1], keepdims=0)
        return on.put("Where", is_named, total, others)

    is_named = on.put("Greater", on.put("ReduceSum", holds, [1], keepdims=0), 0)
    sizes, zero = on.put("Shape", x), on.give(np.zeros(1, np.int64))
    by = of_each(steps, 1) if steps else on.give(np.ones(rank, np.int64))
    rises, size_of_step = on.put("Greater", by, 0), on.put("Abs", by)

    def bound(values: str, others: Input, before: int) -> str:
        """Where a slice begins or ends, or where the first or last element is; before: what comes before the first."""
        at = of_each(values, others)
        at = on.put("Where", on.put("Less", at, 0), on.put("Add", at, sizes), at)
        lowest = on.put("Where", rises, zero, before)
        return on.put("Min", on.put("Max", at, lowest), on.put("Where", rises, sizes, on.put("Sub", sizes, 1)))

    first, end = bound(starts, 0, 0), bound(ends, sizes, -1)
    apart = on.put("Sub", end, first)
    far = on.put("Max", on.put("Where", rises, apart, on.put("Neg", apart)), 0)
    counts = on.put("Div", on.put("Sub", on.put("Add", far, size_of_step), 1), size_of_step)
    for axis in range(rank) if known is None else sorted({int(each) % rank for each in known.ravel()}):
        number, start, step = (on.put("Gather", each, axis) for each in (counts, first, by))
        x = on.put("Gather", x, on.put("Add", on.put("Mul", on.count(number), step), start), axis=axis)
    return x
