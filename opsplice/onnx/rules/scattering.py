"""Rules for elements that are read and written at places which are values."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opsplice.onnx.rules.arithmetic import integers
from opsplice.onnx.rules.node_writer import NodeWriter, attribute, attributes, input_name

_EXTREMES = (b"max", b"min")


def scatter_elements(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """By whole places, where the larger or the smaller element stays: IREE does not lower it by places along a dim."""
    if (result := _of_flags(on, node)) is not None:
        return result
    x, indices, updates = node.input
    shape, sizes = on.shape(x), on.shape(indices)
    kind = attribute(node, "reduction", b"none")
    if kind not in _EXTREMES or shape is None or sizes is None:
        return None
    axis = attribute(node, "axis", 0) % len(shape)
    from_end = on.put("Less", indices, on.number(0, indices))
    size = on.cast(on.size(x, axis), on.element(indices))
    along = on.cast(on.put("Where", from_end, on.put("Add", indices, size), indices), TensorProto.INT64)
    spread = on.put("Shape", indices)
    places = [along]
    for other in range(len(shape)):
        if other != axis:
            line = on.put("Reshape", on.places(indices, other), [-1, *[1] * (len(shape) - 1 - other)])
            places.insert(other, on.put("Expand", line, spread))
    parts = [on.put("Unsqueeze", each, [-1]) for each in places]
    return on.put("ScatterND", x, on.put("Concat", *parts, axis=-1), updates, reduction=kind)


def scatter_nd(on: NodeWriter, node: onnx.NodeProto) -> str | list[str] | None:
    """Of indices of as many dims as the updates leave, where that is not said: IREE has to know it.

    Of integers without a sign, which IREE compares as if they had one, wider ones.
    """
    if 0 in (on.shape(node.input[2]) or ()):  # at such IREE's compiler ends the process
        return on.put("Identity", node.input[0])
    if (result := _of_flags(on, node)) is not None:
        return result
    if attribute(node, "reduction", b"none") in _EXTREMES and (wide := integers.wider(on, node)) is not None:
        return wide
    x, indices, updates = (on.shape(name) for name in node.input)
    if x is None or indices is None or updates is None:
        return None
    return _of_depth(on, node, len(x) + len(indices) - 1 - len(updates))


def gather_nd(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of indices of as many dims as the result leaves, where that is not said: IREE has to know it."""
    x, indices, result = (on.shape(name) for name in (*node.input, node.output[0]))
    if x is None or indices is None or result is None:
        return None
    return _of_depth(on, node, len(x) + len(indices) - 1 - len(result) - attribute(node, "batch_dims", 0))


def _of_flags(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Of truth values, a larger or a smaller one of integers: IREE adds, multiplies and compares them otherwise."""
    form = attributes(node)
    kind = form.get("reduction", b"none")
    if on.element(node.input[0]) != TensorProto.BOOL or kind == b"none":
        return None
    form["reduction"] = {b"add": b"max", b"mul": b"min"}.get(kind, kind)
    x, indices, updates = node.input
    x, updates = (on.put("Cast", each, to=TensorProto.INT32) for each in (x, updates))
    return on.put("Cast", on.put(node.op_type, x, indices, updates, **form), to=TensorProto.BOOL)


def _of_depth(on: NodeWriter, node: onnx.NodeProto, depth: int) -> str | None:
    sizes = on.shape(node.input[1]) or []
    if not sizes or sizes[-1] is not None:
        return None
    indices = on.put("Reshape", node.input[1], [*[0] * (len(sizes) - 1), depth])
    return on.put(node.op_type, node.input[0], indices, *node.input[2:], **attributes(node))


def reverse_sequence(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """Elements by their places: IREE does not compile it."""
    x, lengths = node.input
    shape, time, batch = on.shape(x), attribute(node, "time_axis", 0), attribute(node, "batch_axis", 1)
    if shape is None:
        return None
    places, ends = (
        on.put("Unsqueeze", each, np.delete(np.arange(len(shape)), axis))
        for each, axis in ((on.places(x, time), time), (on.cast(lengths, TensorProto.INT64), batch))
    )
    mirrored = on.put("Sub", on.put("Sub", ends, 1), places)
    taken = on.put("Where", on.put("Less", places, ends), mirrored, places)
    return on.put("GatherElements", x, on.put("Expand", taken, on.put("Shape", x)), axis=time)


def into_cache(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """TensorScatter: of each batch, its new elements from its place on, in a ring if that is asked."""
    cache, update, begins = node.input[0], node.input[1], input_name(node, 2)
    shape = on.shape(cache)
    if shape is None:
        return None
    axis, dims = attribute(node, "axis", -2) % len(shape), len(shape)
    places = on.put("Reshape", on.places(cache, axis), [-1, *[1] * (dims - 1 - axis)])
    if begins:
        places = on.put("Sub", places, on.put("Reshape", begins, [-1, *[1] * (dims - 1)]))
    if attribute(node, "mode", b"linear") == b"circular":
        places = on.put("Mod", places, on.size(cache, axis))
    zero, count = on.give(np.array(0)), on.size(update, axis)
    is_new = on.put("And", on.put("GreaterOrEqual", places, zero), on.put("Less", places, count))
    # Gathered where they are read or not: the nearest place that there is.
    read = on.put("Max", on.put("Min", places, on.put("Sub", count, 1)), zero)
    new = on.put("GatherElements", update, on.put("Expand", read, on.put("Shape", cache)), axis=axis)
    return on.put("Where", is_new, new, cache)


def unpooled(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """MaxUnpool: elements at their places among those of the tensor that was pooled, and zeros behind it."""
    x, places, wanted = node.input[0], node.input[1], input_name(node, 2)
    shape, kernel = on.shape(x), attribute(node, "kernel_shape", [])
    if shape is None:
        return None
    dims = len(kernel)
    steps, pads = attribute(node, "strides", [1] * dims), np.array(attribute(node, "pads", [0] * 2 * dims))
    added = np.array(kernel) - np.array(steps) - pads[:dims] - pads[dims:]
    sizes = on.put("Add", on.put("Mul", on.put("Shape", x), [1, 1, *steps]), [0, 0, *added])
    kind = helper.tensor_dtype_to_np_dtype(on.element(x))
    nothing = numpy_helper.from_array(np.zeros(1, kind))
    flat = on.put("ConstantOfShape", on.put("ReduceProd", sizes, keepdims=1), value=nothing)
    made = on.put("ScatterElements", flat, on.put("Reshape", places, [-1]), on.put("Reshape", x, [-1]), axis=0)
    image = on.put("Reshape", made, sizes)
    if not wanted:
        return image
    behind = on.put("Sub", wanted, sizes)
    return on.put("Pad", image, on.put("Concat", np.zeros(dims + 2, np.int64), behind, axis=0))
