"""Rules for what Pad puts around, and for what Slice leaves out.

What Pad puts around other than one number is gathered along each dim, and Slice begins where there is an element.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from opsplice.onnx.rules.node_writer import NodeWriter, attribute, input_name

# What exporters write for an end that is not known.
_NO_SIZE = np.iinfo(np.int32).max


def pad(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """What negative pads leave out is cut off first: IREE does not compile it, or moves the rest elsewhere.

    Of other modes than one number around, IREE lowers some, and its compiler does not end at others.
    """
    x, pads, axes = node.input[0], on.constant(input_name(node, 1)), on.constant(input_name(node, 3))
    mode, shape = attribute(node, "mode", b"constant"), on.shape(x)
    if pads is None or shape is None or (axes is None and input_name(node, 3)):
        return None
    named = range(len(shape)) if axes is None else [int(axis) % len(shape) for axis in axes]
    sides = {axis: (int(pads[i]), int(pads[i + len(named)])) for i, axis in enumerate(named)}
    sides = {axis: side for axis, side in sides.items() if side != (0, 0)}
    negative = {axis: side for axis, side in sides.items() if min(side) < 0}
    if mode == b"constant" and not negative:
        return None
    if negative:
        starts = [max(-before, 0) for before, _ in negative.values()]
        ends = [min(after, 0) or np.iinfo(np.int64).max for _, after in negative.values()]
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
            places = _places_around(on, on.size(x, axis), side, mode)
        x = on.put("Gather", x, places, axis=axis)
    return x if sides else on.put("Identity", x)


def _places_around(on: NodeWriter, size: str, side: tuple[int, int], mode: bytes) -> str:
    """For each place of a dim of an open size with what is put around, the place of the element that it takes."""
    before, after, one = (on.give(np.array(number)) for number in (-side[0], side[1], 1))
    places = on.put("Range", before, on.put("Add", size, after), one)
    if mode == b"wrap":
        return on.put("Mod", places, size)
    last = on.put("Sub", size, one)
    if mode == b"edge":
        return on.put("Min", on.put("Max", places, 0), last)
    return on.put("Sub", last, on.put("Abs", on.put("Sub", last, on.put("Abs", places))))


def cut(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Backwards from behind the end, where IREE reads what lies there, as from the last element."""
    starts, axes, steps = (on.constant(input_name(node, number)) for number in (1, 3, 4))
    shape = on.shape(node.input[0])
    if starts is None or steps is None or not shape or (axes is None and input_name(node, 3)):
        return None
    begins = [int(start) for start in starts.ravel()]
    places = [number if axes is None else int(axes.ravel()[number]) % len(shape) for number in range(len(begins))]
    may_be_behind = []
    for number, (start, step) in enumerate(zip(begins, steps.ravel(), strict=True)):
        size = shape[places[number]]
        if step < 0 and (start >= _NO_SIZE if size is None else start >= size > 0):
            begins[number] = -1
        elif step < 0 <= start and size is None:
            may_be_behind.append(number)
    if not may_be_behind:
        if begins == starts.ravel().tolist():
            return None
        return on.put("Slice", node.input[0], np.array(begins, starts.dtype), *node.input[2:])
    x, others = node.input[0], [number for number in range(len(begins)) if number not in may_be_behind]
    for numbers in filter(None, (others, *([number] for number in may_be_behind))):
        first: str | list[int] = [begins[number] for number in numbers]
        if numbers != others:
            last = on.put("Sub", on.put("Gather", on.put("Shape", x), [places[numbers[0]]]), 1)
            first = on.put("Min", last, first)
        ends, along = on.put("Gather", node.input[2], numbers), [places[number] for number in numbers]
        x = on.put(
            "Slice", x, first, on.put("Cast", ends, to=TensorProto.INT64), along, steps.ravel()[numbers].tolist()
        )
    return x
